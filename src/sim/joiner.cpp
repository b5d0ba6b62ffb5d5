#include "sim/joiner.h"

#include "base/assert.h"
#include "base/planted.h"

#include <algorithm>

namespace chaos::sim {

using cluster::NodeId;

namespace {

constexpr Time look_again = 500 * millisecond;
constexpr Time shard_patience = 3 * second;  // then another donor is asked as well
constexpr std::size_t max_results = 4096;
constexpr std::size_t max_stages = 64;

}  // namespace

void Joiner::begin(std::vector<NodeId> donors) {
    running_ = true;
    verified_ = taken_ = complete_ = false;
    ++sync_;
    donors_.clear();
    shards_.assign(toy_.shards, {});
    floats_.assign(std::size_t{toy_.parameters} * 3, 0.0F);
    results_.clear();
    stages_.clear();
    change_donors(std::move(donors));
    edge_.wake_after(look_again, TrainerTimer::sync, sync_);
}

void Joiner::stop() {
    running_ = false;
    ++sync_;
}

void Joiner::change_donors(std::vector<NodeId> donors) {
    std::erase_if(donors_,
                  [&](const DonorState& d) { return std::find(donors.begin(), donors.end(), d.node) == donors.end(); });
    for (const NodeId node : donors) {
        if (find(node) != nullptr) continue;
        donors_.push_back({.node = node});
        if (edge_.linked(node)) on_link_up(node);
    }
}

Joiner::DonorState* Joiner::find(NodeId node) {
    const auto found =
        std::find_if(donors_.begin(), donors_.end(), [&](const DonorState& d) { return d.node == node; });
    return found == donors_.end() ? nullptr : &*found;
}

void Joiner::on_link_up(NodeId peer) {
    DonorState* donor = running_ ? find(peer) : nullptr;
    if (donor == nullptr) return;
    follow(*donor);
    ask_donor(*donor);
}

void Joiner::follow(DonorState& donor) {
    donor.follows = true;
    donor.heard_at = edge_.now();
    edge_.send(donor.node, std::make_shared<const Bulk>(Bulk{FollowAsk{sync_}, 64}));
}

void Joiner::on_link_closed(NodeId peer) {
    if (DonorState* donor = find(peer)) {
        donor->follows = false;
        donor->asked = -1;
    }
}

// A shard that nobody was asked for; else one whose donor takes long.
std::int32_t Joiner::next_shard_for(const DonorState& donor) const {
    std::int32_t slow = -1;
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
        if (shards_[shard].present) continue;
        const auto index = static_cast<std::int32_t>(shard);
        const auto asked =
            std::find_if(donors_.begin(), donors_.end(), [&](const DonorState& d) { return d.asked == index; });
        if (asked == donors_.end()) return index;
        if (asked->node != donor.node && edge_.now() - asked->asked_at > shard_patience) slow = index;
    }
    return slow;
}

void Joiner::ask_donor(DonorState& donor) {
    if (donor.blamed || !donor.follows || donor.asked >= 0) return;
    donor.asked = next_shard_for(donor);
    donor.asked_at = edge_.now();
    if (donor.asked >= 0)
        edge_.send(donor.node,
                   std::make_shared<const Bulk>(Bulk{ShardAsk{sync_, static_cast<std::uint32_t>(donor.asked)}, 64}));
}

void Joiner::on_data(NodeId from, const ShardData& data) {
    DonorState* donor = running_ && data.sync == sync_ ? find(from) : nullptr;
    if (donor == nullptr || data.shard >= shards_.size()) return;
    if (donor->asked == static_cast<std::int32_t>(data.shard)) donor->asked = -1;
    if (!shards_[data.shard].present) {
        shards_[data.shard] = {.present = true, .applied = data.applied, .from = from};
        put_shard(toy_, data.floats, data.shard, floats_);
        advance();
    }
    for (DonorState& other : donors_)
        if (other.asked == static_cast<std::int32_t>(data.shard)) other.asked = -1;
    for (DonorState& other : donors_) ask_donor(other);
}

void Joiner::on_follow(NodeId from, const Follow& follow) {
    DonorState* donor = running_ && follow.sync == sync_ ? find(from) : nullptr;
    if (donor == nullptr) return;
    donor->heard_at = edge_.now();
    if (follow.result != nullptr && follow.applied > 0 && results_.size() < max_results)
        results_.try_emplace(follow.applied - 1, follow.result);
    Stage& stage = stages_[follow.applied];
    stage.lineage = follow.lineage;
    std::erase_if(stage.votes, [&](const Vote& vote) { return vote.donor == from; });
    stage.votes.push_back({from, follow.root, follow.hashes});
    if (stages_.size() > max_stages) stages_.erase(stages_.begin());
    if (!verified_) advance();
    if (running_ && !verified_) compare(follow.applied);
}

