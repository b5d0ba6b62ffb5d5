#include "state/update.h"

#include "base/assert.h"
#include "base/hash.h"
#include "state/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace chaos::state {
namespace {

// Work is cut into blocks of this many floats whatever the number of threads: sums have one order, and a block's
// share of every array stays in the second-level cache.
constexpr std::uint64_t block_floats = 16384;

struct AdamwScalars {
    float clip, beta1, one_minus_beta1, beta2, one_minus_beta2, root_correction, epsilon, keep, rate;
};

struct SgdScalars {
    float clip, decay, momentum, rate;
};

// The loops below are written once and compiled for each instruction set: elementwise IEEE operations give the same
// bits however many of them one instruction performs.
[[gnu::always_inline]] inline void adamw_loop(std::uint64_t n, const AdamwScalars& s, const float* __restrict gradient,
                                              float* __restrict parameter, float* __restrict first,
                                              float* __restrict second) {
    for (std::uint64_t i = 0; i < n; ++i) {
        const float g = gradient[i] * s.clip;
        const float m = s.beta1 * first[i] + s.one_minus_beta1 * g;
        const float v = s.beta2 * second[i] + s.one_minus_beta2 * (g * g);
        first[i] = m;
        second[i] = v;
        parameter[i] = parameter[i] * s.keep - s.rate * (m / (std::sqrt(v) * s.root_correction + s.epsilon));
    }
}

[[gnu::always_inline]] inline void sgd_loop(std::uint64_t n, const SgdScalars& s, const float* __restrict gradient,
                                            float* __restrict parameter, float* __restrict velocity) {
    for (std::uint64_t i = 0; i < n; ++i) {
        const float g = gradient[i] * s.clip + s.decay * parameter[i];
        const float v = s.momentum * velocity[i] + g;
        velocity[i] = v;
        parameter[i] = parameter[i] - s.rate * v;
    }
}

struct Kernels {
    void (*adamw)(std::uint64_t, const AdamwScalars&, const float*, float*, float*, float*);
    void (*sgd)(std::uint64_t, const SgdScalars&, const float*, float*, float*);
};

#define CHAOS_UPDATE_VARIANT(suffix, attribute)                                                               \
    attribute void adamw_##suffix(std::uint64_t n, const AdamwScalars& s, const float* g, float* p, float* m, \
                                  float* v) {                                                                 \
        adamw_loop(n, s, g, p, m, v);                                                                         \
    }                                                                                                         \
    attribute void sgd_##suffix(std::uint64_t n, const SgdScalars& s, const float* g, float* p, float* v) {   \
        sgd_loop(n, s, g, p, v);                                                                              \
    }                                                                                                         \
    constexpr Kernels kernels_##suffix{adamw_##suffix, sgd_##suffix};

CHAOS_VARIANTS(CHAOS_UPDATE_VARIANT)
#undef CHAOS_UPDATE_VARIANT

// A stretch of parameters that weight decay treats alike, at most one block long.
struct Block {
    std::uint64_t begin;
    std::uint64_t count;
    bool decay;
};

// Those of [begin, end), in order.
std::vector<Block> blocks_of(const Manifest& manifest, std::uint64_t begin, std::uint64_t end) {
    std::vector<Block> blocks;
    for (const TensorInfo& tensor : manifest.parameters) {
        const std::uint64_t tensor_end = std::min(end, tensor.begin + tensor.elements());
        for (std::uint64_t at = std::max(begin, tensor.begin); at < tensor_end; at += block_floats)
            blocks.push_back({at, std::min(block_floats, tensor_end - at), tensor.decay});
    }
    return blocks;
}

}  // namespace

unsigned slots_of(const run::Optimizer& optimizer) {
    return optimizer.kind == "adamw" ? 2 : 1;
}

UpdateScalars update_scalars(const run::Run& run, std::uint64_t step, double gradient_norm) {
    UpdateScalars scalars;
    scalars.learning_rate =
        learning_rate(run.schedule, run.optimizer.learning_rate, step, static_cast<std::uint64_t>(run.train.steps));
    if (const double limit = run.optimizer.clip_norm; limit > 0.0)
        scalars.clip_scale = std::min(1.0, limit / (gradient_norm + 1e-6));
    if (run.optimizer.kind == "adamw") {
        scalars.bias_correction1 = 1.0 - power(run.optimizer.beta1, step + 1);
        scalars.bias_correction2 = 1.0 - power(run.optimizer.beta2, step + 1);
    }
    return scalars;
}

