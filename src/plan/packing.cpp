#include "plan/packing.h"

#include "base/assert.h"
#include "base/random.h"

#include <algorithm>
#include <cstdlib>

namespace chaos::plan {
namespace {

__extension__ using i128 = __int128;

constexpr int entry_bits = 30;
constexpr int constant_bits = 44;                              // the largest capacity is 2^44
constexpr std::int64_t largest_entry = std::int64_t{1} << 46;  // beyond, rounding has taken over
constexpr std::int64_t smallest_pivot = std::int64_t{1} << 16;
constexpr std::int64_t smallest_gain = std::int64_t{1} << 18;  // 1 / 4096

std::int64_t times(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>((static_cast<i128>(a) * b) >> entry_bits);
}

}  // namespace

Packing::Packing(const Overlay& overlay) : overlay_(overlay) {
    for (const OverlayLink& link : overlay.links) capacity_.push_back(link.rate);
    resource_of_member_.assign(overlay.size(), nobody);
    if (overlay.capped) {
        for (std::uint32_t rank = 0; rank < overlay.size(); ++rank) {
            std::uint64_t most = 0;  // what its links can bring anyway
            for (const Neighbour& neighbour : overlay.of(rank)) most += overlay.links[neighbour.link].rate;
            if (overlay.cap[rank] >= most) continue;
            resource_of_member_[rank] = static_cast<std::uint32_t>(capacity_.size());
            capacity_.push_back(overlay.cap[rank]);
        }
    }
    const std::uint64_t largest = *std::max_element(capacity_.begin(), capacity_.end());
    for (std::uint32_t r = 0; r < capacity_.size(); ++r) {
        const std::uint64_t scaled = saturate((u128{capacity_[r]} << constant_bits) / largest);
        // Equal capacities would leave the simplex method among ties, where it may circle: shave off a different trifle
        // (at most 1 / 8192) from each.
        const std::uint64_t trifle = (scaled >> 23) * (random_bits(r, 0, 0) & 1023);
        constant_.push_back(static_cast<std::int64_t>(std::max<std::uint64_t>(scaled - trifle, 1)));
        basic_.push_back(r);
        place_.push_back(r);
    }
}

void Packing::add(const Tree& tree) {
    const auto rows = static_cast<std::uint32_t>(basic_.size());
    Column column;
    column.variable = rows + trees_++;
    column.gain = one;
    column.entries.assign(rows, 0);
    const auto use = [&](std::uint32_t resource) {
        const std::uint32_t place = place_[resource];
        if ((place & in_column) == 0) {
            column.entries[place] += one;
            return;
        }
        const Column& slack = columns_[place & ~in_column];
        for (std::uint32_t row = 0; row < rows; ++row) column.entries[row] += slack.entries[row];
        column.gain += slack.gain;
    };
    for (std::uint32_t rank = 0; rank < tree.link.size(); ++rank) {
        if (tree.link[rank] == nobody) continue;
        use(tree.link[rank]);
        for (const std::uint32_t end : {rank, tree.parent[rank]}) {
            if (resource_of_member_[end] != nobody) use(resource_of_member_[end]);
        }
    }
    place_.push_back(static_cast<std::uint32_t>(columns_.size()) | in_column);
    columns_.push_back(std::move(column));
}

void Packing::solve(std::uint64_t& work) {
    while (work > 0 && !exhausted_) {
        std::size_t entering = columns_.size();
        for (std::size_t j = 0; j < columns_.size(); ++j) {
            if (columns_[j].gain <= smallest_gain) continue;
            if (entering == columns_.size() || columns_[j].gain > columns_[entering].gain) entering = j;
        }
        if (entering == columns_.size()) return;
        const Column& column = columns_[entering];
        std::uint32_t leaving = nobody;
        for (std::uint32_t row = 0; row < basic_.size(); ++row) {
            if (column.entries[row] < smallest_pivot) continue;
            if (leaving == nobody) {
                leaving = row;
                continue;
            }
            const i128 mine = static_cast<i128>(constant_[row]) * column.entries[leaving];
            const i128 best = static_cast<i128>(constant_[leaving]) * column.entries[row];
            if (mine < best || (mine == best && column.entries[row] > column.entries[leaving])) leaving = row;
        }
        if (leaving == nobody) return;
        work -= std::min(work, pivot(entering, leaving));
    }
}

std::uint64_t Packing::pivot(std::size_t entering, std::uint32_t leaving) {
    Column& column = columns_[entering];
    const std::int64_t pivot_entry = column.entries[leaving];
    touched_.clear();
    for (std::uint32_t row = 0; row < basic_.size(); ++row) {
        if (row != leaving && column.entries[row] != 0) touched_.push_back(row);
    }
    const auto over_pivot = [&](std::int64_t value) {
        return static_cast<std::int64_t>((static_cast<i128>(value) << entry_bits) / pivot_entry);
    };
    const std::int64_t step = over_pivot(constant_[leaving]);
    for (const std::uint32_t row : touched_) {
        constant_[row] = std::max<std::int64_t>(constant_[row] - times(column.entries[row], step), 0);
    }
    constant_[leaving] = step;
    std::uint64_t changed = basic_.size();
    for (std::size_t j = 0; j < columns_.size(); ++j) {
        Column& other = columns_[j];
        if (j == entering || other.entries[leaving] == 0) continue;
        const std::int64_t factor = over_pivot(other.entries[leaving]);
        changed += touched_.size();
        for (const std::uint32_t row : touched_) {
            other.entries[row] -= times(column.entries[row], factor);
            if (std::abs(other.entries[row]) > largest_entry) exhausted_ = true;
        }
        other.entries[leaving] = factor;
        other.gain -= times(column.gain, factor);
    }
    for (const std::uint32_t row : touched_) column.entries[row] = -over_pivot(column.entries[row]);
    column.gain = -over_pivot(column.gain);
    column.entries[leaving] = over_pivot(one);
    std::swap(column.variable, basic_[leaving]);
    place_[column.variable] = static_cast<std::uint32_t>(entering) | in_column;
    place_[basic_[leaving]] = leaving;
    return changed;
}

std::vector<std::uint64_t> Packing::weights() const {
    std::vector<std::uint64_t> weights(trees_);
    for (std::uint32_t tree = 0; tree < trees_; ++tree) {
        const std::uint32_t place = place_[capacity_.size() + tree];
        if ((place & in_column) == 0) weights[tree] = static_cast<std::uint64_t>(constant_[place]);
    }
    return weights;
}

std::int64_t Packing::price(std::uint32_t resource) const {
    const std::uint32_t place = place_[resource];
    if ((place & in_column) == 0) return 0;
    return std::max<std::int64_t>(-columns_[place & ~in_column].gain, 0);
}

std::vector<std::uint64_t> Packing::prices() const {
    std::vector<std::uint64_t> prices(overlay_.links.size());
    for (std::uint32_t i = 0; i < prices.size(); ++i) {
        const OverlayLink& link = overlay_.links[i];
        std::int64_t sum = price(i);
        for (const std::uint32_t end : {link.low, link.high}) {
            if (resource_of_member_[end] != nobody) sum += price(resource_of_member_[end]);
        }
        prices[i] = static_cast<std::uint64_t>(sum);
    }
    return prices;
}

std::uint64_t Packing::bound_ns(std::uint64_t cheapest) const {
    u128 worth = 0;
    for (std::uint32_t r = 0; r < capacity_.size(); ++r)
        worth += u128{static_cast<std::uint64_t>(price(r))} * capacity_[r];
    if (worth == 0) return 0;
    // bytes * cheapest * ns_per_s / worth, in two steps that keep 128 bits.
    const u128 scaled = u128{overlay_.bytes} * cheapest;
    if (scaled < ~u128{0} / ns_per_s) return saturate(scaled * ns_per_s / worth);
    return saturate(scaled / (worth / ns_per_s + 1));
}

}  // namespace chaos::plan