// Applies result R(step) to those shards that are at that step.
void Joiner::fit_in(const StepResult& result, std::uint64_t step) {
    if (!workplace_) workplace_.emplace(toy_);
    workplace_->load({.applied = step, .lineage = {}, .floats = floats_});
    workplace_->apply(result);
    const Snapshot after = workplace_->snapshot();
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
        if (!shards_[shard].present || shards_[shard].applied != step) continue;
        put_shard(toy_, take_shard(toy_, after.floats, shard), shard, floats_);
        shards_[shard].applied = step + 1;
    }
}

// Brings every shard as far as the results reach. When all are at one step, their hashes are noted for the comparison.
void Joiner::advance() {
    for (const auto& [step, result] : results_) {
        const bool needed = std::any_of(shards_.begin(), shards_.end(),
                                        [&](const ShardState& s) { return s.present && s.applied == step; });
        if (needed) fit_in(*result, step);
    }
    complete_ = std::all_of(shards_.begin(), shards_.end(),
                            [&](const ShardState& s) { return s.present && s.applied == shards_.front().applied; });
    if (!complete_) return;
    level_ = shards_.front().applied;
    Stage& stage = stages_[level_];
    stage.own = shard_hashes(toy_, floats_);
    if (CHAOS_PLANTED(wrong_shard_kept)) verified_ = true;
    compare(level_);
}

void Joiner::compare(std::uint64_t applied) {
    const auto found = stages_.find(applied);
    if (verified_ || found == stages_.end() || found->second.own.empty()) return;
    Stage& stage = found->second;
    std::size_t donors = 0;
    for (const DonorState& donor : donors_)
        if (donor.follows) ++donors;
    const Digest own = root_of(stage.own);
    for (const Vote& vote : stage.votes) {
        const auto same = static_cast<std::size_t>(
            std::count_if(stage.votes.begin(), stage.votes.end(), [&](const Vote& v) { return v.root == vote.root; }));
        if (2 * same <= donors) continue;
        for (const Vote& other : stage.votes)
            if (other.root != vote.root) edge_.note(brief(other.donor) + " names a wrong root of the state");
        if (vote.root == own) {
            verified_ = true;
            return;
        }
        for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
            if (!shards_[shard].present || stage.own[shard] == vote.hashes[shard]) continue;
            edge_.note(brief(shards_[shard].from) + " sent a wrong shard " + std::to_string(shard));
            if (DonorState* liar = find(shards_[shard].from)) liar->blamed = true;
            shards_[shard] = {};
        }
        stage.own.clear();
        complete_ = false;
        for (DonorState& donor : donors_) ask_donor(donor);
        return;
    }
}

void Joiner::on_timer(std::uint64_t tag) {
    if (!running_ || tag != sync_) return;
    edge_.wake_after(look_again, TrainerTimer::sync, sync_);
    if (taken_) return;
    // A shard whose next result never came, because its donor died before it sent it, is pulled again.
    std::uint64_t newest = 0;
    for (const ShardState& shard : shards_)
        if (shard.present) newest = std::max(newest, shard.applied);
    if (!results_.empty()) newest = std::max(newest, results_.rbegin()->first + 1);
    for (ShardState& shard : shards_)
        if (shard.present && shard.applied + 2 < newest && !results_.contains(shard.applied)) shard = {};
    for (DonorState& donor : donors_) {
        if (!edge_.linked(donor.node)) continue;
        if (!donor.follows) on_link_up(donor.node);
        if (donor.asked >= 0 && edge_.now() - donor.asked_at > 2 * shard_patience) {
            donor.asked = -1;
            on_link_up(donor.node);  // it may not have been able to answer then
        }
        if (edge_.now() - donor.heard_at > shard_patience) follow(donor);  // likewise
        ask_donor(donor);
    }
    // All blamed: the accusations cannot all be true.
    if (!donors_.empty() && std::all_of(donors_.begin(), donors_.end(), [](const DonorState& d) { return d.blamed; }))
        for (DonorState& donor : donors_) donor.blamed = false;
}

std::optional<Snapshot> Joiner::take_verified() {
    if (!running_ || !verified_ || taken_) return std::nullopt;
    if (!complete_) return std::nullopt;
    const auto stage = stages_.find(level_);
    // The label of this step may come a little after the result that led to it.
    Digest lineage{};
    if (const auto last = results_.find(level_ - 1); level_ > 0 && last != results_.end())
        lineage = last->second->lineage;
    else if (stage != stages_.end() && !stage->second.votes.empty())
        lineage = stage->second.lineage;
    else
        return std::nullopt;
    taken_ = true;
    return Snapshot{.applied = level_, .lineage = lineage, .floats = floats_};
}

ResultPtr Joiner::result(std::uint64_t step) const {
    const auto found = results_.find(step);
    return found == results_.end() ? nullptr : found->second;
}

bool Joiner::lost_track(std::uint64_t applied) const {
    return taken_ && !results_.empty() && results_.rbegin()->first > applied + 2 && !results_.contains(applied);
}

}  // namespace chaos::sim
