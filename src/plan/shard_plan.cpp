#include "plan/shard_plan.h"

#include "base/assert.h"
#include "plan/say.h"
#include "plan/shard_cut.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

namespace chaos::plan {
namespace {

constexpr std::uint64_t largest_state_bytes = std::uint64_t{1} << 50;
constexpr std::size_t most_joiners = 4096;

std::uint64_t gap_bytes(const std::vector<ByteRange>& gaps) {
    return std::accumulate(gaps.begin(), gaps.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const ByteRange& gap) { return sum + gap.bytes; });
}

std::vector<ByteRange> gaps_of(std::vector<ByteRange> held, std::uint64_t state_bytes) {
    std::sort(held.begin(), held.end(), [](const ByteRange& a, const ByteRange& b) { return a.first < b.first; });
    std::vector<ByteRange> gaps;
    std::uint64_t covered = 0;
    for (const ByteRange& range : held) {
        if (range.first > covered) gaps.push_back({covered, range.first - covered});
        covered = std::max(covered, range.first + range.bytes);
    }
    if (covered < state_bytes) gaps.push_back({covered, state_bytes - covered});
    return gaps;
}

Result<void> check_sizes(const ShardRequest& request) {
    if (request.state_bytes > largest_state_bytes) {
        return Error{"a state of " + say_bytes(request.state_bytes) + " is more than a shard plan covers (" +
                     say_bytes(largest_state_bytes) + ")"};
    }
    if (request.shard_sizes.empty()) return Error{"the shard plan has no shard size to choose from"};
    std::uint64_t previous = 1;
    for (const std::uint64_t size : request.shard_sizes) {
        if (size == 0 || size > largest_state_bytes || size % previous != 0 || (size == previous && size != 1)) {
            return Error{"shard sizes must ascend and each divide the next: " + std::to_string(size) + " follows " +
                         std::to_string(previous)};
        }
        previous = size;
    }
    return {};
}

Result<void> check_held(const ShardJoiner& joiner, std::uint64_t state_bytes) {
    for (const ByteRange& range : joiner.held) {
        if (range.first > state_bytes || range.bytes > state_bytes - range.first) {
            return Error{"joiner " + std::to_string(joiner.id) + " claims to hold bytes beyond the state's end"};
        }
    }
    return {};
}

Result<ShardTask> put_in_order(const ShardRequest& request) {
    CHAOS_CHECK(check_sizes(request));
    ShardTask task;
    task.state_bytes = request.state_bytes;
    task.donors = request.donors;
    const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
    std::sort(task.donors.begin(), task.donors.end(), by_id);
    std::unordered_map<std::uint64_t, std::uint32_t> index_of;
    for (std::uint32_t i = 0; i < task.donors.size(); ++i) {
        if (!index_of.emplace(task.donors[i].id, i).second) {
            return Error{"donor " + std::to_string(task.donors[i].id) + " is listed twice"};
        }
    }
    if (request.joiners.size() > most_joiners) {
        return Error{"a shard plan serves at most " + std::to_string(most_joiners) + " joiners at once"};
    }
    for (const ShardJoiner& joiner : request.joiners) task.joiners.push_back(&joiner);
    std::sort(task.joiners.begin(), task.joiners.end(),
              [&](const ShardJoiner* a, const ShardJoiner* b) { return by_id(*a, *b); });
    for (std::uint32_t j = 0; j < task.joiners.size(); ++j) {
        const ShardJoiner& joiner = *task.joiners[j];
        if (j > 0 && task.joiners[j - 1]->id == joiner.id) {
            return Error{"joiner " + std::to_string(joiner.id) + " is listed twice"};
        }
        CHAOS_CHECK(check_held(joiner, request.state_bytes));
        task.gaps.push_back(gaps_of(joiner.held, request.state_bytes));
        std::vector<bool> linked(task.donors.size());
        for (const ShardLink& link : joiner.links) {
            const auto donor = index_of.find(link.donor);
            if (donor == index_of.end()) continue;  // a neighbour that does not give
            if (linked[donor->second]) {
                return Error{"joiner " + std::to_string(joiner.id) + " lists two links to donor " +
                             std::to_string(link.donor)};
            }
            linked[donor->second] = true;
            const ShardDonor& d = task.donors[donor->second];
            if (link.bytes_per_s == 0 || d.egress_bytes_per_s == 0) continue;
            task.ways.push_back({j, donor->second, std::min(link.bytes_per_s, fastest_bytes_per_s),
                                 std::min(link.delay_ns, longest_ns), std::min(d.overhead_ns, longest_ns)});
        }
    }
    std::sort(task.ways.begin(), task.ways.end(), [](const ShardWay& a, const ShardWay& b) {
        return a.joiner != b.joiner ? a.joiner < b.joiner : a.donor < b.donor;
    });
    return task;
}

// What nobody can beat, whatever the shard size: bytes over rates, rounded down so that it stays a bound.
std::uint64_t limit_of(const ShardTask& task) {
    std::uint64_t limit = 0;
    std::uint64_t all_missing = 0;
    std::vector<std::uint64_t> out(task.donors.size());
    std::size_t w = 0;
    for (std::uint32_t j = 0; j < task.joiners.size(); ++j) {
        const std::uint64_t missing = gap_bytes(task.gaps[j]);
        all_missing += missing;
        std::uint64_t in = 0;
        for (; w < task.ways.size() && task.ways[w].joiner == j; ++w) {
            const ShardWay& way = task.ways[w];
            const std::uint64_t rate = std::min(way.bytes_per_s, task.donors[way.donor].egress_bytes_per_s);
            in = saturating_add(in, rate);
            out[way.donor] = saturating_add(out[way.donor], rate);
        }
        in = std::min(in, task.joiners[j]->ingress_bytes_per_s);
        if (missing > 0 && in > 0) limit = std::max(limit, mul_div(missing, ns_per_s, in));
    }
    std::uint64_t all_out = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        all_out = saturating_add(all_out, std::min(out[i], task.donors[i].egress_bytes_per_s));
    }
    if (all_missing > 0 && all_out > 0) limit = std::max(limit, mul_div(all_missing, ns_per_s, all_out));
    return std::min(limit, longest_ns);
}

