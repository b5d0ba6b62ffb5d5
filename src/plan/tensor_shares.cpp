#include "plan/tensor_shares.h"

#include "base/assert.h"

#include <algorithm>
#include <numeric>

namespace chaos::plan {
namespace {

// For keys, values and weights: more than any model has.
constexpr auto longest_room = static_cast<std::int64_t>(longest_ns);

// Among so many members, times are found to the nanosecond.
constexpr std::size_t precise_members = 6;

// Thresholds of one kind that are tried in one search; where there are more, evenly spread ones.
constexpr std::size_t max_thresholds = 1024;

// `total` units in proportion to limits whose sum is at least that: no part exceeds its limit.
std::vector<std::uint64_t> in_proportion_to(std::span<const std::uint64_t> limits, std::uint64_t total) {
    const std::uint64_t all = std::accumulate(limits.begin(), limits.end(), std::uint64_t{0});
    std::vector<std::uint64_t> parts(limits.size());
    std::uint64_t limit = 0;
    std::uint64_t given = 0;
    for (std::size_t i = 0; i < limits.size(); ++i) {
        limit += limits[i];
        const std::uint64_t end = all == 0 ? 0 : mul_div(total, limit, all);
        parts[i] = end - given;
        given = end;
    }
    return parts;
}

std::uint64_t bytes_within(const TensorDevice& device, std::uint64_t ns) {
    if (device.weight_bytes_per_s == unlimited) return unlimited;
    return mul_div(ns - device.phase_ns, device.weight_bytes_per_s, ns_per_s);
}

void keep_evenly_spread(std::vector<std::uint64_t>& times) {
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    if (times.size() <= max_thresholds) return;
    for (std::size_t i = 0; i < max_thresholds; ++i) times[i] = times[i * times.size() / max_thresholds];
    times.resize(max_thresholds);
}

// The least value in [least, most] for which `holds`, given that it holds for all above; most + 1 where for none.
template <class Holds>
std::uint64_t least_that(std::uint64_t least, std::uint64_t most, const Holds& holds, std::uint64_t precision = 1) {
    std::uint64_t end = most + 1;
    while (least < end && end - least >= precision) {
        const std::uint64_t middle = least + (end - least) / 2;
        if (holds(middle))
            end = middle;
        else
            least = middle + 1;
    }
    return end;
}

// The same, where it is expected near `least`.
template <class Holds>
std::uint64_t least_near(std::uint64_t least, std::uint64_t most, const Holds& holds) {
    for (std::uint64_t step = std::max<std::uint64_t>(least / 64, 1); least < most; step *= 2) {
        const std::uint64_t end = std::min(saturating_add(least, step), most);
        if (holds(end)) return least_that(least, end - 1, holds);
        least = end;
        if (step > most / 2) break;
    }
    return least_that(least, most, holds);
}

}  // namespace

UnitRange kv_heads_of(const TensorModel& model, UnitRange heads) {
    if (heads.count == 0) return {};
    const std::uint64_t group = model.heads / model.kv_heads;
    const std::uint64_t first = heads.first / group;
    return {first, (heads.first + heads.count - 1) / group - first + 1};
}

// The least s with  weights - s + ring_bytes + s / (layers + 1) <= room.
std::uint64_t streamed_bytes(const TensorModel& model, std::uint64_t weights, std::uint64_t room) {
    const u128 lacking = u128{weights} + model.ring_bytes - room;
    return saturate((lacking * (model.layers + 1) + model.layers - 1) / model.layers);
}

TensorDivider::TensorDivider(const TensorModel& model, const std::vector<const TensorDevice*>& members)
    : model_(model),
      head_units_(model.heads / model.head_unit),
      rounds_(static_cast<std::int64_t>(model.layers) + 1),
      most_pinned_(longest_room / rounds_) {
    for (const TensorDevice* device : members) {
        Member& member = members_.emplace_back();
        member.device = device;
        const std::uint64_t always = saturating_add(device->program_bytes, model.everywhere_bytes);
        possible_ = possible_ && device->memory_bytes >= always;
        member.room = static_cast<std::int64_t>(std::min(device->memory_bytes - always, longest_ns));
    }
    for (std::uint64_t unit = 0; unit < head_units_; ++unit) {
        const UnitRange kv_heads = kv_heads_of(model, {unit * model.head_unit, model.head_unit});
        first_kv_.push_back(static_cast<std::uint32_t>(kv_heads.first));
        last_kv_.push_back(static_cast<std::uint32_t>(kv_heads.first + kv_heads.count - 1));
    }
    reach_.resize(members_.size() + 1);
    need_.resize(members_.size() + 1);
    rooms_.resize(members_.size());
    states_.resize(members_.size() + 1);
}

// So much more than its pinned weights a device can have, if it streams them within a time.
std::int64_t TensorDivider::streamed_within(const TensorDevice& device, std::uint64_t ns) const {
    const std::uint64_t bytes = std::min(mul_div(ns, device.disk_bytes_per_s, ns_per_s), longest_ns);
    return static_cast<std::int64_t>(mul_div(bytes, model_.layers, model_.layers + 1));
}

std::int64_t TensorDivider::room_for_weights(const Member& member, std::uint64_t kv_heads) const {
    const std::int64_t left = member.room - static_cast<std::int64_t>(kv_heads * model_.layers * model_.cache_bytes);
    if (left < 0) return -1;
    const std::int64_t pinned = left - static_cast<std::int64_t>(model_.ring_bytes);
    if (pinned < 0) return left;
    // At the most the ring takes all room (streamed_bytes is all weights then).
    const std::int64_t all = pinned > most_pinned_ ? longest_room : pinned * rounds_;
    return std::max(left, std::min(pinned + member.streamed, all));
}

std::int64_t TensorDivider::room_beside(const Member& member, std::uint64_t from, std::uint64_t to) const {
    const std::uint64_t kv_heads = from == to ? 0 : last_kv_[to - 1] - first_kv_[from] + 1;
    const std::uint64_t bytes =
        (to - from) * model_.head_unit * model_.query_head_bytes + kv_heads * model_.kv_head_bytes;
    if (bytes > member.attention_bytes) return -1;
    return room_for_weights(member, kv_heads) - static_cast<std::int64_t>(model_.layers * bytes);
}

bool TensorDivider::set_limits(const Thresholds& thresholds) {
    for (Member& member : members_) {
        const TensorDevice& device = *member.device;
        if (std::min({thresholds.attention_ns, thresholds.ffn_ns, thresholds.head_ns}) < device.phase_ns) return false;
        member.attention_bytes = bytes_within(device, thresholds.attention_ns);
        member.ffn = std::min(model_.ffn_units, bytes_within(device, thresholds.ffn_ns) / model_.ffn_unit_bytes);
        member.vocab = std::min(model_.vocab_units, bytes_within(device, thresholds.head_ns) / model_.vocab_unit_bytes);
        member.streamed = streamed_within(device, thresholds.disk_ns);
        const auto room = static_cast<std::uint64_t>(room_for_weights(member, 0));
        member.ffn = std::min(member.ffn, room / (model_.layers * model_.ffn_unit_bytes));
        member.vocab = std::min(member.vocab, room / model_.vocab_unit_bytes);
    }
    return true;
}

// A part of a range that fits does fit, so whoever takes as much as it can from the farthest reached unit reaches
// farthest; and backwards likewise.
bool TensorDivider::find_reach() {
    const std::size_t count = members_.size();
    reach_[0] = 0;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t end = reach_[i];
        while (end < head_units_ && room_beside(members_[i], reach_[i], end + 1) >= 0) ++end;
        reach_[i + 1] = end;
    }
    if (reach_[count] < head_units_) return false;
    need_[count] = head_units_;
    for (std::size_t i = count; i-- > 0;) {
        std::uint64_t begin = need_[i + 1];
        while (begin > 0 && room_beside(members_[i], begin - 1, need_[i + 1]) >= 0) --begin;
        need_[i] = begin;
    }
    return need_[0] == 0;
}

