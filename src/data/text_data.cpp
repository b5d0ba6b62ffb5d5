#include "base/random.h"
#include "data/content_hash.h"
#include "data/held_out.h"
#include "data/kinds.h"
#include "data/source_file.h"
#include "text/tokenizer.h"

#include <algorithm>
#include <bit>
#include <string>
#include <variant>

namespace chaos::data {
namespace {

// Keeps the shifts apart from every other stream drawn from the run's seed.
constexpr std::uint64_t shift_stream = 0x7368696674;  // "shift"

constexpr std::int64_t byte_vocabulary = 256;

// Bytes stay bytes; a tokenizer's ids need more room.
using Tokens = std::variant<std::vector<std::uint8_t>, std::vector<text::TokenId>>;

std::uint64_t count_of(const Tokens& tokens) {
    return std::visit([](const auto& all) { return static_cast<std::uint64_t>(all.size()); }, tokens);
}

std::span<const std::byte> bytes_of(const Tokens& tokens) {
    static_assert(std::endian::native == std::endian::little, "the hash of token ids must not depend on the machine");
    return std::visit([](const auto& all) { return std::as_bytes(std::span(all)); }, tokens);
}

// Where the tokens go, in units of tokens. C is the context:
//
//     |<-------------- training -------------->|<--------- held out --------->|
//     [shift][ C ][ C ][ C ] ... [ C ][1][ rest ][ C + 1 ][ C + 1 ] ... [ rest ]
//
// A sample is C + 1 tokens: the first C are its input, the last C its targets. Training samples lie C apart, so the
// last token of one is the first of the next and no token is a target twice a pass; every pass moves them by its
// own shift in [0, C), and the rest has room for the largest. Held-out samples lie C + 1 apart and share nothing.
struct Layout {
    std::uint64_t context = 0;
    std::uint64_t train_samples = 0;
    std::uint64_t held_out_begin = 0;
    std::uint64_t held_out_samples = 0;
};

// How many tokens at the end are held out.
Result<std::uint64_t> held_out_tokens(double held_out, std::uint64_t tokens, std::uint64_t window) {
    CHAOS_CHECK(check_held_out(held_out));
    if (held_out == 0) return std::uint64_t{0};
    const std::string there = "data.files hold " + std::to_string(tokens) + " tokens, ";
    const std::string needed = " tokens are needed (data.context + 1 for each sample)";
    if (held_out < 1) {
        const std::uint64_t share = share_of(held_out, tokens);
        if (share >= window) return share;
        return Error{there + "of which " + held_out_text(held_out) + " takes " + std::to_string(share) +
                     "; for one held-out sample " + std::to_string(window) + needed};
    }
    const std::uint64_t most_samples = tokens / window;
    if (held_out <= static_cast<double>(most_samples)) return static_cast<std::uint64_t>(held_out) * window;
    const double wanted = held_out * static_cast<double>(window);
    const bool countable = wanted < 0x1p53;
    return Error{there + "but for " + held_out_text(held_out) + " samples " +
                 (countable ? std::to_string(static_cast<std::uint64_t>(wanted)) : "far more") + needed};
}

Result<Layout> lay_out(const run::Data& data, std::uint64_t tokens) {
    if (data.context < 1) return Error{"data.context is " + std::to_string(data.context) + "; it must be 1 or more"};
    Layout layout;
    layout.context = static_cast<std::uint64_t>(data.context);
    const std::uint64_t window = layout.context + 1;
    CHAOS_TRY(const std::uint64_t held_out, held_out_tokens(data.held_out, tokens, window));
    const std::uint64_t training = tokens - held_out;
    // One window behind the largest shift.
    const std::uint64_t least = layout.context - 1 + window;
    if (training < least) {
        return Error{"data.files hold " + std::to_string(tokens) + " tokens, of which " + held_out_text(data.held_out) +
                     " leaves " + std::to_string(training) + "; to train with data.context = " +
                     std::to_string(layout.context) + " at least " + std::to_string(least) + " are needed"};
    }
    layout.train_samples = (training - layout.context) / layout.context;
    layout.held_out_begin = training;
    layout.held_out_samples = held_out / window;
    return layout;
}

class TextDataset final : public Dataset {
public:
    TextDataset(Tokens tokens, const Layout& layout, std::int64_t vocabulary, const Digest& content_hash)
        : tokens_(std::move(tokens)), layout_(layout), content_hash_(content_hash) {
        shape_.tokens = true;
        shape_.input = {static_cast<std::int64_t>(layout.context)};
        shape_.classes = vocabulary;
        shape_.target_per_position = true;
    }

