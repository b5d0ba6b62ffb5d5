// How fast this node is: what was measured at its start (infer/speed.h), and what rehearsals (rehearsal.h) and passes
// have taught since. Of passes, only those of one token count: they are what a plan predicts.
#pragma once

#include "infer/speed.h"
#include "tensor/rehearsal.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace chaos::tensor {

// The last passes of one division: what each took, and what this node computed of it.
class Paces {
public:
    void add(double whole_s, double own_s);
    // Enough of them to learn from.
    [[nodiscard]] bool tell() const;
    [[nodiscard]] double usual_s() const;      // of the whole; where tell()
    [[nodiscard]] double usual_own_s() const;  // likewise
    [[nodiscard]] std::optional<double> mean_s() const;
    [[nodiscard]] std::optional<double> mean_own_s() const;

private:
    std::deque<double> whole_s_, own_s_;
};

class Ability {
public:
    explicit Ability(const infer::Speed& measured);

    [[nodiscard]] std::uint64_t weight_bytes_per_s() const { return weight_bytes_per_s_; }
    [[nodiscard]] std::uint64_t phase_ns() const { return phase_ns_; }
    [[nodiscard]] std::uint64_t prompt_bytes_per_s() const { return measured_.prompt_bytes_per_s; }
    [[nodiscard]] std::uint64_t share_permille() const { return share_permille_; }

    // A token with so many bytes of weights takes this node so long, in so many phases. What was measured is off by
    // some factor, for weights and phases alike: memory is not as fast as the cache was, somebody else computes here.
    // What no such factor explains is the phases'.
    void learn(double own_s, std::uint64_t weight_bytes, std::uint64_t phases);
    // Likewise of a rehearsal, which also tells how much of the time this node computes.
    void learn(const Rehearsed& rehearsed, std::uint64_t weight_bytes, std::uint64_t phases);
    // Whether a pass tells what this node computes: where a quota makes it stand still, computing and standing still
    // look the same.
    [[nodiscard]] bool learns_from_passes() const;

private:
    infer::Speed measured_;
    std::uint64_t weight_bytes_per_s_;
    std::uint64_t phase_ns_;
    std::uint64_t share_permille_;
};

}  // namespace chaos::tensor