bool TensorDivider::divide(const Thresholds& thresholds, std::uint64_t& work) {
    work -= std::min<std::uint64_t>(work, 16 * members_.size() + 4 * head_units_);
    if (!set_limits(thresholds)) return false;
    std::uint64_t ffn = 0;
    std::uint64_t vocab = 0;
    u128 bytes = 0;
    for (const Member& member : members_) {
        ffn += member.ffn;
        vocab += member.vocab;
        const u128 all = u128{member.attention_bytes} * model_.layers +
                         u128{member.ffn} * model_.layers * model_.ffn_unit_bytes +
                         u128{member.vocab} * model_.vocab_unit_bytes;
        bytes += std::min(all, static_cast<u128>(room_for_weights(member, 0)));
    }
    if (ffn < model_.ffn_units || vocab < model_.vocab_units || bytes < weight_bytes(model_)) return false;
    if (!find_reach()) return false;
    if (divide_in_proportion()) return true;
    return work > 0 && leave_most_room(work) && (divide_rest(rooms_) || divide_exactly(work));
}

bool TensorDivider::divide_in_proportion() {
    const std::size_t count = members_.size();
    std::vector<u128> weights(count);
    u128 all = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Member& member = members_[i];
        const std::uint64_t attention = std::min(
            member.attention_bytes, model_.heads * model_.query_head_bytes + model_.kv_heads * model_.kv_head_bytes);
        weights[i] =
            std::min(u128{attention} * model_.layers + u128{member.ffn} * model_.layers * model_.ffn_unit_bytes +
                         u128{member.vocab} * model_.vocab_unit_bytes,
                     static_cast<u128>(room_for_weights(member, 0)));
        all += weights[i];
    }
    division_.heads.resize(count);
    std::uint64_t at = 0;
    u128 seen = 0;
    for (std::size_t i = 0; i < count; ++i) {
        seen += weights[i];
        const auto wanted = static_cast<std::uint64_t>((2 * seen * head_units_ + all) / (2 * all));
        const std::uint64_t end = std::max({wanted, need_[i + 1], at});
        std::uint64_t reached = at;
        while (reached < end && room_beside(members_[i], at, reached + 1) >= 0) ++reached;
        if (reached < need_[i + 1]) return false;
        division_.heads[i] = reached - at;
        rooms_[i] = room_beside(members_[i], at, reached);
        at = reached;
    }
    return at == head_units_ && divide_rest(rooms_);
}

