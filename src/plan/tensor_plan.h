// The tensor plan: how a language model is divided over unequal devices that compute every token together.
//
//            query heads      FFN units        vocabulary
//   device 1 |######|         |#####|          |####|             each has a range of all three, some of which may be
//   device 2        |##|            |##|            |##|          empty, and the KV heads that its query heads look
//   device 3           |####|          |####|          |####|     at; a member that has nothing at all only relays
//
// Ranges follow the order of ids, so that a changed speed moves their borders and not the ranges. A KV head is kept by
// everyone who has one of its query heads.
//
// What a token takes. With b the bytes of weights that a device multiplies in a phase,
//
//   phase    = the largest phase_ns + b / weight_bytes_per_s of any device
//   exchange = as long as the sums of all take to reach all, 8 bytes per value of the width (below)
//   phases   = layers * (attention + exchange + FFN + exchange) + head + exchange of candidates, or
//              layers * (attention + exchange + FFN + exchange) + the whole head                  (whole heads)
//   disk     = the largest streamed bytes / disk_bytes_per_s of any device
//   rests    = the largest (its own phases + its messages) / share of any device
//   token    = the longest of the three: weights that do not fit into memory arrive while others are computed, and who
//              waits for others rests meanwhile
//
// A device that may only compute for a share of the time (a quota, a neighbour) does so at full speed until its time is
// spent, and then stands still until the next period. Where several wait for each other, each one's standing still
// spares the others' time, whenever their periods begin: they are as fast as the one that stands still most, and not as
// the sum of all. Shares are sought as if devices computed all the time and slower, which balances what each spends.
//
//   memory   = program + everywhere + keys and values of its KV heads + weights            where all of them fit,
//              program + everywhere + keys and values of its KV heads + ring + pinned      where some are streamed
//   ring     = ring_bytes + streamed bytes / (layers + 1)
//
// The ring has room for what a layer needs of the disk: it is read while others compute what this device has no part
// in, and while sums travel. With a smaller one the disk would stand still then.
//
// Exchanges among m + 1 members. One message from i to j takes c(i) + p(i, j) + c(j): c is a device's own work for a
// message (message_ns), p the delay and the slowest of link, i's egress e(i) and j's ingress n(j). Of several messages
// one is worked on while another is on its way; where everybody sends to everybody, nobody sends to the same one first.
//
//   direct   everyone sends everything to everyone: the longest of any                       one delay
//            c(i) + p(i, j) + c(j) + (m - 1) * max(c(i), e(i), n(j), c(j)), and 2 m c(j)
//   scatter  everyone adds an n-th of the values for all: two direct exchanges of an n-th    two delays, few bytes
//   star     a hub h adds and answers: the longest c(i) + p(i, h) + c(h), the longest        two delays
//            c(h) + p(h, j) + c(j), and (m - 1) * max(c(h), e(h), n(h)): whoever is answered
//            last comes last with the next sum, so that nobody waits in both directions
//   tree     the same over several levels, along links that exist
//
// The plan minimises the predicted time over who takes part, the exchange and all whole numbers of units. A device that
// would only slow the others is left out, so two are never slower than one. For up to 6 devices every set of them is
// looked at and, within a bound on the work, every division; for up to 4 every tree, too. Beyond that sets are found by
// speed and bettered one device at a time. What is found is never worse than alone, and the work is bounded.
//
// Whole heads: with links that are slow compared with its memory, a member multiplies the whole head sooner than it
// hears of the others' logits. The division that was found is looked at so, too, and changed where that is faster and
// every member has the room.
#pragma once

#include "base/result.h"
#include "plan/integers.h"
#include "plan/sync_plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace chaos::plan {

// Bytes are of packed weights; those "per layer" are the same in every layer (or their mean).
struct TensorModel {
    std::uint64_t layers = 0;
    std::uint64_t heads = 0;             // of queries
    std::uint64_t kv_heads = 0;          // divides heads
    std::uint64_t head_unit = 1;         // so many query heads stay together; divides heads
    std::uint64_t query_head_bytes = 0;  // per layer: rows of Q and columns of O
    std::uint64_t kv_head_bytes = 0;     // per layer: rows of K and V
    std::uint64_t ffn_units = 0;
    std::uint64_t ffn_unit_bytes = 0;  // per layer: rows of gate and up, columns of down
    std::uint64_t vocab_units = 0;
    std::uint64_t vocab_unit_bytes = 0;  // rows of the head
    std::uint64_t width = 0;
    std::uint64_t cache_bytes = 0;       // keys and values of one KV head in one layer, of all sequences
    std::uint64_t everywhere_bytes = 0;  // on every device: norms, activations
    std::uint64_t ring_bytes = 0;        // of a ring through which weights are streamed, at least
};

