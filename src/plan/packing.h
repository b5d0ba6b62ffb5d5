// Weights of trees: the linear program
//
//   maximise the sum of x_t   subject to   for each resource r:  sum over trees of uses(t, r) * x_t <= capacity(r)
//
// where x_t is how many bytes per second tree t carries, and a resource is a link, or a member that has a cap. Solved
// by the simplex method in fixed point: the outcome is the same on every machine, and what rounding costs is a slightly
// worse mixture, never a wrong one (its time is computed anew from the bytes). Trees may be added at any time, e.g. the
// cheapest one under the program's own prices, which makes it column generation.
#pragma once

#include "plan/overlay.h"

#include <cstdint>
#include <vector>

namespace chaos::plan {

class Packing {
public:
    explicit Packing(const Overlay& overlay);

    void add(const Tree& tree);

    // Pivots until no tree known so far improves the sum, or `work` is used up: what a pivot changes is taken off it.
    void solve(std::uint64_t& work);

    // x_t of each tree added, in order; only their proportion counts.
    [[nodiscard]] std::vector<std::uint64_t> weights() const;

    // A link's price: its own and its ends', scaled alike for all links. A tree cheaper than `one` would improve the
    // sum.
    [[nodiscard]] std::vector<std::uint64_t> prices() const;
    static constexpr std::int64_t one = std::int64_t{1} << 30;

    // No plan's load takes less than this, given what the cheapest tree costs under prices().
    [[nodiscard]] std::uint64_t bound_ns(std::uint64_t cheapest) const;

private:
    struct Column {
        std::uint32_t variable = 0;
        std::int64_t gain = 0;
        std::vector<std::int64_t> entries;  // per row
    };

    // Returns how many entries it changed.
    std::uint64_t pivot(std::size_t column, std::uint32_t row);
    [[nodiscard]] std::int64_t price(std::uint32_t resource) const;

    const Overlay& overlay_;
    std::vector<std::uint32_t> resource_of_member_;  // `nobody` where no cap can bind
    std::vector<std::uint64_t> capacity_;            // per resource, bytes per second

    // The dictionary. Variables: slack of resource r is r; tree t is resources + t. Row i says
    // basic_[i] = constant_[i] - sum over columns of entry * column's variable.
    std::vector<std::uint32_t> basic_;
    std::vector<std::int64_t> constant_;
    std::vector<Column> columns_;
    std::vector<std::uint32_t> place_;  // of each variable: its row, or its column + in_column
    std::uint32_t trees_ = 0;
    bool exhausted_ = false;  // entries grew beyond the fixed point's range: stay with what is reached
    static constexpr std::uint32_t in_column = 0x80000000;
    std::vector<std::uint32_t> touched_;  // rows of the pivot column that are not 0
};

}  // namespace chaos::plan
