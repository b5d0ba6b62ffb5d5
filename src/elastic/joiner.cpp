#include "elastic/joiner.h"

#include <algorithm>
#include <cmath>

namespace chaos::elastic {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t most_steps_behind = 8;  // that one's own state is worth following from
constexpr milliseconds look_interval{250};

}  // namespace

Joiner::Joiner(asio::io_context& loop, ComputeThread& thread, Steps& steps, Trainer& trainer,
               const state::Shards& shards, Callbacks callbacks)
    : loop_(loop),
      thread_(thread),
      steps_(steps),
      trainer_(trainer),
      shards_(shards),
      callbacks_(std::move(callbacks)),
      timer_(loop) {}

Joiner::~Joiner() {
    *alive_ = false;
}

void Joiner::begin(const cluster::View& view, const std::optional<StateLabel>& have) {
    verified_ = false;
    pause();
    times_out_ = 0;
    // Whoever was away for long, or has never been there, would only be told that nobody has those results any more.
    // And who is ahead comes from a line that lost: it would wait for the others to get there, and pull it all then.
    const bool near = have && have->applied <= view.first_step && have->applied + most_steps_behind >= view.first_step;
    if (states_.empty() || have) {
        states_.assign(shards_.count(), {});
        if (near)
            for (Shard& state : states_)
                state = {.stage = Shard::Stage::here,
                         .job = 0,
                         .label = *have,
                         .asked_to = have->applied,
                         .refusals = 0,
                         .origin = member_->id(),
                         .other = {},
                         .donor = {}};
        for (std::size_t i = 0; near && i < followed_from_.size(); ++i)
            if (followed_from_[i] != NodeId{}) states_[i].origin = followed_from_[i];
    }
    followed_from_.clear();
    progress_ = {};
    pace_ = {};
    duplicated_bytes_ = 0;
    received_before_ = steps_.transfers().received_bytes();
    go_on(view);
}

void Joiner::go_on(const cluster::View& view) {
    CHAOS_ASSERT(!running_ && !states_.empty());
    running_ = true;
    adopted(view);
    look();
    look_again(look_interval);
}

void Joiner::pause() {
    end_pause();
    running_ = false;
    out_until_.reset();
    timer_.cancel();
    for (const auto& [transfer, fetch] : fetches_) steps_.transfers().forget(transfer);
    fetches_.clear();
    parts_.clear();
    donors_.clear();
    roots_.clear();
    claims_.clear();
    own_hashes_.clear();
    if (!verified_) looked_at_.reset();
    for (Shard& state : states_) {
        if (state.stage == Shard::Stage::asked) state.stage = Shard::Stage::missing;
        state.asked_to = state.label.applied;
    }
}

void Joiner::stop() {
    pause();
    ++sync_;
    applies_to_all_ = false;
    followed_from_.clear();
    for (const Shard& state : states_)
        if (verified_) followed_from_.push_back(state.other == NodeId{} ? state.origin : NodeId{});
    states_.clear();
    looked_at_.reset();
}

std::optional<StateLabel> Joiner::whole() const {
    if (states_.empty()) return std::nullopt;
    const StateLabel& first = states_.front().label;
    const bool one = std::ranges::all_of(states_, [&](const Shard& state) {
        return state.stage == Shard::Stage::here && state.job == 0 && state.label.applied == first.applied &&
               state.label.lineage == first.lineage;
    });
    return one ? std::optional(first) : std::nullopt;
}

Joiner::Progress Joiner::progress() const {
    Progress now = progress_;
    now.received_bytes = steps_.transfers().received_bytes() - received_before_;
    now.of = static_cast<std::uint32_t>(states_.size());
    now.shards = static_cast<std::uint32_t>(std::ranges::count(states_, Shard::Stage::here, &Shard::stage));
    return now;
}

std::vector<Joiner::Donation> Joiner::donations() const {
    const auto now = Clock::now();
    std::vector<Donation> donations;
    donations.reserve(donors_.size());
    for (const DonorState& donor : donors_)
        donations.push_back({.donor = donor.node,
                             .linked = donor.linked,
                             .blamed = donor.blamed,
                             .pauses = pause_ && pause_->donor == donor.node,
                             .bytes_per_s = donor.bytes_per_s,
                             .asked_bytes = donor.asked_bytes,
                             .still = donor.asked_bytes > 0 ? now - donor.last_arrival : Clock::duration{0}});
    return donations;
}

// ---- donors

Joiner::DonorState* Joiner::find(NodeId node) {
    const auto found = std::ranges::find(donors_, node, &DonorState::node);
    return found == donors_.end() ? nullptr : &*found;
}

std::vector<NodeId> Joiner::linked() const {
    std::vector<NodeId> nodes;
    for (const DonorState& donor : donors_)
        if (donor.linked) nodes.push_back(donor.node);
    return nodes;
}

void Joiner::adopted(const cluster::View& view) {
    // Who leaves follows by its donors to the steps that it was let in for.
    if (!running_ || view.find(member_->id()) == nullptr) return;
    std::vector<NodeId> neighbours = view.neighbours(member_->id());
    std::erase_if(neighbours, [&](NodeId node) { return !view.is_active(node); });
    // A donor that leaves as planned gives until it is gone: maybe nobody else has what is missing here.
    std::vector<NodeId> gone;
    for (const DonorState& donor : donors_)
        if (std::ranges::find(neighbours, donor.node) == neighbours.end() && (view.settlement || !donor.linked))
            gone.push_back(donor.node);
    for (const NodeId node : gone) {
        link_down(node);
        std::erase_if(donors_, [&](const DonorState& donor) { return donor.node == node; });
    }
    for (const NodeId node : neighbours) {
        if (find(node) != nullptr) continue;
        DonorState donor;
        donor.node = node;
        const cluster::LinkInfo* link = view.find(cluster::link_between(node, member_->id()));
        if (link != nullptr)
            donor.bytes_per_s = 1000.0 * (link->id.a == node ? link->figures.rate_ab : link->figures.rate_ba);
        donors_.push_back(donor);
        if (out_until_) {
            times_out_ = 0;
            try_again();
        }
        if (member_->links().linked(node)) link_up(node);
    }
}

