#include "elastic/steps.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace chaos::elastic {
namespace {

constexpr std::chrono::milliseconds second_hand_pause{20};  // until a neighbour may have it
constexpr std::chrono::seconds transfer_patience{3};        // without a byte; then another holder is asked
constexpr std::uint64_t read_at_once_bytes = 2U << 20;      // of a result that is still on its way
constexpr std::size_t most_spare_vectors = 2;               // that stay in memory although nobody needs them now

bool same(const std::string& bytes, const cluster::Name& name) {
    return bytes.size() == name.size() && std::memcmp(bytes.data(), name.data(), name.size()) == 0;
}

}  // namespace

Steps::Steps(net::asio::io_context& loop, ComputeThread& thread, Learner& learner, const ResultShape& result,
             collective::Encoding encoding, Callbacks callbacks)
    : loop_(loop),
      thread_(thread),
      learner_(learner),
      shape_(result),
      encoding_(encoding),
      callbacks_(std::move(callbacks)),
      engine_(transport_,
              {.ended = [this](collective::ExchangeId id, const collective::Outcome& outcome) { ended(id, outcome); },
               .refused = [this](const collective::Refusal& refusal) { note_limited(say(refusal)); }}),
      patience_(loop) {
    thread_.when_idle([this, alive = alive_] {
        if (*alive) advance();
    });
}

Steps::~Steps() {
    *alive_ = false;
}

void Steps::connect(live::Member& member) {
    member_ = &member;
    transport_.connect(member.links(), engine_);
    transfers_.connect(member.links());
}

void Steps::note_limited(const std::string& text) {
    if (const auto line = lines_.next(text, net::Allowance::Clock::now())) callbacks_.note(*line);
}

void Steps::begin_at(std::uint64_t applied, const cluster::Name& lineage, std::function<void()> replace) {
    stop_step();
    ++beginnings_;
    engine_.restart();
    committed_ = applied;
    lineage_ = lineage;
    held_ = {};
    kept_.reset();
    if (replace) thread_.change(std::move(replace), [] {});
    advance_soon();
}

void Steps::follow(const StateLabel& state) {
    CHAOS_ASSERT(!order_ && !taking_);
    committed_ = state.applied;
    lineage_ = state.lineage;
    held_ = {};
    kept_.reset();
}

StateLabel Steps::label() const {
    const bool behind = kept_ && !kept_->applied;
    return {.applied = behind ? committed_ - 1 : committed_, .lineage = lineage_};
}

// ---- what the core orders

void Steps::start_step(std::uint64_t step, const ViewPtr& view) {
    CHAOS_ASSERT(step == committed_);
    stop_step();
    SchedulePtr schedule = schedule_of(view);
    if (schedule == nullptr) return member_->tell(cluster::StepFailed{.step = step, .view = view->name});
    order_ = Order{.step = step, .view = view, .schedule = std::move(schedule), .share = {}, .output = nullptr};
    for (const cluster::Share& share : cluster::shares_of(*view, step))
        if (share.node == member_->id()) order_->share = share.ranges;
    waits_since_ = std::chrono::steady_clock::now();
    advance_soon();
}

void Steps::stop_step() {
    order_.reset();
    stop_taking();
    abandoning_ = true;
    engine_.abandon();
    abandoning_ = false;
}

void Steps::hold_back(bool held) {
    holds_back_ = held;
    if (!held) advance_soon();
}

void Steps::take_result(std::uint64_t step, const std::vector<NodeId>& holders) {
    CHAOS_ASSERT(step == committed_);
    stop_step();
    const ViewPtr view = member_->core().governing(step);
    SchedulePtr schedule = view ? schedule_of(view) : nullptr;
    if (schedule == nullptr || holders.empty()) return callbacks_.note("nobody is known to have the result it lacks");
    Taking taking;
    taking.step = step;
    taking.holders = holders;
    taking.view = view;
    taking.schedule = std::move(schedule);
    taking_ = std::move(taking);
    waits_since_ = std::chrono::steady_clock::now();
    ask_next();
}

void Steps::link_up(NodeId peer) {
    engine_.peer_back(peer);
    advance();
}

void Steps::link_down(NodeId peer) {
    engine_.peer_lost(peer);
    giving_.erase(peer);
    if (taking_ && !taking_->bytes && taking_->holder == peer) ask_next();
}