[[nodiscard]] std::uint64_t weight_bytes(const TensorModel& model);

struct TensorDevice {
    std::uint64_t id = 0;                  // breaks ties; unique
    std::string name{};                    // for people; empty: the id
    std::uint64_t weight_bytes_per_s = 0;  // as it multiplies weights for one token
    std::uint64_t memory_bytes = unlimited;
    std::uint64_t disk_bytes_per_s = 0;  // 0: it cannot stream
    std::uint64_t program_bytes = 0;
    std::uint64_t phase_ns = 0;    // of each phase beside weights: norms, threads that wake
    std::uint64_t message_ns = 0;  // its own work for each message
    std::uint64_t egress_bytes_per_s = unlimited;
    std::uint64_t ingress_bytes_per_s = unlimited;
    // As it multiplies weights for many tokens: bytes times tokens; 0: not known, and prompts are not predicted.
    std::uint64_t prompt_bytes_per_s = 0;
    // Thousandths of the time that it computes, where it always has something to.
    std::uint64_t share_permille = 1000;
};

enum class TensorExchange { alone, direct, scatter, star, tree };
[[nodiscard]] const char* name_of(TensorExchange exchange);

inline constexpr std::size_t max_tensor_devices = 64;

struct TensorRequest {
    TensorModel model;
    std::vector<TensorDevice> devices;
    std::vector<SyncLink> links;  // ends are indexes into devices
    // Those that the caller can do.
    std::vector<TensorExchange> exchanges = {TensorExchange::direct, TensorExchange::star, TensorExchange::tree};
    std::uint64_t candidate_bytes = 1024;  // of the likeliest tokens, in a message at the end of each token
    bool everyone = false;                 // all devices take part, even where fewer were faster
    bool whole_heads = false;              // whether the caller can do with them
};

struct UnitRange {
    std::uint64_t first = 0;
    std::uint64_t count = 0;

    friend bool operator==(const UnitRange&, const UnitRange&) = default;
};

// A device's part. One that is no member has nothing.
struct TensorShare {
    bool member = false;
    UnitRange heads;     // of queries
    UnitRange kv_heads;  // that those look at; neighbours may have the same
    UnitRange ffn;
    UnitRange vocab;
    std::uint64_t weight_bytes = 0;
    std::uint64_t streamed_bytes = 0;  // of them, per token; the others are pinned
    std::uint64_t ring_bytes = 0;      // where some are streamed
    std::uint64_t cache_bytes = 0;
    std::uint64_t memory_bytes = 0;  // in all
    std::uint64_t attention_ns = 0;  // per layer
    std::uint64_t ffn_ns = 0;        // per layer
    std::uint64_t head_ns = 0;
    std::uint64_t disk_ns = 0;

    friend bool operator==(const TensorShare&, const TensorShare&) = default;
};

struct TensorPlan {
    std::vector<TensorShare> shares;  // of each device, in the request's order
    TensorExchange exchange = TensorExchange::alone;
    // Star and tree: the index of each member's parent, the hub's or root's is its own; else empty.
    std::vector<std::uint32_t> parent;
    bool whole_heads = false;        // every member has the whole vocabulary, and no candidates are exchanged
    std::uint64_t predicted_ns = 0;  // per token: the longest of compute + exchange, disk, and rests
    std::uint64_t compute_ns = 0;
    std::uint64_t exchange_ns = 0;
    std::uint64_t disk_ns = 0;
    std::uint64_t rests_ns = 0;
    std::uint64_t bound_ns = 0;          // no division among these members with this exchange takes less
    std::uint64_t alone_ns = unlimited;  // the best that one device can do; unlimited: none can
    // XXH3 over the planner's version, ids, ranges and exchange: the same for every order of devices and links.
    std::uint64_t hash = 0;
    std::vector<std::string> reasons;  // for people
};

// Refuses in words: what is missing, or why the request makes no sense.
[[nodiscard]] Result<TensorPlan> plan_tensor(const TensorRequest& request);

// The same division, with what is known of the same devices and links now.
[[nodiscard]] TensorPlan predict_anew(const TensorRequest& request, TensorPlan plan);

// A prompt of so many tokens in one batch: weights are read once, every exchange is one message of all tokens. 0 where
// a member's prompt_bytes_per_s is not known.
[[nodiscard]] std::uint64_t predict_prompt_ns(const TensorRequest& request, const TensorPlan& plan,
                                              std::uint64_t tokens);

}  // namespace chaos::plan
