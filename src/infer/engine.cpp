#include "infer/engine.h"

#include "base/assert.h"
#include "infer/candidates.h"
#include "infer/elementwise.h"
#include "infer/fetch_ahead.h"
#include "infer/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace chaos::infer {
namespace {

// With every row of the file the system maps its neighbours, too: they are given back before there are many.
constexpr std::size_t embedded_at_once = 32;

// Rows that are worth computing by halves, while the others' sums travel.
constexpr std::size_t min_rows_of_two_lanes = 16;

// How far two positions may be apart that attention takes about as long for.
constexpr std::size_t similar_positions = 256;

// Of weights that are fetched while others are waited for.
constexpr std::size_t near_bytes = 1 << 20;

// Multiplications that may be done before others are heard: some hundredths of a second, of a slow machine.
constexpr std::size_t most_at_once = std::size_t{1} << 26;

Activations::Forms forms_of(std::initializer_list<const Linear*> readers) {
    Activations::Forms forms;
    for (const Linear* reader : readers) forms.add(reader->matrix.format);
    return forms;
}

void add_bias(const Linear& linear, std::span<float> values) {
    if (!linear.bias.empty()) add(linear.bias, values);
}

// Of some rows of a matrix.
Product rows_of(Product product, const Matrix& rows, std::size_t first_row) {
    product.matrix = rows;
    product.results += first_row;
    return product;
}
FixedProduct rows_of(FixedProduct product, const Matrix& rows, std::size_t first_row) {
    product.matrix = rows;
    product.sums += first_row;
    return product;
}

// Others are heard between turns, of which none takes long. How matrices are cut changes no bit (multiply.h).
template <class AnyProduct, class Multiply>
void multiply_in_turns(Exchange& exchange, std::size_t tokens, std::span<const AnyProduct> products,
                       const Multiply& multiply) {
    const auto work_of = [&](const Matrix& matrix) { return tokens * matrix.columns * matrix.rows; };
    std::size_t work = 0;
    for (const AnyProduct& product : products) work += work_of(product.matrix);
    if (work <= most_at_once) return multiply(products);
    std::vector<AnyProduct> turn;
    std::size_t room = most_at_once;
    for (const AnyProduct& product : products) {
        const std::size_t panels = panels_of(product.matrix.rows);
        const std::size_t panel_work = std::max<std::size_t>(1, tokens * product.matrix.columns * panel_rows);
        for (std::size_t first = 0, count = 0; first < panels; first += count) {
            count = std::min(panels - first, std::max<std::size_t>(1, room / panel_work));
            Matrix rows = product.matrix;
            rows.rows = std::min(count * panel_rows, rows.rows - first * panel_rows);
            rows.packed += first * panel_bytes(rows.format, rows.columns);
            turn.push_back(rows_of(product, rows, first * panel_rows));
            room -= std::min(room, count * panel_work);
            if (room >= panel_work) continue;
            multiply(std::span<const AnyProduct>(turn));
            exchange.between();
            turn.clear();
            room = most_at_once;
        }
    }
    if (!turn.empty()) multiply(std::span<const AnyProduct>(turn));
}

// Products of matrices that a window has in parts: first of the pinned ones, while the others arrive.
template <class AnyProduct, class Multiply>
Result<void> multiply_parts(Window& window, Exchange* exchange, std::span<const Linear* const> linears,
                            std::span<const AnyProduct> products, const Multiply& multiply) {
    std::vector<AnyProduct> pinned;
    std::vector<std::pair<std::size_t, AnyProduct>> streamed;
    for (std::size_t i = 0; i < linears.size(); ++i) {
        for (std::size_t number = linears[i]->first_part; number < linears[i]->last_part; ++number) {
            const Part& part = window.parts()[number];
            const std::size_t first_row = part.first_panel * panel_rows;
            Matrix rows = linears[i]->matrix;
            rows.rows = std::min(part.panels * panel_rows, rows.rows - first_row);
            if (window.is_pinned(number)) {
                rows.packed = window.pinned(number);
                pinned.push_back(rows_of(products[i], rows, first_row));
            } else {
                streamed.emplace_back(number, rows_of(products[i], rows, first_row));
            }
        }
    }
    if (!pinned.empty()) multiply(std::span<const AnyProduct>(pinned));
    for (auto& [number, product] : streamed) {
        CHAOS_TRY(product.matrix.packed, window.acquire(number));
        multiply(std::span<const AnyProduct>(&product, 1));
        window.release(number);
        if (exchange != nullptr) exchange->between();
    }
    return {};
}

template <class AnyProduct, class Multiply>
Result<void> multiply_all(const Model& model, Exchange* exchange, std::size_t tokens,
                          std::initializer_list<const Linear*> linears, std::span<const AnyProduct> products,
                          const Multiply& multiply) {
    if (std::all_of(linears.begin(), linears.end(), [](const Linear* each) { return each->matrix.rows == 0; }))
        return {};
    const auto in_turns = [&](std::span<const AnyProduct> some) {
        if (exchange == nullptr) return multiply(some);
        multiply_in_turns(*exchange, tokens, some, multiply);
    };
    if (model.window() != nullptr)
        return multiply_parts(*model.window(), exchange, std::span(linears.begin(), linears.size()), products,
                              in_turns);
    in_turns(products);
    return {};
}

}  // namespace

