#include "plan/shard_cut.h"

#include "base/assert.h"

namespace chaos::plan {

ShardCut::ShardCut(const ShardTask& task, std::uint64_t shard_bytes) : task_(task), shard_bytes_(shard_bytes) {
    std::uint64_t all_missing_bytes = 0;
    for (std::size_t j = 0; j < task.joiners.size(); ++j) {
        std::vector<ShardRange>& ranges = missing_.emplace_back();
        std::uint64_t count = 0;
        for (const ByteRange& gap : task.gaps[j]) {
            std::uint64_t first = gap.first / shard_bytes;
            const std::uint64_t end = ceil_div(gap.first + gap.bytes, shard_bytes);
            if (!ranges.empty()) first = std::max(first, ranges.back().first + ranges.back().count);
            if (first == end) continue;
            count += end - first;
            if (!ranges.empty() && ranges.back().first + ranges.back().count == first) {
                ranges.back().count += end - first;
            } else {
                ranges.push_back({first, end - first});
            }
        }
        wanted_.push_back(count);
        std::uint64_t bytes = count * shard_bytes;
        if (count > 0) {
            const std::uint64_t end = (ranges.back().first + ranges.back().count) * shard_bytes;
            if (end > task.state_bytes) bytes -= end - task.state_bytes;
        }
        all_missing_bytes = saturating_add(all_missing_bytes, bytes);
        const std::uint64_t ingress = task.joiners[j]->ingress_bytes_per_s;
        ingress_ns_ = std::max(ingress_ns_, transfer_ns(bytes, ingress));
    }
    for (const ShardDonor& donor : task.donors) {
        limit_.push_back(donor.limit_bytes >= all_missing_bytes ? unlimited : donor.limit_bytes / shard_bytes);
    }
    for (const ShardWay& way : task.ways) {
        shard_cost_.push_back(u128{shard_bytes} * ns_per_s + u128{way.overhead_ns} * way.bytes_per_s);
    }
}

std::uint64_t ShardCut::way_shards(std::size_t way, std::uint64_t ns) const {
    const ShardWay& w = task_.ways[way];
    if (ns <= w.delay_ns) return 0;
    return saturate(u128{ns - w.delay_ns} * w.bytes_per_s / shard_cost_[way]);
}

std::uint64_t ShardCut::donor_shards(std::uint32_t donor, std::uint64_t ns) const {
    const std::uint64_t egress = task_.donors[donor].egress_bytes_per_s;
    if (egress >= fastest_bytes_per_s) return limit_[donor];
    return std::min(limit_[donor], saturate(u128{ns} * egress / (u128{shard_bytes_} * ns_per_s)));
}

std::uint64_t ShardCut::way_ns(const ShardWay& way, std::uint64_t shards) const {
    if (shards == 0) return 0;
    const u128 cost = u128{shard_bytes_} * ns_per_s + u128{way.overhead_ns} * way.bytes_per_s;
    if (cost > ~u128{0} / shards - way.bytes_per_s) return longest_ns;
    const u128 ns = (cost * shards + way.bytes_per_s - 1) / way.bytes_per_s;
    return std::min(saturating_add(saturate(ns), way.delay_ns), longest_ns);
}

std::uint64_t ShardCut::donor_ns(std::uint32_t donor, std::uint64_t shards) const {
    const std::uint64_t egress = task_.donors[donor].egress_bytes_per_s;
    if (egress >= fastest_bytes_per_s) return 0;
    return transfer_ns(saturate(u128{shards} * shard_bytes_), egress);
}

void ShardCut::make_network() {
    const auto donors = static_cast<std::uint32_t>(task_.donors.size());
    const auto joiners = static_cast<std::uint32_t>(task_.joiners.size());
    network_.emplace(2 + donors + joiners);
    for (std::uint32_t i = 0; i < donors; ++i) network_->add_arc(0, 2 + i);
    for (const ShardWay& way : task_.ways) network_->add_arc(2 + way.donor, 2 + donors + way.joiner);
    for (std::uint32_t j = 0; j < joiners; ++j) network_->add_arc(2 + donors + j, 1);
}

bool ShardCut::flow_fits(std::uint64_t ns) {
    if (!network_) make_network();
    std::uint64_t all_wanted = 0;
    for (const std::uint64_t wanted : wanted_) all_wanted += wanted;
    std::uint32_t arc = 0;
    for (std::uint32_t i = 0; i < task_.donors.size(); ++i) {
        network_->set_capacity(arc++, std::min(donor_shards(i, ns), all_wanted));
    }
    for (std::size_t w = 0; w < task_.ways.size(); ++w) {
        network_->set_capacity(arc++, std::min(way_shards(w, ns), wanted_[task_.ways[w].joiner]));
    }
    for (const std::uint64_t wanted : wanted_) network_->set_capacity(arc++, wanted);
    return network_->maximise(0, 1) == all_wanted;
}

bool ShardCut::feasible(std::uint64_t ns) {
    if (ns < ingress_ns_) return false;
    std::size_t w = 0;
    for (std::uint32_t j = 0; j < wanted_.size(); ++j) {  // each joiner as if it were alone
        std::uint64_t can = 0;
        for (; w < task_.ways.size() && task_.ways[w].joiner == j; ++w) {
            can = saturating_add(can, single_shards(w, ns));
        }
        if (can < wanted_[j]) return false;
    }
    return wanted_.size() <= 1 || flow_fits(ns);
}

std::optional<std::uint64_t> ShardCut::earliest(std::uint64_t least_ns, std::uint64_t most_ns) {
    if (least_ns > most_ns) return std::nullopt;
    if (feasible(least_ns)) return least_ns;
    // Mostly the optimum lies a little above what nobody can beat: walk there in growing steps, then bisect.
    std::uint64_t infeasible = least_ns;
    std::uint64_t enough = least_ns;
    std::uint64_t step = least_ns / 64 + 1;
    do {
        infeasible = enough;
        if (infeasible == most_ns) return std::nullopt;
        enough = most_ns - enough > step ? enough + step : most_ns;
        step *= 2;
    } while (!feasible(enough));
    while (enough - infeasible > 1) {
        const std::uint64_t middle = infeasible + (enough - infeasible) / 2;
        (feasible(middle) ? enough : infeasible) = middle;
    }
    return enough;
}

std::vector<std::uint64_t> ShardCut::assign(std::uint64_t ns) {
    std::vector<std::uint64_t> counts(task_.ways.size());
    if (wanted_.size() == 1) {
        // All that arrives before `ns` is taken, the rest from who finishes it just then: "finishes it earliest".
        std::uint64_t rest = wanted_[0];
        for (std::size_t w = 0; w < counts.size(); ++w) {
            counts[w] = std::min(ns > 0 ? single_shards(w, ns - 1) : 0, rest);
            rest -= counts[w];
        }
        for (std::size_t w = 0; w < counts.size() && rest > 0; ++w) {
            const std::uint64_t more = std::min(single_shards(w, ns) - counts[w], rest);
            counts[w] += more;
            rest -= more;
        }
        CHAOS_ASSERT(rest == 0);
        return counts;
    }
    CHAOS_ASSERT(flow_fits(ns));
    for (std::size_t w = 0; w < counts.size(); ++w) {
        counts[w] = network_->flow(static_cast<std::uint32_t>(task_.donors.size() + w));
    }
    return counts;
}

}  // namespace chaos::plan