bool TensorDivider::leave_most_room(std::uint64_t& work) {
    const std::size_t count = members_.size();
    constexpr std::int64_t none = -1;
    for (std::size_t i = 0; i <= count; ++i) states_[i].assign(reach_[i] - need_[i] + 1, none);
    states_[0][0] = 0;
    const auto usable = [&](std::size_t i, std::int64_t room) {
        const std::uint64_t most =
            members_[i].ffn * model_.layers * model_.ffn_unit_bytes + members_[i].vocab * model_.vocab_unit_bytes;
        return std::min(room, static_cast<std::int64_t>(most));
    };
    std::uint64_t steps = 0;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::uint64_t from = need_[i]; from <= reach_[i]; ++from) {
            const std::int64_t before = states_[i][from - need_[i]];
            if (before == none) continue;
            for (std::uint64_t to = std::max(from, need_[i + 1]); to <= reach_[i + 1]; ++to, ++steps) {
                const std::int64_t room = room_beside(members_[i], from, to);
                if (room < 0) break;
                std::int64_t& after = states_[i + 1][to - need_[i + 1]];
                after = std::max(after, before + usable(i, room));
            }
        }
    }
    work -= std::min(work, 4 * steps);
    const std::uint64_t wanted =
        model_.ffn_units * model_.layers * model_.ffn_unit_bytes + model_.vocab_units * model_.vocab_unit_bytes;
    if (states_[count][0] < static_cast<std::int64_t>(wanted)) return false;
    std::uint64_t to = head_units_;
    for (std::size_t i = count; i-- > 0;) {
        std::uint64_t from = need_[i];
        for (;; ++from) {
            CHAOS_ASSERT(from <= std::min(reach_[i], to));
            const std::int64_t before = states_[i][from - need_[i]];
            rooms_[i] = room_beside(members_[i], from, to);
            if (before != none && rooms_[i] >= 0 && before + usable(i, rooms_[i]) == states_[i + 1][to - need_[i + 1]])
                break;
        }
        division_.heads[i] = to - from;
        to = from;
    }
    return true;
}

