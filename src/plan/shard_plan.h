// plan/ holds decisions as pure functions: from the figures of a view to who does what. Everybody may call it; it calls
// only base/, does no I/O, and computes in integers, so that every member derives the same plan by itself.
//
// The shard plan: who sends which shard of the state to a joiner.
//
//   donor 1 == shards  0..41 ==.
//   donor 2 == shards 42..55 ==+==> joiner       all at once, each at its own rate; they should finish together
//   donor 3 == shards 56..79 =='
//
// The state is cut into shards of one size s out of a chain (each size divides the next). Donor i, asked for n shards,
// delivers them over a link of rate b and delay l after
//
//   l + n * (s / b + o)   nanoseconds, rounded up once; 0 when n = 0
//
// where o is the donor's overhead per shard. The plan minimises the time T at which the last joiner has everything,
// exactly, over all sizes of the chain and all whole numbers of shards, subject to
//
//   a donor's limit      the bytes it sends to all joiners together, in whole shards (a limit that covers everything
//                        that is missing does not bind)
//   a donor's egress     the bytes it sends to all joiners together <= egress * T
//   a joiner's ingress   the bytes it misses <= ingress * T
//
// The last shard of the state may be short; links, limits and egress count it as a whole one. A joiner that holds a
// part of the state is sent only the shards of which it misses a byte. That is also how a plan is mended when a donor
// dies or slows: note what has arrived with hold(), drop the donor or lower its rate, plan again.
#pragma once

#include "base/result.h"
#include "plan/integers.h"

#include <cstdint>
#include <string>
#include <vector>

namespace chaos::plan {

struct ByteRange {
    std::uint64_t first = 0;
    std::uint64_t bytes = 0;

    friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct ShardDonor {
    std::uint64_t id = 0;
    std::uint64_t overhead_ns = 0;  // per shard
    std::uint64_t limit_bytes = unlimited;
    std::uint64_t egress_bytes_per_s = unlimited;
};

struct ShardLink {
    std::uint64_t donor = 0;  // its id
    std::uint64_t bytes_per_s = 0;
    std::uint64_t delay_ns = 0;
};

struct ShardJoiner {
    std::uint64_t id = 0;
    std::uint64_t ingress_bytes_per_s = unlimited;
    std::vector<ByteRange> held;  // in any order; may overlap
    std::vector<ShardLink> links;
};

// 64 KiB, 128 KiB, ..., 64 MiB
[[nodiscard]] std::vector<std::uint64_t> default_shard_sizes();

struct ShardRequest {
    std::uint64_t state_bytes = 0;
    std::vector<std::uint64_t> shard_sizes = default_shard_sizes();  // ascending, each divides the next
    std::vector<ShardDonor> donors;
    std::vector<ShardJoiner> joiners;
};

struct ShardRange {
    std::uint64_t first = 0;  // shard k is bytes [k * shard_bytes, (k + 1) * shard_bytes) of the state
    std::uint64_t count = 0;

    friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

// What one donor sends to one joiner.
struct Transfer {
    std::uint64_t joiner = 0;
    std::uint64_t donor = 0;
    std::vector<ShardRange> ranges;  // ascending, never touching
    std::uint64_t shards = 0;        // in all ranges
    std::uint64_t predicted_ns = 0;  // by this link alone

    friend bool operator==(const Transfer&, const Transfer&) = default;
};

struct ShardPlan {
    std::uint64_t shard_bytes = 0;
    std::vector<Transfer> transfers;  // by joiner, then donor; only those that send something
    std::uint64_t predicted_ns = 0;   // until the last joiner has everything
    // What nobody can beat: missing bytes / min(ingress, sum of link rates) of the slowest joiner, or all missing bytes
    // / what the donors can send together.
    std::uint64_t limit_ns = 0;
    std::vector<std::string> reasons;  // for people
};

// Refuses in words: no way to send what is missing, or a request that makes no sense.
[[nodiscard]] Result<ShardPlan> plan_shards(const ShardRequest& request);

// Notes that `range` has arrived. `held` stays ascending and disjoint if it was.
void hold(std::vector<ByteRange>& held, ByteRange range);

}  // namespace chaos::plan
