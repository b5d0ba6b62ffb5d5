#include "tensor/division.h"

#include <algorithm>
#include <numeric>

namespace chaos::tensor {
namespace {

// [0, all) in multiples of `unit`, in proportion to the members' weights.
std::vector<infer::Extent> shares(std::int64_t all, std::int64_t unit, std::span<const std::uint64_t> weights) {
    const auto units = static_cast<std::uint64_t>((all + unit - 1) / unit);
    const std::uint64_t total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    std::vector<infer::Extent> result;
    std::uint64_t sum = 0;
    std::int64_t first = 0;
    for (const std::uint64_t weight : weights) {
        sum += weight;
        const auto units_so_far = static_cast<std::int64_t>((2 * units * sum + total) / (2 * total));
        const std::int64_t end = std::min(units_so_far * unit, all);
        result.push_back({first, end - first});
        first = end;
    }
    return result;
}

}  // namespace

std::vector<infer::Slice> divide(const infer::Config& config, std::span<const Ability> members) {
    std::vector<std::uint64_t> weights;
    weights.reserve(members.size());
    const bool known = std::ranges::all_of(members, [](const Ability& each) { return each.weight_bytes_per_s > 0; });
    for (const Ability& each : members)
        weights.push_back(known ? std::max<std::uint64_t>(1, each.weight_bytes_per_s >> 20U) : 1);
    const auto heads = shares(config.heads, infer::head_unit(config), weights);
    const auto ffn = shares(config.ffn, infer::ffn_unit(config), weights);
    const auto vocab = shares(config.vocab, 1, weights);
    std::vector<infer::Slice> slices;
    slices.reserve(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) slices.push_back({heads[i], ffn[i], vocab[i]});
    return slices;
}

}  // namespace chaos::tensor