// FFN units first where vocabulary loses nothing by them; then all cost as much of it wherever they go.
bool TensorDivider::divide_rest(std::span<const std::int64_t> rooms) {
    const std::uint64_t ffn_bytes = model_.layers * model_.ffn_unit_bytes;
    const std::size_t count = members_.size();
    std::vector<std::uint64_t> free(count);
    std::vector<std::uint64_t> more(count);
    std::uint64_t all_free = 0;
    std::uint64_t all_more = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto room = static_cast<std::uint64_t>(rooms[i]);
        const std::uint64_t vocab_bytes = members_[i].vocab * model_.vocab_unit_bytes;
        free[i] = room < vocab_bytes ? 0 : std::min(members_[i].ffn, (room - vocab_bytes) / ffn_bytes);
        more[i] = std::min(members_[i].ffn, room / ffn_bytes) - free[i];
        all_free += free[i];
        all_more += more[i];
    }
    if (all_free >= model_.ffn_units) {
        division_.ffn = in_proportion_to(free, model_.ffn_units);
    } else {
        if (all_free + all_more < model_.ffn_units) return false;
        division_.ffn = in_proportion_to(more, model_.ffn_units - all_free);
        for (std::size_t i = 0; i < count; ++i) division_.ffn[i] += free[i];
    }
    std::vector<std::uint64_t> vocab(count);
    std::uint64_t all_vocab = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t left = static_cast<std::uint64_t>(rooms[i]) - division_.ffn[i] * ffn_bytes;
        vocab[i] = std::min(members_[i].vocab, left / model_.vocab_unit_bytes);
        all_vocab += vocab[i];
    }
    if (all_vocab < model_.vocab_units) return false;
    division_.vocab = in_proportion_to(vocab, model_.vocab_units);
    return true;
}

