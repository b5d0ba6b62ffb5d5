// A joiner that does not believe single donors.
#include "elastic/joiner.h"

#include <algorithm>
#include <map>

namespace chaos::elastic {
namespace {

using std::chrono::milliseconds;

constexpr unsigned most_doubts = 2;
constexpr milliseconds doubts_apart{1000};  // one misfortune shows in many shards at once; others are asked meanwhile
constexpr milliseconds claims_delay{1000};  // what is heard later was said later
constexpr milliseconds ahead_patience{3000};

}  // namespace

// What is said to be of a state that most donors do not have is pulled again.
void Joiner::judge() {
    const std::vector<NodeId> donors = linked();
    std::map<std::uint64_t, std::optional<cluster::Name>> agreed;
    for (Shard& shard : states_) {
        if (shard.stage != Shard::Stage::here || shard.job != 0) continue;
        const auto [at, fresh] = agreed.try_emplace(shard.label.applied);
        if (fresh) at->second = claims_.lineage_after(shard.label.applied, donors);
        if (!at->second || *at->second == shard.label.lineage) continue;
        doubt_givers(shard, "gave shards of another state than most donors have");
        lose(shard);
    }
    judge_who_is_ahead();
}

// A donor may be a step or two ahead of what others have told so far. What they tell later shows whether it was so.
void Joiner::judge_who_is_ahead() {
    const std::vector<NodeId> donors = linked();
    const std::uint64_t newest = claims_.reached_by_most(donors);
    const auto now = Clock::now();
    const auto is_of = [](const Shard& shard, const DonorState& donor) {
        return shard.stage == Shard::Stage::here && shard.origin == donor.node;
    };
    for (DonorState& donor : donors_) {
        if (!donor.ahead) {
            for (const Shard& shard : states_)
                if (is_of(shard, donor) && shard.label.applied > newest + Claims::most_apart_steps)
                    donor.ahead = Ahead{.applied = shard.label.applied, .since = now};
            continue;
        }
        if (newest + Claims::most_apart_steps >= donor.ahead->applied) {
            donor.ahead.reset();
            continue;
        }
        if (now - donor.ahead->since < ahead_patience ||
            !claims_.most_are_behind(donor.ahead->applied, donor.ahead->since + claims_delay, donors))
            continue;
        for (Shard& shard : states_)
            if (is_of(shard, donor) && shard.label.applied >= donor.ahead->applied) lose(shard);
        donor.ahead.reset();
        if (!donor.blamed) blame(donor, "gave shards of a step that most donors have not done");
    }
}

// Parts of results that are there to be had, and do not come: others are asked.
void Joiner::give_up_late_parts() {
    const auto now = Clock::now();
    const std::uint64_t newest = claims_.reached_by_most(linked());
    std::vector<std::uint64_t> late;
    for (auto& [transfer, fetch] : fetches_) {
        const DonorState* donor = find(fetch.donor);
        if (!fetch.step || donor == nullptr) continue;
        const std::uint64_t progress = steps_.transfers().progress(transfer);
        if (progress != fetch.progress || newest <= *fetch.step + Claims::most_apart_steps) {
            fetch.progress = progress;
            fetch.moved_at = now;
        }
        if (now - fetch.moved_at >= patience_with(*donor)) late.push_back(transfer);
    }
    for (const std::uint64_t transfer : late) {
        const auto at = fetches_.find(transfer);
        if (at == fetches_.end()) continue;  // its donor was blamed meanwhile
        const NodeId donor = at->second.donor;
        const state::ShardSpan span = at->second.span;
        give_up(transfer);
        for (std::uint32_t i = span.first; i < span.first + span.count; ++i)
            if (states_[i].donor == donor) states_[i].donor = linked_after(donor);
        doubt(donor, "does not give the results that it has");
    }
}

// It may be honest, and unlucky: a step was undone, or it was busy. The second time it is not asked any more.
void Joiner::doubt(NodeId node, const std::string& why) {
    DonorState* donor = find(node);
    const auto now = Clock::now();
    if (donor == nullptr || donor->blamed || (donor->doubts > 0 && now - donor->doubted_at < doubts_apart)) return;
    donor->doubted_at = now;
    if (++donor->doubts >= most_doubts) return blame(*donor, why + ", again: it is asked for nothing more");
    callbacks_.note(cluster::brief(node) + " " + why);
    if (linked().size() > 1) donor->refused_until = now + doubts_apart;
}

void Joiner::doubt_givers(const Shard& shard, const std::string& why) {
    for (const NodeId node : {shard.origin, shard.other})
        if (node != NodeId{}) doubt(node, why);
}

// Nothing of what it was asked for is waited for, either.
void Joiner::blame(DonorState& donor, const std::string& why) {
    callbacks_.note(cluster::brief(donor.node) + " " + why);
    donor.blamed = true;
    std::vector<std::uint64_t> unwanted;
    for (const auto& [transfer, fetch] : fetches_)
        if (fetch.donor == donor.node) unwanted.push_back(transfer);
    for (const std::uint64_t transfer : unwanted) give_up(transfer);
    divide();
}

}  // namespace chaos::elastic