void apply_update_to(const run::Optimizer& optimizer, const Manifest& manifest, const UpdateScalars& scalars,
                     std::uint64_t begin, std::span<const float> gradient, Arena& arena, Path path) {
    CHAOS_ASSERT(begin + gradient.size() <= arena.parameters().size());
    CHAOS_ASSERT(arena.slots() == slots_of(optimizer));
    if (scalars.clip_scale == 0.0) return;
    const Kernels& kernels = CHAOS_PICK(path, kernels);
    const std::vector<Block> blocks = blocks_of(manifest, begin, begin + gradient.size());
    const auto count = static_cast<std::int64_t>(blocks.size());
    float* parameters = arena.parameters().data();
    float* first = arena.slot(0).data();

    if (optimizer.kind == "adamw") {
        AdamwScalars s{};
        s.clip = static_cast<float>(scalars.clip_scale);
        s.beta1 = static_cast<float>(optimizer.beta1);
        s.one_minus_beta1 = static_cast<float>(1.0 - optimizer.beta1);
        s.beta2 = static_cast<float>(optimizer.beta2);
        s.one_minus_beta2 = static_cast<float>(1.0 - optimizer.beta2);
        s.root_correction = static_cast<float>(1.0 / std::sqrt(scalars.bias_correction2));
        s.epsilon = static_cast<float>(optimizer.epsilon);
        s.rate = static_cast<float>(scalars.learning_rate / scalars.bias_correction1);
        const auto keep = static_cast<float>(1.0 - scalars.learning_rate * optimizer.weight_decay);
        float* second = arena.slot(1).data();
#pragma omp parallel for schedule(static)
        for (std::int64_t b = 0; b < count; ++b) {
            const Block& block = blocks[static_cast<std::size_t>(b)];
            AdamwScalars mine = s;
            mine.keep = block.decay ? keep : 1.0F;
            kernels.adamw(block.count, mine, gradient.data() + (block.begin - begin), parameters + block.begin,
                          first + block.begin, second + block.begin);
        }
    } else {
        CHAOS_ASSERT(optimizer.kind == "sgd");
        SgdScalars s{};
        s.clip = static_cast<float>(scalars.clip_scale);
        s.momentum = static_cast<float>(optimizer.momentum);
        s.rate = static_cast<float>(scalars.learning_rate);
        const auto decay = static_cast<float>(optimizer.weight_decay);
#pragma omp parallel for schedule(static)
        for (std::int64_t b = 0; b < count; ++b) {
            const Block& block = blocks[static_cast<std::size_t>(b)];
            SgdScalars mine = s;
            mine.decay = block.decay ? decay : 0.0F;
            kernels.sgd(block.count, mine, gradient.data() + (block.begin - begin), parameters + block.begin,
                        first + block.begin);
        }
    }
}

void apply_update(const run::Optimizer& optimizer, const Manifest& manifest, const UpdateScalars& scalars,
                  std::span<const float> result, Arena& arena, Path path) {
    const std::size_t parameters = arena.parameters().size();
    CHAOS_ASSERT(result.size() == parameters + arena.buffers().size());
    apply_update_to(optimizer, manifest, scalars, 0, result.first(parameters), arena, path);
    if (scalars.clip_scale != 0.0) std::ranges::copy(result.subspan(parameters), arena.buffers().begin());
}

ResultDigest digest_result(std::span<const float> result, std::uint64_t parameter_elements) {
    return ResultDigester(result, parameter_elements).finish();
}

ResultDigester::ResultDigester(std::span<const float> result, std::uint64_t parameter_elements)
    : result_(result),
      parameter_elements_(parameter_elements),
      blocks_((result.size() + block_floats - 1) / block_floats) {}

ResultDigester::Block ResultDigester::of(std::span<const float> values, std::uint64_t in_gradient) const {
    // Sixteen running sums, always: lanes of a vector or not, the order is the same.
    std::array<double, 16> lanes{};
    std::uint64_t i = 0;
    for (; i + lanes.size() <= in_gradient; i += lanes.size())
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            const auto value = static_cast<double>(values[i + lane]);
            lanes[lane] += value * value;
        }
    Block block{.read = true, .sum = 0.0, .hash = xxh3(std::as_bytes(values))};
    for (const double lane : lanes) block.sum += lane;
    for (; i < in_gradient; ++i) block.sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    return block;
}

void ResultDigester::read(std::uint64_t begin, std::uint64_t end) {
    const auto first = static_cast<std::int64_t>((begin + block_floats - 1) / block_floats);
    const auto last = static_cast<std::int64_t>(end == result_.size() ? blocks_.size() : end / block_floats);
#pragma omp parallel for schedule(static)
    for (std::int64_t b = first; b < last; ++b) {
        Block& block = blocks_[static_cast<std::size_t>(b)];
        if (block.read) continue;
        const std::uint64_t at = static_cast<std::uint64_t>(b) * block_floats;
        const std::span<const float> values =
            result_.subspan(at, std::min<std::uint64_t>(block_floats, result_.size() - at));
        block =
            of(values, std::min<std::uint64_t>(values.size(), parameter_elements_ > at ? parameter_elements_ - at : 0));
    }
}

ResultDigest ResultDigester::finish() {
    read(0, result_.size());
    ResultDigest digest;
    for (const float buffer : result_.subspan(parameter_elements_))
        digest.finite_buffers = digest.finite_buffers && std::isfinite(buffer);
    double total = 0.0;
    std::vector<std::uint64_t> hashes;
    hashes.reserve(blocks_.size());
    for (const Block& block : blocks_) {
        total += block.sum;
        hashes.push_back(block.hash);
    }
    digest.norm = std::sqrt(total);
    digest.hash = xxh3(std::as_bytes(std::span(hashes)));
    return digest;
}

}  // namespace chaos::state