bool TensorDivider::divide_exactly(std::uint64_t& work) {
    const std::size_t count = members_.size();
    const auto ffn_bytes = static_cast<std::int64_t>(model_.layers * model_.ffn_unit_bytes);
    const auto vocab_bytes = static_cast<std::int64_t>(model_.vocab_unit_bytes);
    // FFN units given to members 0 .. i - 1: what the others can have at most must complete them.
    std::vector<std::uint64_t> least(count + 1);
    std::vector<std::uint64_t> most(count + 1);
    for (std::size_t i = 0; i < count; ++i) most[i + 1] = std::min(model_.ffn_units, most[i] + members_[i].ffn);
    least[count] = model_.ffn_units;
    for (std::size_t i = count; i-- > 0;) least[i] = least[i + 1] - std::min(least[i + 1], members_[i].ffn);
    const auto width = [&](std::size_t i) { return most[i] - least[i] + 1; };
    u128 cost = 0;
    for (std::size_t i = 0; i < count; ++i) {
        cost += u128{reach_[i] - need_[i] + 1} * (reach_[i + 1] - need_[i + 1] + 1) *
                (width(i) * std::min(members_[i].ffn + 1, width(i + 1)) + 8);
    }
    if (cost > work / 4) return false;  // other thresholds are to be tried, too

    constexpr std::int64_t none = -1;
    for (std::size_t i = 0; i <= count; ++i) states_[i].assign((reach_[i] - need_[i] + 1) * width(i), none);
    const auto state = [&](std::size_t i, std::uint64_t heads, std::uint64_t ffn) -> std::int64_t& {
        return states_[i][(heads - need_[i]) * width(i) + ffn - least[i]];
    };
    const auto vocab_beside = [&](std::size_t i, std::int64_t room, std::uint64_t ffn) {
        return std::min(static_cast<std::int64_t>(members_[i].vocab),
                        (room - static_cast<std::int64_t>(ffn) * ffn_bytes) / vocab_bytes);
    };
    const auto most_ffn = [&](std::size_t i, std::int64_t room) {
        return std::min(members_[i].ffn, static_cast<std::uint64_t>(room / ffn_bytes));
    };
    state(0, 0, 0) = 0;
    std::uint64_t steps = 0;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::uint64_t from = need_[i]; from <= reach_[i]; ++from) {
            for (std::uint64_t to = std::max(from, need_[i + 1]); to <= reach_[i + 1]; ++to) {
                const std::int64_t room = room_beside(members_[i], from, to);
                if (room < 0) break;
                steps += 8 + width(i);
                const std::uint64_t largest = most_ffn(i, room);
                for (std::uint64_t before = least[i]; before <= most[i]; ++before) {
                    const std::int64_t given = state(i, from, before);
                    if (given == none) continue;
                    const std::uint64_t last = std::min(before + largest, most[i + 1]);
                    for (std::uint64_t after = std::max(before, least[i + 1]); after <= last; ++after, ++steps) {
                        std::int64_t& next = state(i + 1, to, after);
                        next = std::max(next, given + vocab_beside(i, room, after - before));
                    }
                }
            }
        }
    }
    work -= std::min(work, steps);
    const auto wanted = static_cast<std::int64_t>(model_.vocab_units);
    if (state(count, head_units_, model_.ffn_units) < wanted) return false;

    division_.heads.resize(count);
    division_.ffn.resize(count);
    std::vector<std::uint64_t> vocab(count);
    std::uint64_t to = head_units_;
    std::uint64_t after = model_.ffn_units;
    for (std::size_t i = count; i-- > 0;) {
        bool found = false;
        for (std::uint64_t from = need_[i]; from <= std::min(reach_[i], to) && !found; ++from) {
            const std::int64_t room = room_beside(members_[i], from, to);
            if (room < 0) continue;
            const std::uint64_t first = std::max(least[i], after - std::min(after, most_ffn(i, room)));
            for (std::uint64_t before = first; before <= std::min(most[i], after) && !found; ++before) {
                const std::int64_t given = state(i, from, before);
                const std::int64_t here = vocab_beside(i, room, after - before);
                if (given == none || given + here != state(i + 1, to, after)) continue;
                found = true;
                division_.heads[i] = to - from;
                division_.ffn[i] = after - before;
                vocab[i] = static_cast<std::uint64_t>(here);
                to = from;
                after = before;
            }
        }
        CHAOS_ASSERT(found);
    }
    division_.vocab = in_proportion_to(vocab, model_.vocab_units);
    return true;
}