Engine::Engine(const Model& model, Pool& pool, Exchange* exchange)
    : model_(model),
      config_(model.config()),
      pool_(pool),
      exchange_(exchange),
      part_(part_of(config_, model.slice())),
      angle_steps_(angle_steps(config_)),
      output_block_(output_block(config_)),
      down_block_(down_block(config_)) {
    CHAOS_ASSERT(exchange != nullptr || model.slice() == whole(config_));
    for (std::int64_t kv_head = 0; kv_head < part_.kv_heads; ++kv_head)
        queries_of_.push_back(infer::queries_of(config_, model.slice(), kv_head));
}

std::uint64_t Engine::bytes(const Config& config, std::size_t tokens, std::size_t logits) {
    const auto wide = [](std::int64_t width) { return static_cast<std::uint64_t>(width); };
    const std::uint64_t columns = wide(std::max({config.width, config.query_width(), config.ffn}));
    const std::uint64_t floats =
        wide(config.width + config.head_width + 2 * config.query_width() + 2 * config.kv_width() + 2 * config.ffn) +
        columns;
    // Sums are integers of 8 bytes, activations may be floats and bytes with scales and offsets.
    const std::uint64_t row = floats * sizeof(float) + wide(config.width) * sizeof(std::int64_t) + columns * 3 / 2;
    return tokens * row + logits * wide(config.vocab) * sizeof(float);
}

std::size_t Engine::batch_tokens() const {
    return model_.window() != nullptr ? model_.window()->plan().batch.tokens : max_tokens;
}

Result<std::span<const float>> Engine::forward(std::span<const Piece> pieces) {
    CHAOS_CHECK(lay_out(pieces));
    if (auto computed = compute(); !computed) {
        for (const Piece& piece : pieces) piece.cache->cut(piece.cache->size() - piece.tokens.size());
        return Error(computed.error());
    }
    return std::span<const float>(logits_);
}

Result<void> Engine::compute() {
    start();
    for (std::size_t index = 0; index < model_.layers().size(); ++index) {
        const LayerWeights& layer = model_.layers()[index];
        bring_near({&layer.query, &layer.key, &layer.value, &layer.output});
        for (Lane& lane : lanes_) {
            CHAOS_CHECK(end_product(lane));
            CHAOS_CHECK(attention(lane, index, layer));
        }
        bring_near({&layer.gate, &layer.up, &layer.down});
        for (Lane& lane : lanes_) {
            CHAOS_CHECK(end_product(lane));
            const bool last = index + 1 == model_.layers().size() && &lane == &lanes_.back();
            CHAOS_CHECK(ffn(lane, layer, last));
        }
    }
    bring_near({&model_.head()});
    for (Lane& lane : lanes_) CHAOS_CHECK(end_product(lane));
    return head();
}