// ---- one thing after the other

// Does what can be done next.
void Steps::advance() {
    if (thread_.busy()) return;
    if (kept_ && !kept_->applied) return apply();
    if (taking_ && taking_->bytes) return taken();
    if (!order_ || order_->output != nullptr || (holds_back_ && held_.step != order_->step)) return;
    if (held_.step != order_->step) held_ = {};
    std::optional<std::vector<SampleRange>> more = cluster::beyond(held_.ranges, order_->share);
    if (!more) {  // the shares were divided anew: nothing of the old one counts
        held_ = {};
        more = order_->share;
    }
    held_.step = order_->step;
    if (held_.gradient == nullptr) {
        held_.gradient = fresh_vector();
        std::ranges::fill(*held_.gradient, 0.0F);
    }
    if (!more->empty() || held_.view != order_->view->name) return compute(std::move(*more));
    // A peer that is not there would fail the exchange; where it does not come, the core hears of it in time.
    if (unconnected().empty()) begin_exchange(std::nullopt);
}

// The core's orders are carried out one by one: what follows from one of them, even a commit where nobody else takes
// part, comes after all.
void Steps::advance_soon() {
    net::asio::post(loop_, [this, alive = alive_] {
        if (*alive) advance();
    });
}

void Steps::compute(std::vector<SampleRange> more) {
    if (held_.gradient.use_count() > 2) {  // the network still reads it: of an exchange that was stopped
        const Vector copy = fresh_vector();
        *copy = *held_.gradient;
        held_.gradient = copy;
    }
    struct Job {
        Learner::Task task;
        std::vector<SampleRange> more;
        Vector gradient;
        Result<std::chrono::nanoseconds> took = std::chrono::nanoseconds{0};
    };
    const auto job = std::make_shared<Job>();
    job->more = std::move(more);
    job->gradient = held_.gradient;
    job->task = {.step = order_->step,
                 .view = order_->view,
                 .self = member_->id(),
                 .first = held_.ranges.empty(),
                 .more = job->more,
                 .ready = teller_of_ready_parts()};
    thread_.compute(
        [this, job] { job->took = learner_.compute(job->task, *job->gradient); }, unless_replaced([this, job] {
            if (!job->took) return callbacks_.failed(job->took.error());
            std::uint64_t samples = 0;
            for (const SampleRange range : job->more) samples += range.end - range.begin;
            if (samples > 0 && job->took->count() > 0) callbacks_.computed(samples, *job->took);
            waits_since_ = std::chrono::steady_clock::now();
            if (held_.gradient != job->gradient) return;
            held_.ranges.insert(held_.ranges.end(), job->more.begin(), job->more.end());
            held_.view = job->task.view->name;
            if (order_ && order_->output != nullptr && order_->view == job->task.view)
                engine_.ready({.epoch = order_->view->epoch, .step = order_->step}, order_->schedule->parts());
            read_ahead();
        }));
    // What others send is taken meanwhile, and what is computed is sent.
    if (unconnected().empty()) begin_exchange(0);
}

// For the compute thread: how far the gradient is goes to the exchange, whenever another part of it is there.
std::function<void(std::size_t)> Steps::teller_of_ready_parts() {
    const auto told = std::make_shared<std::size_t>(0);
    return [this, told, schedule = order_->schedule, view = order_->view, step = order_->step, alive = alive_,
            beginning = beginnings_](std::size_t from) {
        const std::vector<collective::Range>& parts = schedule->options.parts;
        const std::size_t before = *told;
        while (*told < parts.size() && parts[*told].first >= from && parts[*told].first < shape_.gradient) ++*told;
        if (*told == before) return;
        net::asio::post(loop_, [this, view, step, alive, beginning, count = *told] {
            if (*alive && beginning == beginnings_ && order_ && order_->view == view && order_->output != nullptr)
                engine_.ready({.epoch = view->epoch, .step = step}, count);
        });
    };
}