void TensorDivider::find_least() {
    has_least_ = true;
    if (!possible_) return;
    const auto ample = [] { return Thresholds{longest_ns, longest_ns, longest_ns, longest_ns}; };
    u128 rate = 0;
    for (const Member& member : members_) rate += member.device->weight_bytes_per_s;
    CHAOS_ASSERT(rate > 0);
    // Bytes of a kind, at the rate of all together, are the least that it can take.
    const auto least_of = [&](std::uint64_t Thresholds::* kind, std::uint64_t bytes, const auto& all_given) {
        const auto begin = static_cast<std::uint64_t>(u128{bytes} * ns_per_s / rate);
        return least_near(begin, longest_ns, [&](std::uint64_t ns) {
            Thresholds thresholds = ample();
            thresholds.*kind = ns;
            return set_limits(thresholds) && all_given();
        });
    };
    const std::uint64_t attention_bytes =
        model_.heads * model_.query_head_bytes + model_.kv_heads * model_.kv_head_bytes;
    least_.attention_ns = least_of(&Thresholds::attention_ns, attention_bytes, [&] { return find_reach(); });
    least_.ffn_ns = least_of(&Thresholds::ffn_ns, model_.ffn_units * model_.ffn_unit_bytes, [&] {
        std::uint64_t units = 0;
        for (const Member& member : members_) units += member.ffn;
        return units >= model_.ffn_units;
    });
    least_.head_ns = least_of(&Thresholds::head_ns, model_.vocab_units * model_.vocab_unit_bytes, [&] {
        std::uint64_t units = 0;
        for (const Member& member : members_) units += member.vocab;
        return units >= model_.vocab_units;
    });
    possible_ = std::max({least_.attention_ns, least_.ffn_ns, least_.head_ns}) <= longest_ns;
}

std::uint64_t TensorDivider::phases_ns(std::uint64_t attention_ns, std::uint64_t ffn_ns, std::uint64_t head_ns) const {
    return std::min(saturate((u128{attention_ns} + ffn_ns) * model_.layers + head_ns), longest_ns);
}

std::uint64_t TensorDivider::bound_ns(std::uint64_t exchange_ns) {
    if (!has_least_) find_least();
    if (!possible_) return unlimited;
    const std::uint64_t phases = phases_ns(least_.attention_ns, least_.ffn_ns, least_.head_ns);
    const std::uint64_t rounded = std::min(saturating_add(phases, exchange_ns), longest_ns);
    // Were units as small as one likes, with every KV head kept once: a device computes and streams so much within a
    // time, and all together must do everything.
    const u128 all = u128{weight_bytes(model_)};
    const auto enough = [&](std::uint64_t token_ns) {
        u128 bytes = 0;
        for (Member& member : members_) {
            const TensorDevice& device = *member.device;
            member.streamed =
                static_cast<std::int64_t>(std::min(mul_div(token_ns, device.disk_bytes_per_s, ns_per_s), longest_ns));
            const std::uint64_t computing = token_ns - exchange_ns;
            const std::uint64_t computed = device.weight_bytes_per_s == unlimited
                                               ? unlimited
                                               : mul_div(computing, device.weight_bytes_per_s, ns_per_s);
            bytes += std::min<std::uint64_t>(computed, static_cast<std::uint64_t>(room_for_weights(member, 0)));
        }
        return bytes >= all;
    };
    if (exchange_ns >= longest_ns || enough(rounded)) return rounded;
    const std::uint64_t divided = least_near(rounded, longest_ns, enough);
    return divided > longest_ns ? unlimited : divided;
}

std::optional<TensorDivider::Thresholds> TensorDivider::within(std::uint64_t token_ns, std::uint64_t exchange_ns,
                                                               std::uint64_t attention_ns, std::uint64_t ffn_ns) const {
    const std::uint64_t spent = saturating_add(phases_ns(attention_ns, ffn_ns, 0), exchange_ns);
    if (spent > token_ns) return std::nullopt;
    return Thresholds{token_ns, attention_ns, ffn_ns, token_ns - spent};
}

// All phases longer than the least by one factor.
std::optional<TensorDivider::Thresholds> TensorDivider::in_proportion(std::uint64_t token_ns,
                                                                      std::uint64_t exchange_ns) const {
    const std::uint64_t least =
        std::max<std::uint64_t>(1, phases_ns(least_.attention_ns, least_.ffn_ns, least_.head_ns));
    const std::uint64_t phases = token_ns - std::min(token_ns, exchange_ns);
    return within(token_ns, exchange_ns, mul_div(least_.attention_ns, phases, least),
                  mul_div(least_.ffn_ns, phases, least));
}

