// Those who compute a model together, each a slice of it (slice.h), as the engine sees them. All of them compute the
// same pieces at the same time, so what they exchange comes in the same order everywhere.
//
// What is added are integers: every member gets the same sums, whoever adds first, and the same as one alone would.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace chaos::infer {

class Exchange {
public:
    virtual ~Exchange() = default;

    // Whether long pieces are computed by halves, so that the sums of one travel while the other is computed. All
    // members do the same. It is not for those who stream weights, once for each half.
    [[nodiscard]] virtual bool by_halves() const { return true; }

    // Whether every member has the whole head, so that none has to tell the others its logits. All members do the same.
    [[nodiscard]] virtual bool whole_heads() const { return false; }

    // Adds the other members' sums to ours, in place. begin() sends ours off and returns at once; at most two sums may
    // be under way, and they end in the order in which they began; the last one of a pass is said to be. An error:
    // somebody is not there any more, and nothing of the pass counts.
    [[nodiscard]] virtual Result<void> begin_sum(std::span<std::int64_t> sums, bool last) = 0;
    [[nodiscard]] virtual Result<void> end_sum() = 0;

    // Between begin_sum() and end_sum(): does something short, where sums usually travel for so long that there is
    // time.
    virtual void meanwhile(const std::function<void()>& /*work*/) {}

    // Called now and then while a pass is computed, never long after the last time: whoever has to answer others does
    // so. What comes then may make the next sum an error, and nothing else.
    virtual void between() {}

    // At the end of a pass: what each member has to say of the logits that were asked for, by its place among them,
    // ours included. Good until the next call.
    [[nodiscard]] virtual Result<std::span<const std::vector<std::byte>>> collect(std::vector<std::byte> ours) = 0;

    // What a member said makes no sense: from now on everything is an error, as if somebody were gone.
    virtual void interrupt(const std::string& /*why*/) {}
};

}  // namespace chaos::infer