    [[nodiscard]] const SampleShape& shape() const override { return shape_; }
    [[nodiscard]] std::uint64_t train_samples() const override { return layout_.train_samples; }
    [[nodiscard]] std::uint64_t held_out_samples() const override { return layout_.held_out_samples; }
    [[nodiscard]] const Digest& content_hash() const override { return content_hash_; }

    void fetch(std::uint64_t seed, std::uint64_t pass, std::span<const std::uint64_t> numbers,
               Batch& batch) const override {
        const std::uint64_t shift = random_bits(seed, pass, shift_stream) % layout_.context;
        size_batch(numbers.size(), batch);
        for (std::size_t place = 0; place < numbers.size(); ++place) {
            CHAOS_ASSERT(numbers[place] < train_samples());
            write_sample(shift + numbers[place] * layout_.context, place, batch);
            batch.samples[place] = numbers[place];
        }
    }

    void fetch_held_out(std::uint64_t begin, std::uint64_t count, Batch& batch) const override {
        CHAOS_ASSERT(begin <= held_out_samples() && count <= held_out_samples() - begin);
        size_batch(count, batch);
        for (std::uint64_t place = 0; place < count; ++place) {
            const std::uint64_t number = begin + place;
            write_sample(layout_.held_out_begin + number * (layout_.context + 1), place, batch);
            batch.samples[place] = train_samples() + number;
        }
    }

private:
    void size_batch(std::size_t count, Batch& batch) const {
        batch.count = static_cast<std::int64_t>(count);
        batch.values.clear();
        batch.tokens.resize(count * layout_.context);
        batch.targets.resize(count * layout_.context);
        batch.samples.resize(count);
    }

    void write_sample(std::uint64_t first_token, std::size_t place, Batch& batch) const {
        const std::size_t context = layout_.context;
        std::visit(
            [&](const auto& all) {
                const auto* input = all.data() + first_token;
                std::copy(input, input + context, batch.tokens.data() + place * context);
                std::copy(input + 1, input + 1 + context, batch.targets.data() + place * context);
            },
            tokens_);
    }

    Tokens tokens_;
    Layout layout_;
    Digest content_hash_;
    SampleShape shape_;
};

Result<Tokens> read_tokens(const std::vector<std::filesystem::path>& paths, const text::Tokenizer* tokenizer) {
    std::vector<SourceFile> files;
    std::size_t total_bytes = 0;
    for (const auto& path : paths) {
        CHAOS_TRY(SourceFile file, open_source(path, "data.files"));
        total_bytes += file.bytes().size();
        files.push_back(std::move(file));
    }
    if (tokenizer == nullptr) {
        std::vector<std::uint8_t> bytes;
        bytes.reserve(total_bytes);
        for (const SourceFile& file : files) {
            const auto* begin = reinterpret_cast<const std::uint8_t*>(file.bytes().data());
            bytes.insert(bytes.end(), begin, begin + file.bytes().size());
        }
        return Tokens(std::move(bytes));
    }
    std::vector<text::TokenId> ids;
    for (const SourceFile& file : files) {
        const auto bytes = file.bytes();
        if (bytes.size() > text::max_text_bytes)
            return source_error(file, "has " + std::to_string(bytes.size()) + " bytes; a tokenizer takes at most " +
                                          std::to_string(text::max_text_bytes) + " of one file: split it");
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        std::vector<text::TokenId> encoded = tokenizer->encode(text);
        if (ids.empty()) {
            ids = std::move(encoded);
        } else {
            ids.insert(ids.end(), encoded.begin(), encoded.end());
        }
    }
    return Tokens(std::move(ids));
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_text(const run::Data& data, const text::Tokenizer* tokenizer) {
    CHAOS_CHECK(check_named(data.files));
    CHAOS_TRY(Tokens tokens, read_tokens(data.files, tokenizer));
    CHAOS_TRY(const Layout layout, lay_out(data, count_of(tokens)));
    const std::int64_t vocabulary = tokenizer == nullptr ? byte_vocabulary : tokenizer->vocab_size();

    Sha256 content;
    add_text(content, "kind", "text");
    add_value(content, "vocabulary", static_cast<std::uint64_t>(vocabulary));
    add_value(content, "context", layout.context);
    add_value(content, "held_out_begin", layout.held_out_begin);
    add_bytes(content, tokenizer == nullptr ? "bytes" : "token_ids", bytes_of(tokens));
    return std::unique_ptr<Dataset>(
        std::make_unique<TextDataset>(std::move(tokens), layout, vocabulary, content.finish()));
}

}  // namespace chaos::data
