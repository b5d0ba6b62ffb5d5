// The shard planner's task, and its solution for one shard size: which time is the earliest, and who sends how many.
#pragma once

#include "plan/max_flow.h"
#include "plan/shard_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace chaos::plan {

// A usable link, with its ends as indexes into donors and joiners, both ascending by id.
struct ShardWay {
    std::uint32_t joiner = 0;
    std::uint32_t donor = 0;
    std::uint64_t bytes_per_s = 0;
    std::uint64_t delay_ns = 0;
    std::uint64_t overhead_ns = 0;
};

// The request put in order: donors and joiners by id, ways by joiner, then donor; rates within range.
struct ShardTask {
    std::uint64_t state_bytes = 0;
    std::vector<ShardDonor> donors;
    std::vector<const ShardJoiner*> joiners;
    std::vector<std::vector<ByteRange>> gaps;  // per joiner: what it misses, ascending, not touching
    std::vector<ShardWay> ways;
};

// The task cut into shards of one size.
class ShardCut {
public:
    ShardCut(const ShardTask& task, std::uint64_t shard_bytes);

    // Whether all can be done by `ns`. Monotone.
    bool feasible(std::uint64_t ns);

    // The smallest feasible time in [least_ns, most_ns], if there is one.
    std::optional<std::uint64_t> earliest(std::uint64_t least_ns, std::uint64_t most_ns);

    // How many shards each way carries when all is to be done by `ns`, the earliest time.
    std::vector<std::uint64_t> assign(std::uint64_t ns);

    [[nodiscard]] const std::vector<std::vector<ShardRange>>& missing() const { return missing_; }
    [[nodiscard]] std::uint64_t way_ns(const ShardWay& way, std::uint64_t shards) const;
    [[nodiscard]] std::uint64_t donor_ns(std::uint32_t donor, std::uint64_t shards) const;  // by its egress
    [[nodiscard]] std::uint64_t limit_shards(std::uint32_t donor) const { return limit_[donor]; }

private:
    [[nodiscard]] std::uint64_t way_shards(std::size_t way, std::uint64_t ns) const;
    [[nodiscard]] std::uint64_t donor_shards(std::uint32_t donor, std::uint64_t ns) const;
    [[nodiscard]] std::uint64_t single_shards(std::size_t way, std::uint64_t ns) const {
        return std::min(way_shards(way, ns), donor_shards(task_.ways[way].donor, ns));
    }
    bool flow_fits(std::uint64_t ns);
    void make_network();

    const ShardTask& task_;
    std::uint64_t shard_bytes_;
    std::vector<std::vector<ShardRange>> missing_;  // per joiner
    std::vector<std::uint64_t> wanted_;             // per joiner: shards
    std::vector<std::uint64_t> limit_;              // per donor: shards
    std::vector<u128> shard_cost_;                  // per way: its ns per shard, times its rate
    std::uint64_t ingress_ns_ = 0;                  // the slowest joiner's ingress needs this long

    // Several joiners: source -> donors -> joiners -> sink. Arcs: donors, then ways, then joiners.
    std::optional<FlowNetwork> network_;
};

}  // namespace chaos::plan
