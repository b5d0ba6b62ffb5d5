// A joiner and the results of steps that its shards need.
#include "elastic/joiner.h"

#include <algorithm>
#include <limits>

namespace chaos::elastic {
namespace {

using state::ShardSpan;

constexpr std::uint64_t results_ahead = 2;

}  // namespace

// Asks for the results that shards need next, some steps ahead: of whoever gave them, or whoever is there.
void Joiner::follow() {
    if (!running_ || out_until_) return;
    const std::uint64_t ahead = applies_to_all_ ? results_ahead - 1 : results_ahead;
    for (std::uint32_t first = 0; first < states_.size();) {
        const Shard& begin = states_[first];
        if (begin.stage != Shard::Stage::here || begin.asked_to >= begin.label.applied + ahead) {
            ++first;
            continue;
        }
        if (is_asked(first, begin.asked_to)) {
            ++states_[first].asked_to;
            continue;
        }
        DonorState* donor = find(begin.donor);
        if (donor == nullptr || !donor->linked || donor->blamed) {
            std::vector<DonorState*> others;
            for (DonorState& other : donors_)
                if (other.linked && !other.blamed) others.push_back(&other);
            if (others.empty()) return;
            donor = others[first * others.size() / states_.size()];
        }
        std::uint32_t end = first + 1;
        while (end < states_.size() && states_[end].stage == Shard::Stage::here && states_[end].donor == begin.donor &&
               states_[end].asked_to == begin.asked_to && states_[end].label.applied == begin.label.applied &&
               shards_.in_result({.first = first, .count = end + 1 - first}).count() * sizeof(float) <= most_ask_bytes)
            ++end;
        const ShardSpan span{.first = first, .count = end - first};
        const std::uint64_t step = begin.asked_to;
        for (std::uint32_t i = first; i < end; ++i) {
            states_[i].asked_to = step + 1;
            states_[i].donor = donor->node;
        }
        ask_part(*donor, span, step);
        // The same shards again, for the step after.
    }
}

// Its part of that result is on its way, or here.
bool Joiner::is_asked(std::uint32_t shard, std::uint64_t step) const {
    const auto covers = [&](ShardSpan span) { return span.first <= shard && shard < span.first + span.count; };
    return std::ranges::any_of(
               fetches_, [&](const auto& entry) { return entry.second.step == step && covers(entry.second.span); }) ||
           std::ranges::any_of(parts_, [&](const Part& part) { return part.step == step && covers(part.span); });
}

void Joiner::ask_part(DonorState& donor, ShardSpan span, std::uint64_t step) {
    Fetch fetch;
    fetch.donor = donor.node;
    fetch.span = span;
    fetch.step = step;
    const std::uint64_t transfer = expect(shards_.in_result(span).count() * sizeof(float), std::move(fetch));
    wire::Work message;
    wire::PartAsk& ask = *message.mutable_part_ask();
    ask.set_transfer(transfer);
    ask.set_step(step);
    ask.set_first(span.first);
    ask.set_count(span.count);
    (void)member_->links().send_work(donor.node, bytes_of(message));  // no link: link_down follows
}

void Joiner::received(NodeId from, const wire::PartAnswer& answer) {
    const auto at = fetches_.find(answer.transfer());
    if (at == fetches_.end() || at->second.donor != from || !at->second.step) return;
    Fetch& fetch = at->second;
    const std::optional<cluster::Name> before = name_from(answer.before());
    const std::optional<state::StepRecord> record = record_from(answer.record());
    if (!answer.absent() && before && record && record->step == *fetch.step) {
        fetch.answered = true;
        fetch.label = {.applied = *fetch.step, .lineage = *before};
        fetch.record = *record;
        claims_.settled(from, *fetch.step, *before, Clock::now());
        return complete(answer.transfer());
    }
    // Somebody else may have it; else it is too late for these: they are pulled again.
    const ShardSpan span = fetch.span;
    const std::uint64_t step = *fetch.step;
    give_up(answer.transfer());
    const NodeId other = linked_after(from);
    const std::vector<NodeId> donors = linked();
    const std::uint64_t newest = claims_.reached_by_most(donors);
    for (std::uint32_t i = span.first; i < span.first + span.count; ++i) {
        Shard& shard = states_[i];
        if (shard.stage != Shard::Stage::here || shard.label.applied > step) continue;
        shard.donor = other;
        if (++shard.refusals < donors.size()) continue;
        if (newest > 0 && shard.label.applied > newest + Claims::most_apart_steps)
            doubt_givers(shard, "gave shards of a step that most donors have not done");
        lose(shard);
    }
    follow();
    pull();
}

// The next of those who are linked, in turn.
NodeId Joiner::linked_after(NodeId node) const {
    const auto at = std::ranges::find(donors_, node, &DonorState::node);
    const auto first = static_cast<std::size_t>(at - donors_.begin());
    for (std::size_t i = 1; i <= donors_.size(); ++i)
        if (const DonorState& donor = donors_[(first + i) % donors_.size()]; donor.linked && !donor.blamed)
            return donor.node;
    return node;
}

// It is pulled again; then the whole is to be compared again, too.
void Joiner::lose(Shard& shard) {
    shard = {};
    verified_ = false;
    looked_at_.reset();
    own_hashes_.clear();
}

void Joiner::take_part(Fetch fetch) {
    const state::FloatRange range = shards_.in_result(fetch.span);
    if (fetch.content->count != range.count() * sizeof(float)) {
        for (std::uint32_t i = fetch.span.first; i < fetch.span.first + fetch.span.count; ++i)
            states_[i].asked_to = std::min(states_[i].asked_to, *fetch.step);
        if (DonorState* donor = find(fetch.donor)) blame(*donor, "sent a part of a result of another length");
        return follow();
    }
    progress_.result_bytes += fetch.content->count;
    Part part;
    part.donor = fetch.donor;
    part.span = fetch.span;
    part.step = *fetch.step;
    part.before = fetch.label.lineage;
    // Nothing is learnt any more once the run is over.
    part.after = trainer_.is_over(part.step) ? part.before : state::extend_lineage(part.before, fetch.record);
    claims_.settled(part.donor, part.step + 1, part.after, Clock::now());
    part.record = fetch.record;
    part.content = *fetch.content;
    parts_.push_back(std::move(part));
    roll();
    follow();
}

// Applies what fits. While shards are missing, each goes ahead as far as it can; once all are here, they go step by
// step together; and once they were one state, by whole results.
void Joiner::roll() {
    if (!running_ || applies_to_all_) return;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    bool all = true;
    for (const Shard& state : states_) {
        all = all && state.stage == Shard::Stage::here;
        if (state.stage == Shard::Stage::here) least = std::min(least, state.label.applied);
    }
    const std::vector<NodeId> donors = linked();
    bool lost = false;
    std::optional<NodeId> undone;
    for (auto part = parts_.begin(); part != parts_.end();) {
        bool needed = false;
        const std::optional<cluster::Name> agreed = claims_.lineage_after(part->step, donors);
        if (agreed && part->before != *agreed) {
            leave_out(*part);
            part = parts_.erase(part);
            lost = true;
            continue;
        }
        for (std::uint32_t i = part->span.first; i < part->span.first + part->span.count;) {
            Shard& state = states_[i];
            const bool here = state.stage == Shard::Stage::here;
            if (here && state.job == 0 && state.label.applied == part->step && state.label.lineage != part->before) {
                // Somebody is wrong, or the shard is of a step that was undone. Where most donors name no lineage,
                // nobody knows which.
                const std::string why = "gave shards or results that belong to different states";
                doubt_givers(state, why);
                if (!agreed) doubt(part->donor, why);
                undone = state.origin;
                lose(state);
                lost = true;
                ++i;
                continue;
            }
            const bool next = here && !looked_at_ && state.job == 0 && state.label.applied == part->step &&
                              (!all || part->step == least);
            if (!next) {
                needed = needed || (here && state.label.applied <= part->step);
                ++i;
                continue;
            }
            const std::uint64_t id = ++jobs_;
            std::uint32_t end = i;
            while (end < part->span.first + part->span.count && states_[end].stage == Shard::Stage::here &&
                   states_[end].job == 0 && states_[end].label.applied == part->step &&
                   states_[end].label.lineage == part->before) {
                states_[end].job = id;
                ++end;
            }
            apply(*part, {.first = i, .count = end - i}, id);
            i = end;
        }
        part = needed ? std::next(part) : parts_.erase(part);
    }
    if (undone)
        callbacks_.note((*undone == NodeId{} || *undone == member_->id() ? "its own shards"
                                                                         : "shards of " + cluster::brief(*undone)) +
                        " are of a step that was undone: they are pulled again");
    if (lost) {
        follow();
        pull();
    }
    if (looked_at_ && !apply_to_all()) {
        looked_at_.reset();
        roll();
    }
}

// The whole state goes one step further if all of that step's result is here, and nothing of it before: what is in
// memory is one state all the time, and reported as such. False: the givers contradict each other about what that leads
// to. Each shard goes by its own then, and what follows shows who was wrong.
bool Joiner::apply_to_all() {
    const std::optional<StateLabel> state = whole();
    if (!state) return true;
    std::vector<const Part*> by(states_.size(), nullptr);
    const Part* any = nullptr;
    bool same = true;
    for (const Part& part : parts_) {
        if (part.step != state->applied) continue;
        if (any == nullptr) any = &part;
        same = same && part.after == any->after;
        std::fill_n(by.begin() + part.span.first, part.span.count, &part);
    }
    if (std::ranges::find(by, nullptr) != by.end()) return true;
    if (!same) return false;
    const StateLabel next{.applied = any->step + 1, .lineage = any->after};
    applies_to_all_ = true;
    look_record_ = any->record;
    for (std::uint32_t first = 0; first < by.size();) {
        std::uint32_t end = first;
        for (; end < by.size() && by[end] == by[first]; ++end) advance(states_[end], *by[first]);
        std::function<void()> then = [] {};
        if (end == by.size())
            then = [this, sync = sync_, alive = alive_] {
                if (!*alive || sync != sync_) return;
                applies_to_all_ = false;
                look();
                if (sync != sync_) return;
                roll();
                follow();
            };
        thread_.change(work_of(*by[first], {.first = first, .count = end - first}), std::move(then));
        first = end;
    }
    std::erase_if(parts_, [&](const Part& part) { return part.step < next.applied; });
    look();
    return true;
}

// It belongs to another state than most donors have: its giver is not to be asked for the same again.
void Joiner::leave_out(const Part& part) {
    doubt(part.donor, "gave a result of another state than most donors have");
    const NodeId other = linked_after(part.donor);
    for (std::uint32_t i = part.span.first; i < part.span.first + part.span.count; ++i) {
        Shard& shard = states_[i];
        if (shard.stage != Shard::Stage::here || shard.label.applied > part.step) continue;
        shard.asked_to = std::min(shard.asked_to, part.step);
        if (shard.donor == part.donor) shard.donor = other;
    }
}

std::function<void()> Joiner::work_of(const Part& part, ShardSpan span) {
    return [this, job = std::make_shared<Part>(part), span] {
        if (trainer_.is_over(job->step)) return;
        const state::FloatRange all = shards_.in_result(job->span);
        const state::FloatRange range = shards_.in_result(span);
        const std::span<const float> floats(reinterpret_cast<const float*>(job->content.bytes.get()),
                                            job->content.count / sizeof(float));
        shards_.apply(trainer_.run().optimizer, trainer_.engine().manifest(), job->record.scalars, span,
                      floats.subspan(range.begin - all.begin, range.count()), trainer_.engine().arena());
    };
}

void Joiner::advance(Shard& shard, const Part& part) {
    shard.refusals = 0;
    if (shard.origin == NodeId{}) shard.origin = part.donor;
    if (shard.origin != part.donor) shard.other = part.donor;
    shard.label = {.applied = part.step + 1, .lineage = part.after};
}

void Joiner::apply(const Part& part, ShardSpan span, std::uint64_t id) {
    const auto job = std::make_shared<Part>(part);
    thread_.change(work_of(part, span), [this, job, span, id, sync = sync_, alive = alive_] {
        if (!*alive || sync != sync_) return;
        for (std::uint32_t i = span.first; i < span.first + span.count; ++i) {
            if (states_[i].job != id) continue;
            states_[i].job = 0;
            advance(states_[i], *job);
        }
        look_record_ = job->record;
        look();
        if (sync != sync_) return;
        roll();
        follow();
    });
}

}  // namespace chaos::elastic