void Steps::begin_exchange(std::optional<std::size_t> parts_ready) {
    order_->output = fresh_vector();
    order_->digester = std::make_shared<state::ResultDigester>(*order_->output, shape_.gradient);
    const auto owner = std::make_shared<std::pair<Vector, Vector>>(held_.gradient, order_->output);
    const auto begun = engine_.begin(
        {.epoch = order_->view->epoch, .step = order_->step}, order_->schedule,
        {.input = *held_.gradient, .output = *order_->output, .residual = {}, .owner = owner}, parts_ready);
    if (begun) return;
    callbacks_.note("cannot begin the all-reduce: " + begun.error().message);
    member_->tell(cluster::StepFailed{.step = order_->step, .view = order_->view->name});
}

void Steps::ended(collective::ExchangeId id, const collective::Outcome& outcome) {
    if (abandoning_ || !order_ || order_->step != id.step || order_->view->epoch != id.epoch) return;
    if (!std::holds_alternative<collective::Complete>(outcome))
        return member_->tell(cluster::StepFailed{.step = id.step, .view = order_->view->name});
    const collective::EncodedResult result = *engine_.result(id);
    commit({.step = id.step,
            .view = order_->view,
            .lineage = lineage_,
            .floats = order_->output,
            .encoded = result.bytes,
            .encoded_owner = result.owner,
            .digester = order_->digester});
}

// While the rest of the result is on its way, and the compute thread would wait for it.
void Steps::read_ahead() {
    if (!order_ || order_->output == nullptr || order_->unread_bytes < read_at_once_bytes || thread_.busy()) return;
    order_->unread_bytes = 0;
    const auto known = engine_.known({.epoch = order_->view->epoch, .step = order_->step});
    thread_.compute(
        [known, digester = order_->digester, output = order_->output] {
            for (const collective::Range& range : known) digester->read(range.first, range.first + range.count);
        },
        [] {});
}

void Steps::commit(Kept result) {
    kept_ = std::move(result);
    order_.reset();
    stop_taking();
    const std::uint64_t step = committed_++;
    member_->tell(cluster::Applied{step});
    advance();
}

void Steps::apply() {
    const auto job = std::make_shared<std::pair<Kept, cluster::Name>>(*kept_, cluster::Name{});
    kept_->digester.reset();
    thread_.change(
        [this, job] {
            const Kept& kept = job->first;
            job->second = learner_.apply(kept.step, *kept.view, *kept.floats, kept.digester->finish());
        },
        unless_replaced([this, job] {
            kept_->applied = true;
            lineage_ = job->second;
            const Kept& kept = job->first;
            callbacks_.applied({.step = kept.step,
                                .view = kept.view,
                                .before = kept.lineage,
                                .lineage = lineage_,
                                .taken = kept.taken,
                                .result = kept.floats});
        }));
}

// After a computation: `then`, unless it goes on from elsewhere by then.
std::function<void()> Steps::unless_replaced(std::function<void()> then) {
    return [this, then = std::move(then), alive = alive_, beginning = beginnings_] {
        if (*alive && beginning == beginnings_) then();
    };
}

// ---- results that are taken, and given

void Steps::stop_taking() {
    if (taking_) give_up_transfer();
    taking_.reset();
}

// Of the holder whose turn it was; what it has not sent yet would only stand before what others send.
void Steps::give_up_transfer() {
    if (taking_->transfer == 0) return;
    transfers_.forget(taking_->transfer);
    if (taking_->bytes) return;
    wire::Work message;
    message.set_result_unwanted(taking_->transfer);
    (void)member_->links().send_work(taking_->holder, bytes_of(message));  // no link: nothing comes from there either
}

// Whoever there is no link with would only cost patience. Where that is so of all holders, neighbours take the result
// from theirs, and pass it on.
void Steps::choose_holder() {
    Taking& taking = *taking_;
    const net::Links& links = member_->links();
    std::vector<NodeId> reachable;
    std::ranges::copy_if(taking.holders, std::back_inserter(reachable),
                         [&](NodeId node) { return links.linked(node); });
    taking.second_hand = reachable.empty();
    if (taking.second_hand) {
        const ViewPtr view = member_->core().view();
        std::ranges::copy_if(links.peers(), std::back_inserter(reachable),
                             [&](NodeId node) { return view && view->is_active(node); });
    }
    if (reachable.empty()) reachable = taking.holders;
    taking.holder = reachable[++taking.turn % reachable.size()];
}