std::uint64_t TensorDivider::precision(std::uint64_t ns, std::uint64_t work) const {
    return members_.size() <= precise_members && work > 0 ? 1 : ns / 4096 + 1;
}

void TensorDivider::better_in_proportion(std::uint64_t exchange_ns, std::uint64_t& best, std::optional<Division>& found,
                                         std::uint64_t& work) {
    const auto takes = [&](std::uint64_t token_ns) {
        const auto thresholds = in_proportion(token_ns, exchange_ns);
        if (!thresholds || !divide(*thresholds, work)) return false;
        best = token_ns;
        found = division_;
        return true;
    };
    const std::uint64_t bound = bound_ns(exchange_ns);
    // A time that is enough, not far above the least; between that and the last one that was not lies the least.
    std::uint64_t above = bound;
    for (std::uint64_t step = std::max<std::uint64_t>(bound / 16, 1);; step *= 2) {
        const std::uint64_t end = std::min(saturating_add(above, step), best - 1);
        if (above > end) return;
        if (takes(end)) break;
        if (end == best - 1) return;
        above = end + 1;
    }
    least_that(above, best - 1, takes, precision(best, work));
}

std::vector<std::uint64_t> TensorDivider::attention_times(std::uint64_t least, std::uint64_t most) const {
    std::vector<std::uint64_t> times{least};
    const std::uint64_t group = model_.heads / model_.kv_heads;
    for (const Member& member : members_) {
        for (std::uint64_t units = 1; units <= head_units_; ++units) {
            const std::uint64_t heads = units * model_.head_unit;
            const std::uint64_t fewest = ceil_div(heads, group);
            // A range that begins within a group touches one more.
            for (std::uint64_t kv_heads = fewest; kv_heads <= std::min(fewest + 1, model_.kv_heads); ++kv_heads) {
                const std::uint64_t bytes = heads * model_.query_head_bytes + kv_heads * model_.kv_head_bytes;
                const std::uint64_t ns =
                    member.device->phase_ns + transfer_ns(bytes, member.device->weight_bytes_per_s);
                if (ns > least && ns <= most) times.push_back(ns);
            }
        }
    }
    keep_evenly_spread(times);
    return times;
}

std::vector<std::uint64_t> TensorDivider::unit_times(std::uint64_t units, std::uint64_t unit_bytes, std::uint64_t least,
                                                     std::uint64_t most) const {
    std::vector<std::uint64_t> times{least};
    for (const Member& member : members_) {
        for (std::uint64_t count = 1; count <= units; ++count) {
            const std::uint64_t ns =
                member.device->phase_ns + transfer_ns(count * unit_bytes, member.device->weight_bytes_per_s);
            if (ns > most) break;
            if (ns > least) times.push_back(ns);
        }
    }
    keep_evenly_spread(times);
    return times;
}

