// The update rules: state' = update(state, R(s), scalars), elementwise over the arena. Only + - x / and square root
// in a fixed order, without contraction, so the same inputs give the same bits on every machine, with every
// instruction set and any number of threads. Joiners and the simulator apply steps with this very code.
#pragma once

#include "base/instruction_sets.h"
#include "run/run.h"
#include "state/arena.h"
#include "state/manifest.h"

#include <cstdint>
#include <span>
#include <vector>

namespace chaos::state {

// The numbers of one update, rounded once to float, the same on every member.
struct UpdateScalars {
    double learning_rate = 0.0;
    double clip_scale = 1.0;        // multiplies the gradient; 0: the update is skipped, and nothing changes
    double bias_correction1 = 1.0;  // adamw: 1 - beta1^t
    double bias_correction2 = 1.0;  // adamw: 1 - beta2^t
};

// Of a step whose result is of no use.
inline constexpr UpdateScalars skipped_update{
    .learning_rate = 0.0, .clip_scale = 0.0, .bias_correction1 = 1.0, .bias_correction2 = 1.0};

// Scalars of update number `step` (the first is 0) for a gradient of this norm.
[[nodiscard]] UpdateScalars update_scalars(const run::Run& run, std::uint64_t step, double gradient_norm);

// Moments a rule keeps for each parameter: 2 for adamw, 1 for sgd.
[[nodiscard]] unsigned slots_of(const run::Optimizer& optimizer);

// Applies one step; `path` is for tests that compare the bits of all. `result` is R(s): gradient, then buffers, which
// replace the arena's.
void apply_update(const run::Optimizer& optimizer, const Manifest& manifest, const UpdateScalars& scalars,
                  std::span<const float> result, Arena& arena, Path path = Path::best);

// The same for the parameters [begin, begin + gradient.size()) alone, with the same bits: what a joiner does with the
// shards that it holds. Buffers are not touched.
void apply_update_to(const run::Optimizer& optimizer, const Manifest& manifest, const UpdateScalars& scalars,
                     std::uint64_t begin, std::span<const float> gradient, Arena& arena, Path path = Path::best);

// What is read off R(s) before it is applied: the gradient's norm (sums of fixed blocks in fixed order) and the XXH3
// of the whole, computed in one pass.
struct ResultDigest {
    double norm = 0.0;
    bool finite_buffers = true;
    std::uint64_t hash = 0;
};
[[nodiscard]] ResultDigest digest_result(std::span<const float> result, std::uint64_t parameter_elements);

// The same for a result that comes about piece by piece: what is there is read while the rest is on its way.
class ResultDigester {
public:
    // The result stays where it is.
    ResultDigester(std::span<const float> result, std::uint64_t parameter_elements);
    // Values [begin, end) are there, and stay as they are. Blocks that are not whole in it are left for later.
    void read(std::uint64_t begin, std::uint64_t end);
    // All values are there.
    [[nodiscard]] ResultDigest finish();

private:
    struct Block {
        bool read = false;
        double sum = 0.0;
        std::uint64_t hash = 0;
    };
    [[nodiscard]] Block of(std::span<const float> values, std::uint64_t in_gradient) const;

    std::span<const float> result_;
    std::uint64_t parameter_elements_;
    std::vector<Block> blocks_;
};

}  // namespace chaos::state
