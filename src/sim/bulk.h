// What trainers send each other: gradients, results, shards. Each kind says what it belongs to, and whoever receives it
// checks that before use.
#pragma once

#include "cluster/id.h"
#include "sim/toy.h"

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace chaos::sim {

// Where in the training a gradient belongs.
struct ExchangeTag {
    cluster::Name view{};
    std::uint64_t step = 0;
    std::uint64_t plan = 0;  // hash of the sync plan
    std::uint32_t tree = 0;
    bool operator==(const ExchangeTag&) const = default;
};
struct PartialSum {  // up a tree
    ExchangeTag tag;
    Gradient sum;
};
struct TreeResult {  // down a tree, relayed verbatim
    ExchangeTag tag;
    Gradient mean;
};

// A member that is short of a result asks for it; who has it answers, now or when it has.
struct ResultAsk {
    std::uint64_t step = 0;
};
struct ResultReply {
    std::uint64_t step = 0;
    ResultPtr result;  // null: it was dropped long ago
};

// A joiner pulls shards and follows. `sync` numbers the joiner's attempts: answers to an older one are dropped.
struct ShardAsk {
    std::uint64_t sync = 0;
    std::uint32_t shard = 0;
};
struct ShardData {
    std::uint64_t sync = 0;
    std::uint32_t shard = 0;
    std::uint64_t applied = 0;  // steps in it
    Digest lineage{};
    std::vector<float> floats;
};
struct FollowAsk {
    std::uint64_t sync = 0;
};
// A stable step: its result, and what the state looks like after it.
struct Follow {
    std::uint64_t sync = 0;
    std::uint64_t applied = 0;
    Digest lineage{};
    ResultPtr result;  // of step applied - 1; null in the first one
    Digest root{};
    std::vector<std::uint64_t> hashes;  // of the shards
};

using BulkBody = std::variant<PartialSum, TreeResult, ResultAsk, ResultReply, ShardAsk, ShardData, FollowAsk, Follow>;

struct Bulk {
    BulkBody body;
    std::uint64_t bytes = 0;  // on the wire
};
using BulkPtr = std::shared_ptr<const Bulk>;

}  // namespace chaos::sim
