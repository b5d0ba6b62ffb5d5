#include "infer/slice.h"

#include "infer/multiply.h"

#include <algorithm>
#include <numeric>

namespace chaos::infer {
namespace {

constexpr auto smallest_block = static_cast<std::int64_t>(scale_columns);

// As many columns as stay together, or the fewest that kernels know.
std::size_t block_of(std::int64_t columns) {
    return columns % smallest_block == 0 ? block_columns_of(static_cast<std::size_t>(columns)) : scale_columns;
}

bool begins_a_unit(std::int64_t at, std::int64_t unit, std::int64_t all) {
    return at % unit == 0 || at == all;
}

bool fits(const Extent& extent, std::int64_t unit, std::int64_t all) {
    return extent.first >= 0 && extent.count >= 0 && extent.count <= all && extent.first <= all - extent.count &&
           begins_a_unit(extent.first, unit, all) && begins_a_unit(extent.end(), unit, all);
}

}  // namespace

Slice whole(const Config& config) {
    return {.heads = {0, config.heads}, .ffn = {0, config.ffn}, .vocab = {0, config.vocab}};
}

Result<void> check_slice(const Config& config, const Slice& slice) {
    if (!fits(slice.heads, head_unit(config), config.heads))
        return Error{"heads are divided in units of " + std::to_string(head_unit(config)) + " of " +
                     std::to_string(config.heads)};
    if (!fits(slice.ffn, ffn_unit(config), config.ffn))
        return Error{"FFN columns are divided in units of " + std::to_string(ffn_unit(config)) + " of " +
                     std::to_string(config.ffn)};
    if (!fits(slice.vocab, 1, config.vocab))
        return Error{"there are " + std::to_string(config.vocab) + " rows of the head to divide"};
    return {};
}

std::int64_t head_unit(const Config& config) {
    return smallest_block / std::gcd(config.head_width, smallest_block);
}

std::int64_t ffn_unit(const Config& config) {
    return static_cast<std::int64_t>(down_block(config));
}

std::size_t output_block(const Config& config) {
    return block_of(config.head_width);
}

std::size_t down_block(const Config& config) {
    return block_of(config.ffn);
}

Extent kv_heads_of(const Config& config, const Slice& slice) {
    if (slice.heads.count == 0) return {};
    const std::int64_t group = config.heads / config.kv_heads;
    const std::int64_t first = slice.heads.first / group;
    return {first, (slice.heads.end() - 1) / group + 1 - first};
}

Extent queries_of(const Config& config, const Slice& slice, std::int64_t kv_head) {
    const std::int64_t group = config.heads / config.kv_heads;
    const std::int64_t begin = (kv_heads_of(config, slice).first + kv_head) * group;
    const std::int64_t first = std::max(begin, slice.heads.first);
    return {first - slice.heads.first, std::min(begin + group, slice.heads.end()) - first};
}

Config part_of(const Config& config, const Slice& slice) {
    Config part = config;
    part.heads = slice.heads.count;
    part.kv_heads = kv_heads_of(config, slice).count;
    part.ffn = slice.ffn.count;
    part.vocab = slice.vocab.count;
    return part;
}

}  // namespace chaos::infer