Result<void> Engine::lay_out(std::span<const Piece> pieces) {
    std::size_t tokens = 0;
    for (const Piece& piece : pieces) {
        CHAOS_ASSERT(piece.cache != nullptr && piece.logits <= piece.tokens.size());
        tokens += piece.tokens.size();
        if (piece.tokens.size() > piece.cache->capacity() - piece.cache->size())
            return Error{"the context is full: it has room for " + std::to_string(piece.cache->capacity()) +
                         " tokens, and " + std::to_string(piece.cache->size() + piece.tokens.size()) + " are needed"};
        for (const TokenId token : piece.tokens)
            if (token < 0 || token >= config_.vocab)
                return Error{"there is no token " + std::to_string(token) + ": the model has " +
                             std::to_string(config_.vocab)};
    }
    CHAOS_ASSERT(tokens > 0 && tokens <= batch_tokens());
    rows_.clear();
    for (const Piece& piece : pieces) {
        for (std::size_t i = 0; i < piece.tokens.size(); ++i)
            rows_.push_back({piece.cache, piece.cache->size() + i, piece.tokens[i],
                             i + piece.logits >= piece.tokens.size(), piece.best});
        piece.cache->grow(piece.tokens.size());
    }
    return {};
}

void Engine::start() {
    const std::size_t rows = rows_.size();
    const auto size = [&](std::int64_t width) { return rows * static_cast<std::size_t>(width); };
    cosines_.resize(size(config_.head_width / 2));
    sines_.resize(size(config_.head_width / 2));
    hidden_.resize(size(config_.width));
    queries_.resize(size(part_.query_width()));
    attended_.resize(size(part_.query_width()));
    keys_.resize(size(part_.kv_width()));
    values_.resize(size(part_.kv_width()));
    gates_.resize(size(part_.ffn));
    ups_.resize(size(part_.ffn));
    for (std::size_t first = 0; first < rows; first += embedded_at_once) {
        pool_.run(std::min(embedded_at_once, rows - first), [&](std::size_t place) {
            const std::size_t row = first + place;
            model_.embed(rows_[row].token, row_of(hidden_, row, config_.width));
            angles_of(rows_[row].position, angle_steps_, row_of(cosines_, row, config_.head_width / 2),
                      row_of(sines_, row, config_.head_width / 2));
        });
        if (model_.window() != nullptr || rows > 1) model_.release_embeddings();
    }
    divide_into_lanes();
}

// Later rows may look back at earlier ones, so those go first.
void Engine::divide_into_lanes() {
    const bool two = exchange_ != nullptr && exchange_->by_halves() && rows_.size() >= min_rows_of_two_lanes;
    lanes_.resize(two ? 2 : 1);
    const std::size_t half = two ? (rows_.size() + 1) / 2 : rows_.size();
    lanes_.front().first = 0;
    lanes_.front().count = half;
    lanes_.front().pending = nullptr;
    if (!two) return;
    lanes_.back().first = half;
    lanes_.back().count = rows_.size() - half;
    lanes_.back().pending = nullptr;
}

// Of the rows of a lane, and their places in it.
template <class Work>
void Engine::for_rows(const Lane& lane, const Work& work) {
    pool_.run(lane.count, [&](std::size_t place) { work(lane.first + place, place); });
}

void Engine::normalize(Lane& lane, std::span<const float> weights, Activations::Forms forms) {
    lane.activations.resize(lane.count, static_cast<std::size_t>(config_.width), forms);
    for_rows(lane, [&](std::size_t row, std::size_t place) {
        thread_local std::vector<float> normalized;
        normalized.resize(static_cast<std::size_t>(config_.width));
        rms_norm(row_of(hidden_, row, config_.width), weights, static_cast<float>(config_.norm_epsilon), normalized);
        lane.activations.set(place, normalized);
    });
}

Result<void> Engine::multiply_floats(const Activations& activations, std::initializer_list<const Linear*> linears,
                                     std::span<const Product> products) {
    if (exchange_ != nullptr) exchange_->between();
    return multiply_all(model_, exchange_, activations.rows(), linears, products,
                        [&](std::span<const Product> some) { multiply(pool_, activations, some); });
}