Result<void> check_joiners(const ShardTask& task) {
    if (task.joiners.empty()) return Error{"the shard plan has no joiner"};
    for (std::uint32_t j = 0; j < task.joiners.size(); ++j) {
        if (task.gaps[j].empty()) continue;
        const ShardJoiner& joiner = *task.joiners[j];
        const std::string name = "joiner " + std::to_string(joiner.id);
        if (task.donors.empty()) return Error{"no donor offers the state to " + name};
        if (joiner.ingress_bytes_per_s == 0) return Error{name + " accepts no bytes: its ingress cap is 0"};
        if (std::none_of(task.ways.begin(), task.ways.end(), [&](const ShardWay& way) { return way.joiner == j; })) {
            return Error{name + " has no usable link to any of " + say_count(task.donors.size(), "donor") +
                         " (no link, or a rate of 0)"};
        }
    }
    return {};
}

// Why not even all the time of the world is enough: limits, or links slower than that.
Error refusal(const ShardTask& task, std::uint64_t finest) {
    std::uint64_t missing = 0;
    for (const auto& gaps : task.gaps) missing += gap_bytes(gaps);
    std::uint64_t offered = 0;
    for (const ShardDonor& donor : task.donors) offered = saturating_add(offered, donor.limit_bytes);
    if (offered < missing) {
        return Error{"the donors' limits are too small: together they send " + say_bytes(offered) + ", but " +
                     say_bytes(missing) + " are missing"};
    }
    return Error{"the donors cannot send the missing " + say_bytes(missing) + " in whole shards of at least " +
                 say_bytes(finest) +
                 ": their limits leave too little to the joiners they are linked to, or their links are too slow"};
}

// Hands out what each joiner misses, in ascending order of shards, to its donors in ascending order of ids.
std::vector<Transfer> transfers_of(const ShardTask& task, const ShardCut& cut,
                                   const std::vector<std::uint64_t>& counts) {
    std::vector<Transfer> transfers;
    std::size_t w = 0;
    for (std::uint32_t j = 0; j < task.joiners.size(); ++j) {
        std::size_t at = 0;      // range of what is missing
        std::uint64_t used = 0;  // shards of that range
        const std::vector<ShardRange>& missing = cut.missing()[j];
        for (; w < task.ways.size() && task.ways[w].joiner == j; ++w) {
            if (counts[w] == 0) continue;
            const ShardWay& way = task.ways[w];
            Transfer& transfer = transfers.emplace_back();
            transfer.joiner = task.joiners[j]->id;
            transfer.donor = task.donors[way.donor].id;
            transfer.shards = counts[w];
            transfer.predicted_ns = cut.way_ns(way, counts[w]);
            for (std::uint64_t rest = counts[w]; rest > 0;) {
                const std::uint64_t part = std::min(rest, missing[at].count - used);
                transfer.ranges.push_back({missing[at].first + used, part});
                rest -= part;
                used += part;
                if (used == missing[at].count) {
                    ++at;
                    used = 0;
                }
            }
        }
        CHAOS_ASSERT(at == missing.size());
    }
    return transfers;
}