void Joiner::link_up(NodeId peer) {
    DonorState* donor = running_ ? find(peer) : nullptr;
    if (donor == nullptr || donor->linked) return;
    donor->linked = true;
    donor->last_arrival = Clock::now();
    divide();
    ask_roots(true);
    follow();
    pull();
}

void Joiner::link_down(NodeId peer) {
    DonorState* donor = running_ ? find(peer) : nullptr;
    if (donor == nullptr) return;
    donor->linked = false;
    if (pause_ && pause_->donor == peer) pause_.reset();
    std::vector<std::uint64_t> lost;
    for (const auto& [transfer, fetch] : fetches_)
        if (fetch.donor == peer) lost.push_back(transfer);
    for (const std::uint64_t transfer : lost) give_up(transfer);
    donor->asked_bytes = 0;
    std::erase_if(roots_, [&](const Root& root) { return root.donor == peer; });
    claims_.forget(peer);
    donor->ahead.reset();
    divide();
    follow();
    pull();
}

// What was asked for will not come.
void Joiner::give_up(std::uint64_t transfer) {
    const auto at = fetches_.find(transfer);
    const Fetch fetch = std::move(at->second);
    fetches_.erase(at);
    steps_.transfers().forget(transfer);
    if (DonorState* donor = find(fetch.donor); donor != nullptr && !fetch.step)
        donor->asked_bytes -= std::min(donor->asked_bytes, shards_.floats(fetch.span) * sizeof(float));
    for (std::uint32_t i = fetch.span.first; i < fetch.span.first + fetch.span.count; ++i) {
        Shard& state = states_[i];
        if (fetch.step) {
            if (state.stage == Shard::Stage::here) state.asked_to = std::min(state.asked_to, *fetch.step);
        } else if (state.stage == Shard::Stage::asked) {
            const bool elsewhere = std::ranges::any_of(fetches_, [&](const auto& entry) {
                const Fetch& other = entry.second;
                return !other.step && other.span.first <= i && i < other.span.first + other.span.count;
            });
            if (!elsewhere) state.stage = Shard::Stage::missing;
        }
    }
}

// Without anything from that donor. A slow one is given the longer, the slower it is known to be.
Joiner::Clock::duration Joiner::patience_with(const DonorState& donor) const {
    constexpr std::chrono::seconds least{3};
    const auto shard_bytes = static_cast<double>(shards_.floats({.first = 0, .count = 1}) * sizeof(float));
    const double ask_seconds = donor.bytes_per_s > 0.0 ? shard_bytes / donor.bytes_per_s : 0.0;
    return std::max<Clock::duration>(
        least, std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(4.0 * ask_seconds)));
}

// Regions in proportion to what is known of the links.
void Joiner::divide() {
    double total = 0.0;
    const auto weight = [](const DonorState& donor) {
        return donor.linked && !donor.blamed ? std::max(donor.bytes_per_s, 1.0) : 0.0;
    };
    for (const DonorState& donor : donors_) total += weight(donor);
    double before = 0.0;
    const auto count = static_cast<double>(shards_.count());
    for (DonorState& donor : donors_) {
        const double own = weight(donor);
        if (own == 0.0) continue;
        const auto first = static_cast<std::uint32_t>(std::floor(before / total * count));
        before += own;
        const auto end = static_cast<std::uint32_t>(std::floor(before / total * count));
        donor.region = {.first = first, .count = std::min(end, shards_.count()) - first};
    }
}

// ---- what nobody tells

void Joiner::look_again(std::chrono::milliseconds after) {
    timer_.expires_after(after);
    timer_.async_wait([this, sync = sync_, alive = alive_](boost::system::error_code cancelled) {
        if (cancelled || !*alive || sync != sync_ || !running_) return;
        const auto now = Clock::now();
        if (out_until_) {
            if (now >= *out_until_) try_again();
            return look_again(look_interval);
        }
        for (DonorState& donor : donors_) {
            if (!donor.linked && member_->links().linked(donor.node)) link_up(donor.node);
            const Clock::duration patience = patience_with(donor);
            if (!donor.linked || donor.asked_bytes == 0 || now - donor.last_arrival < patience) continue;
            // It may be busy with others, or stuck: what it was asked for is for everybody again.
            std::vector<std::uint64_t> late;
            for (const auto& [transfer, fetch] : fetches_)
                if (fetch.donor == donor.node && !fetch.step && now - fetch.asked_at >= patience)
                    late.push_back(transfer);
            for (const std::uint64_t transfer : late) give_up(transfer);
            if (!late.empty()) donor.bytes_per_s = std::max(donor.bytes_per_s / 2.0, 1e4);
            donor.last_arrival = now;
        }
        give_up_late_parts();
        judge();
        // All blamed: the accusations cannot all be true.
        if (std::ranges::all_of(donors_, [](const DonorState& donor) { return donor.blamed || !donor.linked; }))
            for (DonorState& donor : donors_) {
                donor.blamed = false;
                donor.doubts = 0;
            }
        watch_pace();
        ask_for_pause_if_cheaper();
        ask_roots(false);
        look();
        roll();
        follow();
        pull();
        look_again(look_interval);
    });
}

}  // namespace chaos::elastic
