#include "engine.h"

#include "base/cpu_time.h"
#include "infer/engine.h"
#include "infer/huge_pages.h"
#include "infer/packing.h"
#include "machine.h"
#include "synthetic_model.h"
#include "temporary_folder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace chaos::bench {
namespace {

using infer::Engine;
using infer::KvCache;
using infer::Model;
using infer::Pool;
using infer::StoredType;

constexpr std::size_t prompt_tokens = 128;
constexpr std::array<std::size_t, 2> positions = {128, 2048};

std::vector<infer::TokenId> some_tokens(std::size_t count) {
    std::vector<infer::TokenId> tokens;
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<infer::TokenId>(i * 7919 % 8000));
    return tokens;
}

Result<Model> synthetic_model(const SyntheticModel& what, Pool& pool) {
    const test::TemporaryFolder folder;
    CHAOS_CHECK(write_synthetic_model(folder.path() / "model.gguf", what));
    CHAOS_TRY(auto file, infer::ModelFile::open(folder.path() / "model.gguf"));
    return Model::load(std::move(file), pool, {});
}

std::span<const std::byte> weights_of(const Model& model) {
    return {model.layers().front().query.matrix.packed, infer::packed_bytes(model.tensors())};
}

// What attention reads for a token behind so many others: keys and values of them all and of its own.
std::size_t kv_bytes(const infer::Config& config, std::size_t position) {
    return static_cast<std::size_t>(config.layers * config.kv_width()) * 2 * sizeof(std::uint16_t) * (position + 1);
}

// At most Engine::max_tokens.
Result<void> append(Engine& engine, KvCache& cache, std::span<const infer::TokenId> tokens) {
    const infer::Piece piece{&cache, tokens, 1};
    CHAOS_CHECK(engine.forward({&piece, 1}));
    return {};
}

// Reads and tokens take turns, so that both meet the same neighbours.
Result<void> measure_decode(const Model& model, KvCache& cache, std::size_t threads, const std::string& name,
                            int rounds, Findings& findings) {
    const std::size_t position = cache.size();
    Pool pool(threads);
    Engine engine(model, pool);
    CHAOS_TRY(const auto keys_and_values, infer::HugePages::allocate(kv_bytes(model.config(), position)));
    std::memset(keys_and_values.data(), 1, keys_and_values.bytes().size());
    const std::vector<infer::TokenId> token = some_tokens(1);
    double read = std::numeric_limits<double>::max();
    double decode = read;
    for (int round = 0; round < rounds; ++round) {
        for (const std::size_t streams : {1U, 2U, 4U, 8U}) {
            read = std::min(read, seconds_of([&] {
                                read_all(pool, weights_of(model), streams);
                                read_all(pool, keys_and_values.bytes(), streams);
                            }));
            const double start = seconds_now();
            CHAOS_CHECK(append(engine, cache, token));
            decode = std::min(decode, seconds_now() - start);
            cache.cut(position);
        }
    }
    const std::string at = position == positions.front() ? "" : "_at" + std::to_string(position);
    const std::string figure = "decode_" + name + "_" + std::to_string(threads) + "t";
    findings.add(figure + "_bandwidth_share" + at, read / decode, 3, ">= 0.9");
    findings.add(figure + "_tokens_per_s" + at, 1.0 / decode, 1);
    return {};
}

// As if so many tokens had been computed.
Result<KvCache> filled_cache(const infer::Config& config, std::size_t tokens, std::size_t capacity) {
    CHAOS_TRY(KvCache cache, KvCache::make(config, capacity, infer::KvType::f16));
    cache.grow(tokens);
    const auto width = static_cast<std::size_t>(config.head_width);
    std::vector<float> numbers(width);
    for (std::size_t i = 0; i < width; ++i) numbers[i] = static_cast<float>(i) / static_cast<float>(width) - 0.5F;
    for (std::size_t position = 0; position < tokens; ++position) {
        std::ranges::rotate(numbers, numbers.begin() + 1);
        for (std::size_t layer = 0; layer < static_cast<std::size_t>(config.layers); ++layer)
            for (std::size_t head = 0; head < static_cast<std::size_t>(config.kv_heads); ++head)
                cache.store(layer, head, position, numbers, numbers);
    }
    return cache;
}

Result<void> measure_decodes(const Model& model, const std::string& name, int rounds, Findings& findings) {
    for (const std::size_t position : positions) {
        CHAOS_TRY(KvCache cache, filled_cache(model.config(), position, positions.back() + 1));
        for (const std::size_t threads : {1U, 2U})
            CHAOS_CHECK(measure_decode(model, cache, threads, name, rounds, findings));
    }
    return {};
}

// One thread: the peak is one core's. Its CPU time counts, as others take turns on the core.
Result<void> measure_prefill(const Model& model, const std::string& name, bool quantized, int rounds,
                             Findings& findings) {
    CHAOS_TRY(KvCache cache, KvCache::make(model.config(), prompt_tokens, infer::KvType::f16));
    Pool pool(1);
    Engine engine(model, pool);
    const std::vector<infer::TokenId> tokens = some_tokens(prompt_tokens);
    double multiply_adds = 0.0;
    for (const infer::PackedTensor& tensor : model.tensors()) {
        const bool is_head = tensor.shape.rows == static_cast<std::size_t>(model.config().vocab);
        multiply_adds += static_cast<double>(tensor.shape.rows * tensor.shape.columns * (is_head ? 1 : prompt_tokens));
    }
    double peak = 0.0;
    double best = std::numeric_limits<double>::max();
    for (int round = 0; round < rounds; ++round) {
        cache.cut(0);
        for (int i = 0; i < 10; ++i) peak = std::max(peak, quantized ? byte_peak() : float_peak());
        const auto start = static_cast<double>(thread_cpu_ns());
        CHAOS_CHECK(append(engine, cache, tokens));
        best = std::min(best, (static_cast<double>(thread_cpu_ns()) - start) * 1e-9);
    }
    findings.add("prefill_" + name + "_peak_share", multiply_adds / best / peak, 3, quantized ? ">= 0.6" : ">= 0.8");
    return {};
}

}  // namespace

Result<void> measure_engine(bool quick, Findings& findings) {
    Pool pool(2);
    for (const auto& [type, name] : {std::pair{StoredType::q4_0, "q4"}, {StoredType::q8_0, "q8"}}) {
        CHAOS_TRY(const Model model, synthetic_model({.type = type}, pool));
        CHAOS_CHECK(measure_decodes(model, name, quick ? 3 : 10, findings));
        CHAOS_CHECK(measure_prefill(model, name, true, quick ? 2 : 8, findings));
    }
    // A few layers say the same as many, which would be 2 GB of floats.
    CHAOS_TRY(const Model model, synthetic_model({.layers = 4, .vocabulary = 8000, .type = StoredType::f16}, pool));
    return measure_prefill(model, "f16", false, quick ? 2 : 8, findings);
}

}  // namespace chaos::bench