struct Choice {
    std::size_t size = 0;  // index into the chain
    std::uint64_t ns = 0;
};

std::string why_this_size(const std::vector<std::uint64_t>& sizes, std::vector<ShardCut>& cuts, const Choice& choice,
                          std::uint64_t least_ns) {
    std::string text = "shards of " + say_bytes(sizes[choice.size]);
    if (sizes.size() == 1) return text + ": the only size offered";
    text += ": done after " + say_time(choice.ns) + ", and no other size is faster";
    const auto compare = [&](std::size_t size, const char* name) {
        if (size == choice.size || cuts[size].missing().size() > 1) return;
        const auto ns = cuts[size].earliest(least_ns, longest_ns);
        text += "; the " + std::string(name) + " (" + say_bytes(sizes[size]) + ") ";
        text += ns ? "would take " + say_excess(*ns, choice.ns) + " longer" : "does not fit the donors' limits";
    };
    compare(0, "finest");
    compare(sizes.size() - 1, "coarsest");
    return text;
}

std::string donor_list(const std::vector<std::uint64_t>& ids) {
    std::string text = ids.size() == 1 ? "donor " : "donors ";
    constexpr std::size_t most = 5;
    for (std::size_t i = 0; i < std::min(ids.size(), most); ++i) text += (i > 0 ? ", " : "") + std::to_string(ids[i]);
    if (ids.size() > most) text += " and " + std::to_string(ids.size() - most) + " more";
    return text;
}

// What keeps the plan from being faster.
std::string bottleneck_of(const ShardTask& task, const ShardCut& cut, const ShardPlan& plan) {
    for (std::uint32_t j = 0; j < task.joiners.size(); ++j) {
        const ShardJoiner& joiner = *task.joiners[j];
        std::uint64_t bytes = 0;
        for (const ShardRange& range : cut.missing()[j]) bytes += range.count * plan.shard_bytes;
        bytes = std::min(bytes, task.state_bytes);
        if (transfer_ns(bytes, joiner.ingress_bytes_per_s) >= plan.predicted_ns) {
            return "the bottleneck is the ingress of joiner " + std::to_string(joiner.id) + " (" +
                   say_rate(joiner.ingress_bytes_per_s) + ")";
        }
    }
    std::vector<std::uint64_t> shards(task.donors.size());
    std::vector<std::uint64_t> slowest(task.donors.size());
    for (const Transfer& transfer : plan.transfers) {
        const auto donor = std::lower_bound(task.donors.begin(), task.donors.end(), transfer.donor,
                                            [](const ShardDonor& d, std::uint64_t id) { return d.id < id; });
        const auto i = static_cast<std::size_t>(donor - task.donors.begin());
        shards[i] += transfer.shards;
        slowest[i] = std::max(slowest[i], transfer.predicted_ns);
    }
    std::vector<std::uint64_t> at_limit;
    std::size_t last = 0;
    for (std::uint32_t i = 0; i < task.donors.size(); ++i) {
        slowest[i] = std::max(slowest[i], cut.donor_ns(i, shards[i]));
        if (slowest[i] > slowest[last]) last = i;
        if (shards[i] > 0 && shards[i] >= cut.limit_shards(i)) at_limit.push_back(task.donors[i].id);
    }
    std::string text = "the last shard comes from donor " + std::to_string(task.donors[last].id);
    if (cut.donor_ns(static_cast<std::uint32_t>(last), shards[last]) >= plan.predicted_ns)
        text += ", held by its egress cap";
    if (!at_limit.empty()) text += "; " + donor_list(at_limit) + " sent as much as allowed";
    return text;
}