void Steps::ask_next() {
    give_up_transfer();
    choose_holder();
    Taking& taking = *taking_;
    const NodeId holder = taking.holder;
    taking.progress = 0;
    taking.answered = taking.useless = false;
    taking.bytes.reset();
    taking.transfer =
        transfers_.expect(holder, taking.schedule->result_bytes, [this](const net::Transfers::Arrived& arrived) {
            taking_->bytes = arrived;
            advance();
        });
    wire::Work message;
    message.mutable_result_ask()->set_step(taking.step);
    message.mutable_result_ask()->set_transfer(taking.transfer);
    (void)member_->links().send_work(holder, bytes_of(message));  // no link: the next one is asked soon
    watch_transfer(transfer_patience);
}

// Another holder is asked when nothing comes any more.
void Steps::watch_transfer(std::chrono::milliseconds patience) {
    patience_.expires_after(patience);
    patience_.async_wait([this, alive = alive_, transfer = taking_->transfer](boost::system::error_code cancelled) {
        if (cancelled || !*alive || !taking_ || taking_->transfer != transfer) return;
        const std::uint64_t progress = transfers_.progress(transfer);
        const bool whole = taking_->answered && taking_->bytes;
        if (taking_->useless || (progress == taking_->progress && !whole)) return ask_next();
        taking_->progress = progress;
        watch_transfer(transfer_patience);
    });
}

// All of it is here, and nothing else is being computed.
void Steps::taken() {
    if (!taking_->answered) return;
    if (taking_->lineage != lineage_) return refuse_taken();
    const Vector floats = fresh_vector();
    const std::span<const std::byte> encoded(taking_->bytes->bytes.get(), taking_->bytes->count);
    if (const auto decoded = collective::decode_result(*taking_->schedule, encoded, *floats); !decoded) {
        note_limited("a result that was taken is none: " + decoded.error().message);
        taking_->bytes.reset();
        return ask_next();
    }
    commit({.step = taking_->step,
            .view = taking_->view,
            .lineage = lineage_,
            .floats = floats,
            .encoded = encoded,
            .encoded_owner = taking_->bytes->bytes,
            .digester = std::make_shared<state::ResultDigester>(*floats, shape_.gradient),
            .taken = true});
}

// The next one is asked when the patience ends.
void Steps::refuse_taken() {
    if (!taking_->second_hand)
        note_limited(cluster::brief(taking_->holder) + " has no result of step " + std::to_string(taking_->step) +
                     " that fits here");
    give_up_transfer();
    taking_->bytes.reset();
    taking_->answered = false;
    taking_->useless = true;
    if (taking_->second_hand) watch_transfer(second_hand_pause);
}

void Steps::stop_giving(NodeId to) {
    const auto given = giving_.find(to);
    if (given == giving_.end()) return;
    transfers_.cancel_result(to, given->second);
    giving_.erase(given);
}

// To members only, and one at a time: whoever asks again wants nothing else any more.
void Steps::give_result(NodeId to, std::uint64_t step, std::uint64_t transfer) {
    stop_giving(to);
    wire::Work message;
    wire::ResultAnswer& answer = *message.mutable_result_answer();
    answer.set_transfer(transfer);
    const ViewPtr view = member_->core().view();
    const bool here = kept_ && kept_->step == step && view && view->find(to) != nullptr;
    answer.set_absent(!here);
    if (here) {
        answer.set_view(kept_->view->name.data(), kept_->view->name.size());
        answer.set_lineage(kept_->lineage.data(), kept_->lineage.size());
    }
    if (!member_->links().send_work(to, bytes_of(message)) || !here) return;
    if (transfers_.send(to, net::BulkKind::results, transfer, kept_->encoded, kept_->encoded_owner))
        giving_[to] = transfer;
}

Result<void> Steps::received(NodeId from, const wire::Work& message) {
    if (message.has_result_ask()) {
        give_result(from, message.result_ask().step(), message.result_ask().transfer());
    } else if (message.has_result_unwanted()) {
        if (const auto given = giving_.find(from); given != giving_.end() && given->second == message.result_unwanted())
            stop_giving(from);
    } else if (message.has_result_answer()) {
        const wire::ResultAnswer& answer = message.result_answer();
        if (!taking_ || taking_->transfer != answer.transfer() || taking_->holder != from) return {};
        const std::optional<cluster::Name> lineage = name_from(answer.lineage());
        if (answer.absent() || !same(answer.view(), taking_->view->name) || !lineage) {
            refuse_taken();
            return {};
        }
        taking_->answered = true;
        taking_->lineage = *lineage;
        advance();
    } else {
        return Error{"it sent a message that has no place here"};
    }
    return {};
}