Result<void> Engine::attention(Lane& lane, std::size_t index, const LayerWeights& layer) {
    if (part_.heads == 0) return begin_product(lane, layer.output, output_block_, false);
    normalize(lane, layer.attention_norm, forms_of({&layer.query, &layer.key, &layer.value}));
    const auto queries = static_cast<std::size_t>(part_.query_width());
    const auto keys = static_cast<std::size_t>(part_.kv_width());
    const std::array products = {Product{layer.query.matrix, queries_.data() + lane.first * queries, queries},
                                 Product{layer.key.matrix, keys_.data() + lane.first * keys, keys},
                                 Product{layer.value.matrix, values_.data() + lane.first * keys, keys}};
    CHAOS_CHECK(multiply_floats(lane.activations, {&layer.query, &layer.key, &layer.value}, products));
    for_rows(lane, [&](std::size_t row, std::size_t) { prepare_heads(index, layer, row); });
    const auto kv_heads = static_cast<std::size_t>(part_.kv_heads);
    const auto attend = [&](std::size_t chunk) { attend_row(index, lane.first + chunk / kv_heads, chunk % kv_heads); };
    pool_.run(lane.count * kv_heads, attend, rows_[lane.first].position / similar_positions);
    lane.activations.resize(lane.count, queries, forms_of({&layer.output}));
    for_rows(lane, [&](std::size_t row, std::size_t place) {
        lane.activations.set(place, row_of(attended_, row, part_.query_width()));
    });
    return begin_product(lane, layer.output, output_block_, false);
}

// Biases, norms and RoPE of one token's queries and keys; its keys and values go into the cache.
void Engine::prepare_heads(std::size_t index, const LayerWeights& layer, std::size_t row) {
    const std::span<float> queries = row_of(queries_, row, part_.query_width());
    const std::span<float> keys = row_of(keys_, row, part_.kv_width());
    const std::span<float> values = row_of(values_, row, part_.kv_width());
    add_bias(layer.query, queries);
    add_bias(layer.key, keys);
    add_bias(layer.value, values);
    const std::span<float> cosines = row_of(cosines_, row, config_.head_width / 2);
    const std::span<float> sines = row_of(sines_, row, config_.head_width / 2);
    const auto width = static_cast<std::size_t>(config_.head_width);
    const auto turn = [&](std::span<float> heads, const std::vector<float>& norm) {
        for (std::size_t first = 0; first < heads.size(); first += width) {
            const std::span<float> each = heads.subspan(first, width);
            if (!norm.empty()) rms_norm(each, norm, static_cast<float>(config_.norm_epsilon), each);
            rotate_head(each, cosines, sines);
        }
    };
    turn(queries, layer.query_norm);
    turn(keys, layer.key_norm);
    const Row& token = rows_[row];
    for (std::size_t head = 0; head < static_cast<std::size_t>(part_.kv_heads); ++head)
        token.cache->store(index, head, token.position, keys.subspan(head * width, width),
                           values.subspan(head * width, width));
}

void Engine::attend_row(std::size_t index, std::size_t row, std::size_t kv_head) {
    thread_local std::vector<float> scores;
    const Row& token = rows_[row];
    const auto first = static_cast<std::size_t>(queries_of_[kv_head].first * config_.head_width);
    const auto count = static_cast<std::size_t>(queries_of_[kv_head].count * config_.head_width);
    const float scale = 1.0F / std::sqrt(static_cast<float>(config_.head_width));
    token.cache->attend(index, kv_head, token.position + 1,
                        row_of(queries_, row, part_.query_width()).subspan(first, count), scale, scores,
                        row_of(attended_, row, part_.query_width()).subspan(first, count));
}

Result<void> Engine::ffn(Lane& lane, const LayerWeights& layer, bool last) {
    if (part_.ffn == 0) return begin_product(lane, layer.down, down_block_, last);
    normalize(lane, layer.ffn_norm, forms_of({&layer.gate, &layer.up}));
    const auto width = static_cast<std::size_t>(part_.ffn);
    const std::array products = {Product{layer.gate.matrix, gates_.data() + lane.first * width, width},
                                 Product{layer.up.matrix, ups_.data() + lane.first * width, width}};
    CHAOS_CHECK(multiply_floats(lane.activations, {&layer.gate, &layer.up}, products));
    lane.activations.resize(lane.count, width, forms_of({&layer.down}));
    for_rows(lane, [&](std::size_t row, std::size_t place) {
        const std::span<float> gates = row_of(gates_, row, part_.ffn);
        const std::span<float> ups = row_of(ups_, row, part_.ffn);
        add_bias(layer.gate, gates);
        add_bias(layer.up, ups);
        silu_times(gates, ups, gates);
        lane.activations.set(place, gates);
    });
    return begin_product(lane, layer.down, down_block_, last);
}

