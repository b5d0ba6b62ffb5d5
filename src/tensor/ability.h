// How fast this node is: what was measured at its start (infer/speed.h), and what its passes have taught since. Of a
// pass, only those of one token count: they are what a plan predicts.
#pragma once

#include "infer/speed.h"

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

    // A token with so many bytes of weights takes this node so long, in so many phases: either it takes something
    // beyond the weights, or these are faster than was thought.
    void learn(double own_s, std::uint64_t weight_bytes, std::uint64_t phases);

private:
    infer::Speed measured_;
    std::uint64_t weight_bytes_per_s_;
    std::uint64_t phase_ns_;
};

}  // namespace chaos::tensor
