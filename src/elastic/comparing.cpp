// A joiner's state, when all of it is here: is it what the donors have?
#include "elastic/joiner.h"

#include <algorithm>

namespace chaos::elastic {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds root_patience{3000};
constexpr milliseconds last_root_patience{250};  // when nothing else is missing

}  // namespace

// Looks whether all of it is one state.
void Joiner::look() {
    if (!running_ || out_until_) return;
    const std::optional<StateLabel> state = whole();
    if (!state || (looked_at_ && *looked_at_ == *state)) return;
    if (!verified_ && applies_to_all_) return;  // what it was may still turn out to be right
    looked_at_ = state;
    if (verified_) return callbacks_.rolled(*state, look_record_);
    own_hashes_.clear();
    if (!thread_.may_read()) {  // it comes by here again
        looked_at_.reset();
        return;
    }
    ask_roots(false);
    const auto hashes = std::make_shared<std::vector<std::uint64_t>>();
    thread_.read([this, hashes] { *hashes = shards_.hashes(trainer_.engine().arena()); },
                 [this, hashes, state, sync = sync_, alive = alive_] {
                     if (!*alive || sync != sync_ || !looked_at_ || looked_at_->lineage != state->lineage) return;
                     own_hashes_ = std::move(*hashes);
                     compare();
                 });
}

// All at once: what they tell must be of the same steps.
void Joiner::ask_roots(bool now) {
    if (verified_ || out_until_) return;
    // Who had not heard yet that this node joins did not answer.
    const bool waited_for = looked_at_ && std::ranges::any_of(donors_, [&](const DonorState& donor) {
                                return donor.linked && std::ranges::none_of(roots_, [&](const Root& root) {
                                           return root.donor == donor.node && root.label.applied == looked_at_->applied;
                                       });
                            });
    const milliseconds patience = waited_for ? last_root_patience : root_patience;
    if (!now && Clock::now() - roots_asked_ < patience) return;
    roots_asked_ = Clock::now();
    for (const DonorState& donor : donors_) {
        if (!donor.linked) continue;
        wire::Work message;
        message.mutable_root_ask();
        (void)member_->links().send_work(donor.node, bytes_of(message));  // no link: link_down follows
    }
}

void Joiner::received(NodeId from, const wire::RootAnswer& answer) {
    const std::optional<cluster::Name> lineage = name_from(answer.lineage());
    if (!running_ || find(from) == nullptr || !lineage ||
        static_cast<std::uint32_t>(answer.hashes_size()) != shards_.count())
        return;
    claims_.settled(from, answer.applied(), *lineage, Clock::now());
    if (verified_) return;
    constexpr std::size_t kept_of_each = 8;
    const auto same = [&](const Root& root) { return root.donor == from; };
    if (static_cast<std::size_t>(std::ranges::count_if(roots_, same)) >= kept_of_each)
        roots_.erase(std::ranges::find_if(roots_, same));
    roots_.push_back({.donor = from,
                      .label = {.applied = answer.applied(), .lineage = *lineage},
                      .hashes = {answer.hashes().begin(), answer.hashes().end()}});
    compare();
}

void Joiner::compare() {
    if (!running_ || verified_ || !looked_at_ || own_hashes_.empty()) return;
    const auto donors = static_cast<std::size_t>(std::ranges::count(donors_, true, &DonorState::linked));
    for (const Root& root : roots_) {
        if (root.label.applied != looked_at_->applied) continue;
        const auto agreeing = static_cast<std::size_t>(std::ranges::count_if(roots_, [&](const Root& other) {
            return other.label.applied == root.label.applied && other.label.lineage == root.label.lineage &&
                   other.hashes == root.hashes;
        }));
        if (2 * agreeing <= donors) continue;
        if (root.label.lineage != looked_at_->lineage || root.hashes != own_hashes_) return pull_what_differs(root);
        for (const Root& other : roots_)
            if (other.label.applied == root.label.applied && other.hashes != root.hashes)
                callbacks_.note(cluster::brief(other.donor) + " names another root of the state than the others");
        verified_ = true;
        for (Shard& shard : states_) shard.origin = shard.other = {};
        const StateLabel state = *looked_at_;
        const cluster::Name name = state::root_of(own_hashes_);
        callbacks_.synced(state, name);
        return look();  // it may have gone on meanwhile
    }
}

// Most donors have another state than we: what differs is pulled again, of somebody else.
void Joiner::pull_what_differs(const Root& agreed) {
    const std::vector<std::uint64_t> right = agreed.hashes;
    const std::vector<std::uint64_t> own = own_hashes_;
    const bool foreign = agreed.label.lineage != looked_at_->lineage;
    unsigned own_wrong = 0;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
        if (!foreign && right[i] == own[i]) continue;
        if (states_[i].origin == NodeId{} || states_[i].origin == member_->id()) ++own_wrong;
        // Of several givers nobody knows which was wrong, and of a foreign state it may have been undone.
        DonorState* donor = find(states_[i].origin);
        if (foreign || states_[i].other != NodeId{}) {
            doubt_givers(states_[i], "gave what most donors do not have");
        } else if (donor != nullptr && !donor->blamed) {
            blame(*donor, "sent a wrong shard " + std::to_string(i));
        }
        lose(states_[i]);
    }
    if (own_wrong > 0)
        callbacks_.note(std::to_string(own_wrong) + " of the " + std::to_string(states_.size()) +
                        " shards that were here before are not what the others have");
    divide();
    pull();
}

}  // namespace chaos::elastic