// What the activations give is to be added to the hidden state, with what the others have of it.
Result<void> Engine::begin_product(Lane& lane, const Linear& linear, std::size_t block_columns, bool last) {
    // Attention to much takes long, too.
    if (exchange_ != nullptr && lane.count > 1) exchange_->between();
    const auto width = static_cast<std::size_t>(config_.width);
    lane.sums.assign(lane.count * width, 0);
    const std::array products = {FixedProduct{linear.matrix, lane.sums.data(), width}};
    CHAOS_CHECK(multiply_all(
        model_, exchange_, lane.count, {&linear}, std::span<const FixedProduct>(products),
        [&](std::span<const FixedProduct> some) { multiply_fixed(pool_, lane.activations, block_columns, some); }));
    lane.pending = &linear;
    return exchange_ == nullptr ? Result<void>() : exchange_->begin_sum(lane.sums, last);
}

// Whoever waits for others' sums has cold caches when they come: what is to be multiplied then is fetched meanwhile, as
// much of it as most second caches have room for.
void Engine::bring_near(std::initializer_list<const Linear*> next) const {
    const bool waits = exchange_ != nullptr && lanes_.size() == 1 && lanes_.front().pending != nullptr;
    if (!waits || model_.window() != nullptr) return;
    exchange_->meanwhile([&] {
        std::size_t room = near_bytes;
        for (const Linear* linear : next) {
            const Matrix& matrix = linear->matrix;
            const std::size_t bytes = std::min(room, packed_bytes(matrix.format, matrix.rows, matrix.columns));
            for (std::size_t at = 0; at < bytes; at += line_bytes)
                __builtin_prefetch(matrix.packed + at, 0, second_cache);
            room -= bytes;
        }
    });
}

Result<void> Engine::end_product(Lane& lane) {
    if (lane.pending == nullptr) return {};
    if (exchange_ != nullptr) CHAOS_CHECK(exchange_->end_sum());
    const Linear& linear = *std::exchange(lane.pending, nullptr);
    const auto width = static_cast<std::size_t>(config_.width);
    for_rows(lane, [&](std::size_t row, std::size_t place) {
        const std::span<float> hidden = row_of(hidden_, row, config_.width);
        add_fixed(std::span(lane.sums).subspan(place * width, width), hidden);
        add_bias(linear, hidden);
    });
    return {};
}

Result<void> Engine::head() {
    std::vector<std::size_t> asked;
    std::vector<std::size_t> best;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        if (!rows_[row].logits) continue;
        asked.push_back(row);
        best.push_back(rows_[row].best);
    }
    const auto vocab = static_cast<std::size_t>(part_.vocab);
    const bool whole = exchange_ == nullptr || exchange_->whole_heads();
    CHAOS_ASSERT(!whole || part_.vocab == config_.vocab);
    std::vector<float>& logits = whole ? logits_ : own_logits_;
    logits.resize(asked.size() * vocab);
    if (!asked.empty() && vocab > 0) {
        Activations& activations = lanes_.front().activations;
        activations.resize(asked.size(), static_cast<std::size_t>(config_.width), forms_of({&model_.head()}));
        pool_.run(asked.size(), [&](std::size_t i) {
            const std::span<float> hidden = row_of(hidden_, asked[i], config_.width);
            rms_norm(hidden, model_.final_norm(), static_cast<float>(config_.norm_epsilon), hidden);
            activations.set(i, hidden);
        });
        const std::array products = {Product{model_.head().matrix, logits.data(), vocab}};
        CHAOS_CHECK(multiply_floats(activations, {&model_.head()}, products));
    }
    return whole ? Result<void>() : tell_each_other(best);
}

Result<void> Engine::tell_each_other(std::span<const std::size_t> best) {
    const auto vocab = static_cast<std::size_t>(config_.vocab);
    logits_.assign(best.size() * vocab, -std::numeric_limits<float>::infinity());
    if (best.empty()) return {};
    CHAOS_TRY(const auto told, exchange_->collect(tell_logits(model_.slice().vocab, own_logits_, best)));
    for (const std::vector<std::byte>& each : told) {
        if (auto heard = hear_logits(each, vocab, logits_); !heard) {
            exchange_->interrupt(heard.error().message);
            return heard;
        }
    }
    return {};
}

}  // namespace chaos::infer