void TensorDivider::better_by_pairs(std::uint64_t exchange_ns, std::uint64_t& best, std::optional<Division>& found,
                                    std::uint64_t& work) {
    // A phase that takes longer than this leaves the others no time.
    const auto most = [&](std::uint64_t others_ns) {
        const std::uint64_t spent = saturating_add(others_ns, exchange_ns);
        return spent >= best ? 0 : best - 1 - spent;
    };
    const std::uint64_t most_attention = most(phases_ns(0, least_.ffn_ns, least_.head_ns)) / model_.layers;
    const std::uint64_t most_ffn = most(phases_ns(least_.attention_ns, 0, least_.head_ns)) / model_.layers;
    const std::uint64_t most_head = most(phases_ns(least_.attention_ns, least_.ffn_ns, 0));
    if (most_attention < least_.attention_ns || most_ffn < least_.ffn_ns || most_head < least_.head_ns) return;
    std::vector<std::uint64_t> attention = attention_times(least_.attention_ns, most_attention);
    std::vector<std::uint64_t> ffn = unit_times(model_.ffn_units, model_.ffn_unit_bytes, least_.ffn_ns, most_ffn);
    const std::vector<std::uint64_t> head =
        unit_times(model_.vocab_units, model_.vocab_unit_bytes, least_.head_ns, most_head);
    // Between two of the head's times nothing is possible that was not before, but for what disks stream meanwhile.
    const bool disks = std::any_of(members_.begin(), members_.end(),
                                   [](const Member& member) { return member.device->disk_bytes_per_s > 0; });
    const bool only_these = !disks && head.size() < max_thresholds;
    // Where not all can be tried, those near a division in proportion come first.
    if (const auto middle = in_proportion(best, exchange_ns); middle) {
        const auto nearest_first = [](std::vector<std::uint64_t>& times, std::uint64_t to) {
            const auto distance = [&](std::uint64_t ns) { return ns < to ? to - ns : ns - to; };
            std::sort(times.begin(), times.end(), [&](std::uint64_t x, std::uint64_t y) {
                return distance(x) != distance(y) ? distance(x) < distance(y) : x < y;
            });
        };
        nearest_first(attention, middle->attention_ns);
        nearest_first(ffn, middle->ffn_ns);
    }
    for (const std::uint64_t attention_ns : attention) {
        for (const std::uint64_t ffn_ns : ffn) {
            const std::uint64_t spent = saturating_add(phases_ns(attention_ns, ffn_ns, 0), exchange_ns);
            std::uint64_t least = saturating_add(spent, least_.head_ns);
            if (work == 0) return;
            if (least >= best) continue;
            const auto takes = [&](std::uint64_t token_ns) {
                const auto thresholds = within(token_ns, exchange_ns, attention_ns, ffn_ns);
                if (!thresholds || !divide(*thresholds, work)) return false;
                best = token_ns;
                found = division_;
                return true;
            };
            if (!takes(best - 1)) continue;
            auto first = head.begin();
            auto last = std::lower_bound(first, head.end(), best - spent);
            while (first < last) {
                const auto middle = first + (last - first) / 2;
                if (takes(spent + *middle)) {
                    last = middle;
                } else {
                    least = spent + *middle + 1;
                    first = middle + 1;
                }
            }
            if (!only_these) least_that(least, best - 1, takes, precision(best, work));
        }
    }
}

// Where disks decide, there may be several divisions; the one that computes least leaves most time for what is not
// foreseen.
void TensorDivider::shorten_phases(std::uint64_t exchange_ns, Division& division, std::uint64_t& work) {
    const std::uint64_t least =
        saturating_add(phases_ns(least_.attention_ns, least_.ffn_ns, least_.head_ns), exchange_ns);
    const std::uint64_t token_ns = division.token_ns;
    if (least >= token_ns) return;
    least_that(
        least, token_ns,
        [&](std::uint64_t phases) {
            auto thresholds = in_proportion(phases, exchange_ns);
            if (!thresholds) return false;
            thresholds->disk_ns = token_ns;
            if (!divide(*thresholds, work)) return false;
            division = division_;
            division.token_ns = token_ns;
            return true;
        },
        precision(token_ns, work));
}

std::optional<Division> TensorDivider::best(std::uint64_t exchange_ns, std::uint64_t below, std::uint64_t& work) {
    const std::uint64_t bound = bound_ns(exchange_ns);
    if (bound >= std::min(below, longest_ns)) return std::nullopt;
    std::uint64_t best = std::min(below, longest_ns);
    std::optional<Division> found;
    const auto least = within(bound, exchange_ns, least_.attention_ns, least_.ffn_ns);
    if (least && divide(*least, work)) {
        best = bound;
        found = division_;
    } else {
        better_in_proportion(exchange_ns, best, found, work);
        if (members_.size() > 1) better_by_pairs(exchange_ns, best, found, work);
    }
    if (!found) return std::nullopt;
    found->token_ns = best;
    shorten_phases(exchange_ns, *found, work);
    return found;
}

}  // namespace chaos::plan
