#include "sim/trainer.h"

#include "base/planted.h"

#include <algorithm>

namespace chaos::sim {

using cluster::NodeId;
using cluster::ViewPtr;

namespace {

constexpr std::size_t max_early = 512;
constexpr Time ask_again = 400 * millisecond;
constexpr Time least_compute = 10 * microsecond;
constexpr std::uint64_t asks_before_resync = 8;

std::uint64_t count_of(const std::vector<SampleRange>& ranges) {
    std::uint64_t count = 0;
    for (const SampleRange range : ranges) count += range.end - range.begin;
    return count;
}

std::vector<NodeId> donors_in(const cluster::View& view, NodeId self) {
    std::vector<NodeId> donors = view.neighbours(self);
    std::erase_if(donors, [&](NodeId node) { return !view.is_active(node); });
    return donors;
}

}  // namespace

Trainer::Trainer(TrainerEdge& edge, const Toy& toy, Planner& planner, const TrainerSettings& settings)
    : edge_(edge),
      toy_(toy),
      planner_(planner),
      settings_(settings),
      store_(toy),
      donor_(edge, store_),
      joiner_(edge, toy),
      next_checkpoint_(settings.checkpoint_offset % settings.checkpoint_every + 1) {}

// ---- what the core asks for

void Trainer::start_step(std::uint64_t step, const ViewPtr& view) {
    if (step != store_.applied())
        return edge_.broken("is to start step " + std::to_string(step) + " but has applied " +
                            std::to_string(store_.applied()));
    joiner_.stop();
    synced_ = false;
    active_ = true;
    asking_ = false;
    PlanPtr plan = planner_.plan(*view);
    if (!plan->refusal.empty()) return edge_.broken("has no plan for its view: " + plan->refusal);
    if (plan->index_of(edge_.self()) == plan->members.size())
        return edge_.broken("is to start a step of a view that it is not active in");
    exchange_.emplace(edge_, toy_, step, view, std::move(plan));
    compute_share();
    // Others may have been faster. What they said of this step was kept.
    std::vector<Early> kept = std::move(early_);
    early_.clear();
    for (const Early& early : kept) on_bulk(early.from, early.message);
}

void Trainer::stop_step() {
    exchange_.reset();
    joiner_.stop();
    asking_ = false;
}

void Trainer::take_result(std::uint64_t step) {
    exchange_.reset();
    wanted_ = step + 1;
    ask_results();
}

void Trainer::restore(std::uint64_t applied, const Digest& lineage) {
    exchange_.reset();
    joiner_.stop();
    early_.clear();
    if (store_.applied() == applied && store_.state().lineage() == lineage) return;
    if (applied == 0) {  // everybody knows how the run begins
        store_.load(ToyState(toy_).snapshot());
        held_ = {};
        return;
    }
    const Snapshot* snapshot = edge_.checkpoint(applied, lineage);
    if (snapshot == nullptr) return edge_.broken("is to restore a checkpoint that it does not have");
    store_.load(*snapshot);
    held_ = {};
}

void Trainer::begin_sync(const ViewPtr& view) {
    exchange_.reset();
    previous_.reset();
    early_.clear();
    held_ = {};
    synced_ = active_ = asking_ = false;
    joiner_.begin(donors_in(*view, edge_.self()));
}

void Trainer::activated(std::uint64_t first_step, const ViewPtr&) {
    active_ = true;
    wanted_ = first_step;
    if (store_.applied() < wanted_) ask_results();
}

void Trainer::adopted(const ViewPtr& view) {
    donor_.adopted(*view);
    if (joiner_.running() && !active_) joiner_.change_donors(donors_in(*view, edge_.self()));
}

void Trainer::excluded() {
    exchange_.reset();
    previous_.reset();
    joiner_.stop();
    donor_.clear();
    early_.clear();
    synced_ = active_ = asking_ = false;
}

// ---- computing

void Trainer::compute_share() {
    if (!exchange_ || job_.running) return;  // what runs is finished first
    const auto shares = planner_.shares(*exchange_->view(), exchange_->step());
    const auto mine = std::lower_bound(shares->begin(), shares->end(), edge_.self(),
                                       [](const cluster::Share& share, NodeId node) { return share.node < node; });
    std::vector<SampleRange> wanted;
    if (mine != shares->end() && mine->node == edge_.self()) wanted = mine->ranges;
    if (held_.step != exchange_->step() || held_.lineage != store_.state().lineage())
        held_ = {.step = exchange_->step(), .lineage = store_.state().lineage(), .ranges = {}, .gradient = {}};
    auto missing = cluster::beyond(held_.ranges, wanted);
    if (!missing) {  // the shares were divided anew: nothing of the old one counts
        held_.ranges.clear();
        held_.gradient = {};
        missing = wanted;
    }
    if (missing->empty()) {
        // What is sent to a peer that is not there yet would be lost for good.
        if (settings_.brittle && !exchange_->connected()) return;
        exchange_->contribute(held_.gradient);
        return finish_if_complete();
    }
    job_ = {.running = true,
            .step = held_.step,
            .lineage = held_.lineage,
            .ranges = std::move(*missing),
            .number = job_.number + 1};
    const auto samples = static_cast<Time>(count_of(job_.ranges));
    const Time takes = samples * second / std::max<Time>(settings_.speed, 1) * slowness_;
    edge_.wake_after(std::max(takes, least_compute), TrainerTimer::compute, job_.number);
}

void Trainer::on_timer(TrainerTimer timer, std::uint64_t tag) {
    if (timer == TrainerTimer::sync) {
        joiner_.on_timer(tag);
        if (joiner_.running() && synced_ && joiner_.lost_track(store_.applied())) {
            edge_.note("lost track of the results; pulls the state again");
            if (const ViewPtr view = edge_.governing(store_.applied())) begin_sync(view);
        }
        return after_sync_message();
    }
    if (timer == TrainerTimer::ask) {
        if (asking_ && tag == asks_) ask_results();
        return;
    }
    if (!job_.running || tag != job_.number) return;
    job_.running = false;
    if (job_.step == store_.applied() && job_.lineage == store_.state().lineage() && held_.step == job_.step) {
        const bool redo = !held_.ranges.empty();
        for (const SampleRange range : job_.ranges) {
            add_samples(toy_, job_.step, store_.state().parameters(), range, held_.gradient);
            if (redo && CHAOS_PLANTED(sample_counted_twice))
                add_samples(toy_, job_.step, store_.state().parameters(), range, held_.gradient);
            held_.ranges.push_back(range);
        }
    }
    compute_share();
}

// ---- the all-reduce

void Trainer::take_exchange_message(NodeId from, const BulkPtr& message, const ExchangeTag& tag) {
    const bool mine = exchange_ && (exchange_->is(tag) || CHAOS_PLANTED(wrong_step_accepted));
    if (!mine) {
        const bool over = tag.step < store_.applied();
        if (!over && early_.size() < max_early) early_.push_back({from, message});
        return;
    }
    const bool taken = std::holds_alternative<PartialSum>(message->body) ? exchange_->take_sum(from, message)
                                                                         : exchange_->take_result(from, message);
    if (!taken) edge_.broken("refuses a gradient of another plan for step " + std::to_string(tag.step));
    finish_if_complete();
}

void Trainer::finish_if_complete() {
    if (!exchange_ || !exchange_->complete()) return;
    const ResultPtr result =
        make_result(toy_, exchange_->step(), exchange_->view()->name, store_.state().lineage(), exchange_->result());
    // Whoever is below us in a tree may lose its connection before our last message arrives.
    previous_.reset();
    previous_.emplace(std::move(*exchange_));
    exchange_.reset();
    apply(result, How::exchanged);
}

void Trainer::apply(const ResultPtr& result, How how) {
    const std::uint64_t step = result->record.step;
    store_.apply(result);
    donor_.applied(step);
    if (CHAOS_PLANTED(result_dropped_early)) store_.drop_result(step);
    if (!early_.empty())
        std::erase_if(early_, [&](const Early& early) {
            return std::visit(
                [&](const auto& body) {
                    if constexpr (requires { body.tag; }) return body.tag.step <= step;
                    return true;
                },
                early.message->body);
        });
    edge_.observe({.result = result, .how = how, .state_hash = store_.state().hash()});
    edge_.tell(cluster::Applied{step});
}

// ---- results that are taken

void Trainer::ask_results() {
    asking_ = store_.applied() < wanted_;
    if (!asking_) return;
    ++asks_;
    if (asks_ % asks_before_resync == 0)
        edge_.note("still lacks the result of step " + std::to_string(store_.applied()));
    for (const NodeId peer : edge_.linked_peers())
        edge_.send(peer, std::make_shared<const Bulk>(Bulk{ResultAsk{store_.applied()}, 64}));
    edge_.wake_after(ask_again, TrainerTimer::ask, asks_);
}

void Trainer::on_result(const ResultPtr& result) {
    if (!asking_ || result->record.step != store_.applied()) return;
    if (result->lineage_before != store_.state().lineage()) return;  // of another line
    const ViewPtr governing = edge_.governing(result->record.step);
    if (governing && governing->name != result->record.view) return;
    asking_ = false;
    apply(result, How::taken);
    if (store_.applied() < wanted_) ask_results();
}

void Trainer::after_sync_message() {
    if (!joiner_.running()) return;
    if (auto verified = joiner_.take_verified()) {
        const std::uint64_t before = store_.applied();
        store_.load(*verified);
        next_checkpoint_ =
            std::max(next_checkpoint_, store_.applied() + settings_.checkpoint_offset % settings_.checkpoint_every);
        const std::vector<std::uint64_t> hashes = shard_hashes(toy_, verified->floats);
        edge_.observe_synced(verified->applied, verified->lineage, store_.state().hash());
        if (active_) {
            if (store_.applied() > before) edge_.tell(cluster::Applied{store_.applied() - 1});
            joiner_.stop();
            return ask_results();
        }
        synced_ = true;
        edge_.tell(cluster::Synced{.applied = verified->applied, .root = root_of(hashes)});
    }
    while (synced_ && !active_) {
        const ResultPtr next = joiner_.result(store_.applied());
        if (next == nullptr || next->lineage_before != store_.state().lineage()) break;
        apply(next, How::followed);
    }
}

// ---- what happens

void Trainer::on_bulk(NodeId from, const BulkPtr& message) {
    std::visit(
        [&](const auto& body) {
            using T = std::decay_t<decltype(body)>;
            if constexpr (std::is_same_v<T, PartialSum> || std::is_same_v<T, TreeResult>) {
                take_exchange_message(from, message, body.tag);
            } else if constexpr (std::is_same_v<T, ResultReply>) {
                if (body.result != nullptr) return on_result(body.result);
                // Nobody keeps results for long. A newly active node that missed some pulls the state instead.
                if (!asking_ || body.step != store_.applied() || joiner_.running() || asks_ % asks_before_resync != 0)
                    return;
                edge_.note("is too far behind for single results; pulls the state again");
                joiner_.begin({from});
            } else if constexpr (std::is_same_v<T, ShardData>) {
                joiner_.on_data(from, body);
                after_sync_message();
            } else if constexpr (std::is_same_v<T, Follow>) {
                joiner_.on_follow(from, body);
                after_sync_message();
            } else {
                donor_.on_ask(from, body);
            }
        },
        message->body);
}

void Trainer::on_link_up(NodeId peer) {
    if (previous_ && !settings_.brittle) previous_->say_again(peer);
    if (exchange_ && !settings_.brittle) exchange_->say_again(peer);
    if (exchange_ && settings_.brittle && !exchange_->contributed()) compute_share();
    if (asking_) edge_.send(peer, std::make_shared<const Bulk>(Bulk{ResultAsk{store_.applied()}, 64}));
    if (joiner_.running()) joiner_.on_link_up(peer);
    after_sync_message();
}

void Trainer::on_link_closed(NodeId peer) {
    if (settings_.brittle && exchange_ && exchange_->passes_through(peer)) {
        const cluster::StepFailed failed{.step = exchange_->step(), .view = exchange_->view()->name};
        exchange_.reset();
        edge_.tell(failed);
    }
    donor_.forget(peer);
    if (joiner_.running()) joiner_.on_link_closed(peer);
}

void Trainer::on_stable(std::uint64_t count) {
    donor_.stable(count);
    if (count < next_checkpoint_) return;
    if (const Snapshot* snapshot = store_.state_at(count)) {
        edge_.keep_checkpoint(*snapshot);
        next_checkpoint_ = count + settings_.checkpoint_every;
    }
}

}  // namespace chaos::sim