// ---- where bulk data goes

net::BulkReceiver::Place Steps::place_for(NodeId from, const net::BulkHead& head) {
    return receiver_of(head).place_for(from, head);
}

void Steps::arrived(NodeId from, const net::BulkHead& head) {
    receiver_of(head).arrived(from, head);
    if (head.kind != net::BulkKind::gradients || !order_) return;
    order_->unread_bytes += head.bytes;
    read_ahead();
}

void Steps::dropped(NodeId from, const net::BulkHead& head) {
    receiver_of(head).dropped(from, head);
}

net::BulkReceiver& Steps::receiver_of(const net::BulkHead& head) {
    if (head.kind == net::BulkKind::gradients) return transport_;
    return transfers_;
}

// ---- memory and plans

Steps::Vector Steps::fresh_vector() {
    const auto is_free = [](const Vector& vector) { return vector.use_count() == 1; };
    const auto found = std::ranges::find_if(vectors_, is_free);
    const Vector fresh =
        found != vectors_.end() ? *found : vectors_.emplace_back(std::make_shared<std::vector<float>>(shape_.floats()));
    // While somebody joins, many results are kept.
    std::size_t spare = 0;
    std::erase_if(vectors_, [&](const Vector& vector) { return is_free(vector) && ++spare > most_spare_vectors; });
    return fresh;
}

// Worked out once per view.
Steps::SchedulePtr Steps::schedule_of(const ViewPtr& view) {
    if (schedule_ != nullptr && scheduled_ == view->name) return schedule_;
    Result<GradientPlan> gradients = gradient_plan_of(*view, shape_);
    if (!gradients) {
        callbacks_.note("there is no way to sum gradients under view " + cluster::brief(view->name) + ": " +
                        gradients.error().message);
        return nullptr;
    }
    gradients->options.encoding = encoding_;
    const Result<collective::Schedule> schedule =
        collective::make_schedule(gradients->plan, gradients->members, member_->id(), gradients->options);
    if (!schedule) {
        callbacks_.note("view " + cluster::brief(view->name) +
                        " has a plan that makes no sense: " + schedule.error().message);
        return nullptr;
    }
    scheduled_ = view->name;
    schedule_ = std::make_shared<const collective::Schedule>(*schedule);
    return schedule_;
}

// Those this node has a place next to in the plan, and no connection with.
std::vector<NodeId> Steps::unconnected() const {
    const net::Links& links = member_->links();
    std::vector<NodeId> missing;
    const auto look = [&](NodeId node) {
        if (!links.linked(node) && std::ranges::find(missing, node) == missing.end()) missing.push_back(node);
    };
    for (const collective::Branch& branch : order_->schedule->branches) {
        if (branch.parent) look(*branch.parent);
        std::ranges::for_each(branch.children, look);
    }
    return missing;
}

StepWait Steps::waits() const {
    using For = StepWait::For;
    StepWait wait{.what = For::nothing, .step = committed_, .whom = {}, .since = waits_since_};
    if (taking_) {
        wait.what = For::taking;
        wait.whom = {taking_->holder};
        wait.bytes = transfers_.progress(taking_->transfer);
        wait.of_bytes = taking_->schedule->result_bytes;
    } else if (order_ && holds_back_ && held_.step != order_->step) {
        wait.what = For::pause;
    } else if (thread_.busy()) {
        wait.what = For::computing;
    } else if (order_ && order_->output == nullptr) {
        wait.what = For::connections;
        wait.whom = unconnected();
    } else if (order_) {
        // Results wait for sums, too.
        collective::AllReduce::Awaited awaited = engine_.awaited({.epoch = order_->view->epoch, .step = order_->step});
        wait.what = awaited.sums.empty() ? For::results : For::sums;
        wait.whom = std::move(awaited.sums.empty() ? awaited.results : awaited.sums);
    }
    return wait;
}

}  // namespace chaos::elastic