std::string who_sends_nothing(const ShardTask& task, const ShardCut& cut, const ShardPlan& plan) {
    std::vector<std::uint64_t> unlinked;
    std::vector<std::uint64_t> limited;
    std::vector<std::uint64_t> late;
    for (std::uint32_t i = 0; i < task.donors.size(); ++i) {
        const std::uint64_t id = task.donors[i].id;
        if (std::any_of(plan.transfers.begin(), plan.transfers.end(), [&](const auto& t) { return t.donor == id; })) {
            continue;
        }
        const auto leads_here = [&](const ShardWay& way) { return way.donor == i; };
        if (std::none_of(task.ways.begin(), task.ways.end(), leads_here)) {
            unlinked.push_back(id);
        } else if (cut.limit_shards(i) == 0) {
            limited.push_back(id);
        } else {
            late.push_back(id);
        }
    }
    std::string text;
    const auto add = [&](const std::vector<std::uint64_t>& ids, const char* why) {
        if (ids.empty()) return;
        text += (text.empty() ? "" : "; ") + donor_list(ids) + " sends nothing: " + why;
    };
    add(unlinked, "no usable link");
    add(limited, "the limit is below one shard");
    add(late, "the others are done before its first shard would help");
    return text;
}

void explain(const ShardTask& task, const std::vector<std::uint64_t>& sizes, std::vector<ShardCut>& cuts,
             const Choice& choice, ShardPlan& plan) {
    const ShardCut& cut = cuts[choice.size];
    plan.reasons.push_back(why_this_size(sizes, cuts, choice, plan.limit_ns));
    plan.reasons.push_back(say_time(plan.predicted_ns) + " is " + say_excess(plan.predicted_ns, plan.limit_ns) +
                           " above the limit of " + say_time(plan.limit_ns) + ", bytes over rates");
    plan.reasons.push_back(bottleneck_of(task, cut, plan));
    std::string nothing = who_sends_nothing(task, cut, plan);
    if (!nothing.empty()) plan.reasons.push_back(std::move(nothing));
}

}  // namespace

std::vector<std::uint64_t> default_shard_sizes() {
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t size = std::uint64_t{1} << 16; size <= std::uint64_t{1} << 26; size *= 2) sizes.push_back(size);
    return sizes;
}

Result<ShardPlan> plan_shards(const ShardRequest& request) {
    CHAOS_TRY(const ShardTask task, put_in_order(request));
    CHAOS_CHECK(check_joiners(task));
    ShardPlan plan;
    plan.limit_ns = limit_of(task);
    std::vector<ShardCut> cuts;
    cuts.reserve(request.shard_sizes.size());
    for (const std::uint64_t size : request.shard_sizes) cuts.emplace_back(task, size);
    if (std::all_of(task.gaps.begin(), task.gaps.end(), [](const auto& gaps) { return gaps.empty(); })) {
        plan.shard_bytes = request.shard_sizes.back();
        plan.reasons.emplace_back("nothing is missing");
        return plan;
    }
    // From coarse to fine: of equally fast sizes the one with the fewest shards wins, and a size that cannot beat the
    // best so far costs one look.
    std::optional<Choice> best;
    for (std::size_t i = cuts.size(); i-- > 0;) {
        const std::uint64_t most_ns = best ? best->ns - 1 : longest_ns;
        if (!cuts[i].feasible(most_ns)) continue;
        if (const auto ns = cuts[i].earliest(plan.limit_ns, most_ns)) best = Choice{i, *ns};
    }
    if (!best) return refusal(task, request.shard_sizes.front());
    ShardCut& cut = cuts[best->size];
    plan.shard_bytes = request.shard_sizes[best->size];
    plan.predicted_ns = best->ns;
    plan.transfers = transfers_of(task, cut, cut.assign(best->ns));
    explain(task, request.shard_sizes, cuts, *best, plan);
    return plan;
}

void hold(std::vector<ByteRange>& held, ByteRange range) {
    if (range.bytes == 0) return;
    auto first = std::lower_bound(held.begin(), held.end(), range.first,
                                  [](const ByteRange& h, std::uint64_t at) { return h.first + h.bytes < at; });
    std::uint64_t begin = range.first;
    std::uint64_t end = range.first + range.bytes;
    auto last = first;
    for (; last != held.end() && last->first <= end; ++last) {
        begin = std::min(begin, last->first);
        end = std::max(end, last->first + last->bytes);
    }
    held.insert(held.erase(first, last), {begin, end - begin});
}

}  // namespace chaos::plan
