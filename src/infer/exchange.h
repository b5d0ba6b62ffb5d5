// Those who compute a model together, each a slice of it (slice.h), as the engine sees them. All of them compute the
// same pieces at the same time, so what they exchange comes in the same order everywhere.
//
// What is added are integers: every member gets the same sums, whoever adds first, and the same as one alone would.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chaos::infer {

class Exchange {
public:
    virtual ~Exchange() = default;

    // Whether long pieces are computed by halves, so that the sums of one travel while the other is computed. All
    // members do the same. It is not for those who stream weights, once for each half.
    [[nodiscard]] virtual bool by_halves() const { return true; }

    // Adds the other members' sums to ours, in place. begin() sends ours off and returns at once; at most two sums may
    // be under way, and they end in the order in which they began. An error: somebody is not there any more, and
    // nothing of the pass counts.
    [[nodiscard]] virtual Result<void> begin_sum(std::span<std::int64_t> sums) = 0;
    [[nodiscard]] virtual Result<void> end_sum() = 0;

    // Called now and then while a pass is computed: whoever has to answer others does so.
    virtual void between() {}

    // Once at the end of every pass: what each member has to say, by its place among them, ours included. Good until
    // the next call.
    [[nodiscard]] virtual Result<std::span<const std::vector<std::byte>>> collect(std::vector<std::byte> ours) = 0;
};

}  // namespace chaos::infer
