// How a model is divided among given members of a tensor plan, in the order of their ids (tensor_plan.h).
//
// A division is sought by thresholds. Given the most that attention, FFN and head may take, and the time in which disks
// stream, every device has a limit on the units of each kind and on the bytes of all kinds together. Whether there are
// ranges within these limits is answered by the first of these that can:
//
//   1. a division in proportion to the limits, which ample limits allow;
//   2. (device, heads given) -> most bytes left for the other kinds, by dynamic programming: where these are too few,
//      there is no division, else there is one but for what does not come in whole units;
//   3. (device, heads given, FFN units given) -> most vocabulary units given, likewise: this is exact.
//
// The best thresholds are among the times that some number of units takes on some device. All of those for attention
// and FFN that could better the best so far are tried, as long as the allowed work lasts, each with the least for the
// head; where disks stream, which takes any time, that is found to the nanosecond. Among more than 6 members times are
// found to one in 4096, and so are they when the work is spent.
#pragma once

#include "plan/tensor_plan.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chaos::plan {

// So many units for each member. Heads are counted in head units.
struct Division {
    std::vector<std::uint64_t> heads, ffn, vocab;
    std::uint64_t token_ns = 0;
};

// KV heads that query heads [first, first + count) look at.
[[nodiscard]] UnitRange kv_heads_of(const TensorModel& model, UnitRange heads);

// What a device with `weights` must stream of them if they do not fit into the room beside everything else.
[[nodiscard]] std::uint64_t streamed_bytes(const TensorModel& model, std::uint64_t weights, std::uint64_t room);

class TensorDivider {
public:
    // Members in ascending order of id. Both must outlive it.
    TensorDivider(const TensorModel& model, const std::vector<const TensorDevice*>& members);

    // No division takes less with exchanges of `exchange_ns` per token; `unlimited` where there is none at all.
    [[nodiscard]] std::uint64_t bound_ns(std::uint64_t exchange_ns);

    // The fastest division that takes less than `below`, if there is one. `work` is what the search may still cost, in
    // steps of about a nanosecond or two; at 0 it takes the first good one.
    [[nodiscard]] std::optional<Division> best(std::uint64_t exchange_ns, std::uint64_t below, std::uint64_t& work);

private:
    struct Member {
        const TensorDevice* device = nullptr;
        std::int64_t room = 0;  // for keys, values and weights
        // Limits under the thresholds that are being tried.
        std::uint64_t attention_bytes = 0;  // per layer
        std::uint64_t ffn = 0;
        std::uint64_t vocab = 0;
        std::int64_t streamed = 0;  // less what the ring grows by
    };
    struct Thresholds {
        std::uint64_t disk_ns = 0;
        std::uint64_t attention_ns = 0;
        std::uint64_t ffn_ns = 0;
        std::uint64_t head_ns = 0;
    };

    [[nodiscard]] std::int64_t streamed_within(const TensorDevice& device, std::uint64_t ns) const;
    // Bytes of weights that fit beside so many KV heads; negative: not even these do.
    [[nodiscard]] std::int64_t room_for_weights(const Member& member, std::uint64_t kv_heads) const;
    // What is left for FFN and vocabulary beside the head units [from, to); negative: those are too many.
    [[nodiscard]] std::int64_t room_beside(const Member& member, std::uint64_t from, std::uint64_t to) const;

    [[nodiscard]] bool set_limits(const Thresholds& thresholds);
    // The head units that members 0 .. i - 1 can have at most and must have at least. False: not all can be given.
    [[nodiscard]] bool find_reach();
    [[nodiscard]] bool divide(const Thresholds& thresholds, std::uint64_t& work);
    [[nodiscard]] bool divide_in_proportion();
    // How heads leave most room for the others. False: no division is within the limits.
    [[nodiscard]] bool leave_most_room(std::uint64_t& work);
    [[nodiscard]] bool divide_rest(std::span<const std::int64_t> rooms);
    [[nodiscard]] bool divide_exactly(std::uint64_t& work);
    void find_least();
    [[nodiscard]] std::uint64_t phases_ns(std::uint64_t attention_ns, std::uint64_t ffn_ns,
                                          std::uint64_t head_ns) const;
    // The thresholds at which a token takes `token_ns`, of which attention and FFN have what is given.
    [[nodiscard]] std::optional<Thresholds> within(std::uint64_t token_ns, std::uint64_t exchange_ns,
                                                   std::uint64_t attention_ns, std::uint64_t ffn_ns) const;
    [[nodiscard]] std::optional<Thresholds> in_proportion(std::uint64_t token_ns, std::uint64_t exchange_ns) const;
    [[nodiscard]] std::uint64_t precision(std::uint64_t ns, std::uint64_t work) const;
    void better_in_proportion(std::uint64_t exchange_ns, std::uint64_t& best, std::optional<Division>& found,
                              std::uint64_t& work);
    void better_by_pairs(std::uint64_t exchange_ns, std::uint64_t& best, std::optional<Division>& found,
                         std::uint64_t& work);
    void shorten_phases(std::uint64_t exchange_ns, Division& division, std::uint64_t& work);
    [[nodiscard]] std::vector<std::uint64_t> attention_times(std::uint64_t least, std::uint64_t most) const;
    [[nodiscard]] std::vector<std::uint64_t> unit_times(std::uint64_t units, std::uint64_t unit_bytes,
                                                        std::uint64_t least, std::uint64_t most) const;

    const TensorModel& model_;
    std::uint64_t head_units_ = 0;
    std::int64_t rounds_ = 0;                        // of a ring in a token, if all is streamed
    std::int64_t most_pinned_ = 0;                   // with which that many rounds do not leave the range of numbers
    std::vector<std::uint32_t> first_kv_, last_kv_;  // that a head unit looks at
    std::vector<Member> members_;
    bool possible_ = true;  // every member has room for what everyone has
    // The least that each phase can take, were it alone to be considered.
    bool has_least_ = false;
    Thresholds least_;

    std::vector<std::uint64_t> reach_, need_;
    Division division_;  // the last that divide() found
    std::vector<std::int64_t> rooms_;
    std::vector<std::vector<std::int64_t>> states_;
};

}  // namespace chaos::plan
