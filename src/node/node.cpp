#include "node/node.h"

#include "node/description.h"
#include "node/status.h"

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>

namespace chaos::node {
namespace {

using cluster::brief;
using elastic::NodeId;
using elastic::StateLabel;
using elastic::ViewPtr;
using nlohmann::json;

constexpr std::chrono::seconds patience_at_the_end{10};
constexpr double step_gain = 0.2;

json members_of(const cluster::View& view, std::uint64_t step, NodeId self) {
    // Who comes later does not know how a step that was redone is divided.
    const std::uint64_t next = std::max(step, view.first_step);
    const std::vector<cluster::Share> shares =
        view.redo_known || next != view.first_step ? cluster::shares_of(view, next) : std::vector<cluster::Share>{};
    json members = json::array();
    for (const cluster::MemberInfo& member : view.members) {
        std::uint64_t share = 0;
        for (const cluster::Share& entry : shares)
            if (entry.node == member.id.node)
                for (const cluster::SampleRange range : entry.ranges) share += range.end - range.begin;
        members.push_back({{"node", text_of(member.id.node)},
                           {"name", brief(member.id.node)},
                           {"standing", member.standing == cluster::Standing::active ? "active" : "syncing"},
                           {"since_epoch", member.since_epoch},
                           {"first_step", member.first_step},
                           {"speed", member.speed},
                           {"share", share},
                           {"address", member.address},
                           {"self", member.id.node == self}});
    }
    return members;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::open(boost::asio::io_context& loop, const net::SecretKey& key,
                                         const net::Credential& credential, const NodeOptions& options,
                                         elastic::Trainer& trainer, Callbacks callbacks) {
    CHAOS_TRY(elastic::Journal journal, elastic::Journal::open(options.dir / "journal"));
    std::unique_ptr<Node> node(new Node(loop, options, trainer, std::move(journal), std::move(callbacks)));
    live::Options live = options.live;
    live.folder = options.dir;
    live.contacts = options.join;
    const auto described = [&]() -> Result<std::string> {
        if (!options.description.empty()) return options.description;
        CHAOS_TRY(const Description description, describe(options.run_file, trainer));
        return encode(description);
    };
    CHAOS_TRY(node->participant_, elastic::Participant::open(loop, key, credential, live, trainer,
                                                             {options.dir / "checkpoints"}, described(), *node));
    CHAOS_TRY(node->control_, ControlSocket::open(loop, options.dir, *node));
    return node;
}

Node::Node(boost::asio::io_context& loop, const NodeOptions& options, elastic::Trainer& trainer,
           elastic::Journal journal, Callbacks callbacks)
    : loop_(loop),
      options_(options),
      trainer_(trainer),
      callbacks_(std::move(callbacks)),
      journal_(std::move(journal)),
      story_([this](const Event& event) {
          callbacks_.event(event);
          if (control_) control_->publish(events_topic, to_json(event));
      }),
      timer_(loop) {}

Node::~Node() = default;

Result<void> Node::start() {
    const bool known = std::filesystem::exists(options_.dir / "vote");
    live::Member& member = participant_->member();
    CHAOS_CHECK(member.start());
    const StateLabel state = participant_->state();
    write(elastic::journal::Begun{.member = member.core().id(),
                                  .run = run::hash(trainer_.identity()),
                                  .threads = static_cast<std::uint64_t>(trainer_.run().train.threads),
                                  .version = options_.version});
    write(elastic::journal::Restored{.applied = state.applied, .lineage = state.lineage});
    if (journal_.torn_bytes() > 0)
        note("the last " + std::to_string(journal_.torn_bytes()) +
             " bytes of the journal were no whole entry, and are cut off");
    if (!options_.join.empty()) {
        tell("joins", "asks to be let in");
        member.join(options_.join);
    } else if (!known) {
        member.found(static_cast<std::uint32_t>(trainer_.run().train.batch), options_.strict);
    }
    return {};
}

// ---- what happens

void Node::write(const elastic::journal::Entry& entry) {
    if (ended_) return;
    if (const Result<void> written = journal_.append(entry); !written) end(Error{written.error()});
}

void Node::tell(const std::string& kind, const std::string& text, std::optional<std::uint64_t> step) {
    Event event{.time = 0.0, .kind = kind, .text = text, .view = {}, .step = step};
    if (view_) event.view = view_->name;
    story_.add(std::move(event));
}

void Node::changed() {
    if (control_) control_->refresh("status", [this] { return status(); });
}

void Node::adopted(const ViewPtr& view) {
    write(elastic::journal::Adopted{view});
    const cluster::DecidePtr decision = participant_->member().core().decision(*view);
    const cluster::Delta* led = decision ? &decision->delta : nullptr;
    for (Event& event : changes(view_.get(), *view, led)) story_.add(std::move(event));
    if (view_ && view->settlement && !view->settlement->founded) ++steps_redone_;
    view_ = view;
    std::erase_if(wishes_, [&](const Wish& wish) {
        const std::string done = wish.done(*view);
        if (!done.empty()) wish.reply.answer({{"text", done}});
        return !done.empty() || !wish.reply.open();
    });
    answer_link_wishes(*view, led);
    changed();
}

// Whoever reads this journal alone needs to know who computed what.
void Node::followed(const ViewPtr& view) {
    write(elastic::journal::Adopted{view});
}

void Node::applied(const elastic::Outcome& outcome, const StateLabel& state, elastic::journal::How how) {
    const auto last = static_cast<std::uint64_t>(trainer_.run().train.steps);
    if (outcome.held_out) held_out_ = HeldOut{.step = outcome.record.step, .measure = *outcome.held_out};
    if (outcome.held_out)
        tell("held_out",
             "held-out loss " + std::to_string(outcome.held_out->loss) + " after " +
                 std::to_string(outcome.record.step) + " steps",
             outcome.record.step);
    if (outcome.record.step < last) {
        write(elastic::journal::Applied{
            .record = outcome.record, .lineage = state.lineage, .how = how, .samples_lost = 0});
        loss_ = outcome.record.loss;
    }
    if (outcome.skipped) {
        const std::string why = outcome.incomplete && !outcome.culprit
                                    ? "not all of its samples were contributed"
                                    : "what was contributed is not finite, or far beyond what the others found";
        write(elastic::journal::Skipped{
            .step = outcome.record.step, .view = outcome.record.view, .node = outcome.culprit, .why = why});
        tell("skipped",
             "step " + std::to_string(outcome.record.step) + " was left out: " + why +
                 (outcome.culprit ? " (" + brief(*outcome.culprit) + ")" : ""),
             outcome.record.step);
    }
    if (how == elastic::journal::How::taken) {
        ++steps_taken_;
        tell("step", "took the result of step " + std::to_string(outcome.record.step) + " from another member",
             outcome.record.step);
    }
    const auto now = std::chrono::steady_clock::now();
    if (last_step_) {
        const double took = std::chrono::duration<double>(now - *last_step_).count();
        step_seconds_ += (step_seconds_ > 0.0 ? step_gain : 1.0) * (took - step_seconds_);
    }
    last_step_ = now;
    callbacks_.step(outcome, state);
    changed();
    ++steps_here_;
    if (options_.max_steps > 0 && steps_here_ == options_.max_steps) leave();
}

void Node::joining(const ViewPtr&) {
    std::erase_if(refusals_, &Refusal::by_others);
    tell("joined", "is let in, and pulls the state from its neighbours");
}

void Node::synced(const StateLabel& state, const cluster::Name& root) {
    write(elastic::journal::Synced{.applied = state.applied, .lineage = state.lineage, .root = root});
    state_hash_ = StateHash{.step = state.applied, .root = root};
    const elastic::Joiner::Progress pulled = participant_->joiner().progress();
    tell("synced",
         "has the whole state of step " + std::to_string(state.applied) + ", compared with its donors' (" +
             std::to_string(pulled.shard_bytes) + " bytes of shards, " + std::to_string(pulled.result_bytes) +
             " of results)",
         state.applied);
}

void Node::activated(std::uint64_t first_step) {
    std::erase_if(refusals_, &Refusal::by_others);
    tell("joined", "trains with the others from step " + std::to_string(first_step) + " on", first_step);
}

void Node::restored(const StateLabel& state) {
    std::erase_if(refusals_, &Refusal::by_others);
    write(elastic::journal::Restored{.applied = state.applied, .lineage = state.lineage});
    tell("restored", "goes on from step " + std::to_string(state.applied), state.applied);
}

void Node::stable(std::uint64_t steps) {
    write(elastic::journal::Stable{steps});
}

void Node::hashed(const StateLabel& state, const cluster::Name& root) {
    write(elastic::journal::StateHash{.applied = state.applied, .root = root});
    state_hash_ = StateHash{.step = state.applied, .root = root};
    changed();
}

void Node::astray(elastic::NodeId node, const StateLabel& state) {
    const bool self = node == participant_->member().id();
    tell("astray",
         (self ? "its state" : "the state of " + brief(node)) + " was another than most members' (bad memory?); " +
             (self ? "it pulls what is wrong again" : "that node pulls what is wrong again"),
         state.applied);
}

void Node::offender(elastic::NodeId node, std::uint64_t step) {
    const bool self = node == participant_->member().id();
    tell("offender",
         (self ? "this node" : brief(node)) + " made several of the last " + std::to_string(cluster::offence_steps) +
             " steps useless (a broken machine?); it is going to be expelled for good",
         step);
}

void Node::saved(std::uint64_t step, const std::filesystem::path& path) {
    tell("checkpoint", "saved " + path.string(), step);
}

void Node::excluded(const std::string& why, bool final) {
    write(elastic::journal::Excluded{why});
    tell("excluded", "is out: " + why + (final || !leaving_.empty() ? "" : "; asks to be let in again"));
    for (const Wish& wish : wishes_) wish.reply.refuse("this node is out: " + why);
    wishes_.clear();
    if (final) end(Error{"this node is out for good: " + why});
}

void Node::left() {
    write(elastic::journal::Left{});
    tell("left", "has left the cluster");
    for (const Reply& reply : leaving_) reply.answer({{"text", "left; the others go on without it"}});
    end(std::string("left"));
}

void Node::finished() {
    tell("finished", "the run is over, and everybody has its last step");
    end_when_others_are_done(std::chrono::steady_clock::now() + patience_at_the_end);
}

// Who goes too early interrupts those who have yet to hear that everybody has the last step.
void Node::end_when_others_are_done(std::chrono::steady_clock::time_point limit) {
    const bool done = participant_->member().core().neighbours_applied(participant_->state().applied);
    if (done || std::chrono::steady_clock::now() > limit) return end(std::string("finished"));
    timer_.expires_after(std::chrono::milliseconds(50));
    timer_.async_wait([this, limit](boost::system::error_code cancelled) {
        if (!cancelled && !ended_) end_when_others_are_done(limit);
    });
}

void Node::note(const std::string& text) {
    tell("note", text);
}

void Node::refused(const std::string& text, bool by_others) {
    constexpr std::size_t refusals_kept = 4;
    tell("refused", text);
    std::erase_if(refusals_, [&](const Refusal& known) { return known.text == text; });
    if (refusals_.size() == refusals_kept) refusals_.erase(refusals_.begin());
    refusals_.push_back({.text = text, .by_others = by_others, .at = std::chrono::steady_clock::now()});
}

void Node::link_refused(NodeId peer, bool connect, const std::string& text) {
    tell("refused", text);
    std::erase_if(link_wishes_, [&](const LinkWish& wish) {
        const bool meant = wish.peer == peer && wish.add == connect;
        if (meant) wish.reply.refuse(text);
        return meant;
    });
}

void Node::failed(const Error& why) {
    end(why);
}

void Node::leave() {
    if (leaves_ || ended_) return;
    leaves_ = true;
    const bool in = view_ != nullptr && view_->find(participant_->member().id()) != nullptr;
    if (!in) return stop_alone();
    if (!is_alone()) tell("leaves", "asks the others to go on without it");
    participant_->member().tell(cluster::LeaveCommand{});
    stop_once_alone();
}

// Nobody else trains, and nobody is connected: those who leave at the same time have to hear first that this node went
// on without them.
bool Node::is_alone() const {
    const live::Member& member = participant_->member();
    return view_ != nullptr && view_->is_active(member.id()) && view_->active_count() == 1 &&
           member.links().peers().empty();
}

void Node::stop_once_alone() {
    if (ended_) return;
    if (is_alone()) return stop_alone();
    timer_.expires_after(std::chrono::milliseconds(50));
    timer_.async_wait([this](boost::system::error_code cancelled) {
        if (!cancelled) stop_once_alone();
    });
}

// There is nobody who could go on: what was learnt so far is on disk before the process ends.
void Node::stop_alone() {
    participant_->save_if_alone([this](const Result<void>& done) {
        if (!done) return end(done.error());
        for (const Reply& reply : leaving_) reply.answer({{"text", "stopped; there is nobody else"}});
        end(std::string("stopped"));
    });
}

// Whatever led here goes on to its end first.
void Node::end(Result<std::string> why) {
    if (ended_) return;
    ended_ = true;
    boost::asio::post(loop_, [this, why = std::move(why)] {
        timer_.cancel();
        participant_->stop();
        control_->stop();
        callbacks_.ended(why);
    });
}

// ---- what it tells of itself

Why Node::why() const {
    Why why = why_of(*participant_, refusals_);
    if (participant_->member().core().role() == cluster::Role::outside && !options_.join.empty())
        why.why = "asks to be let in; nobody has answered yet";
    return why;
}

json Node::status() {
    live::Member& member = participant_->member();
    const cluster::Member& core = member.core();
    const StateLabel state = participant_->state();
    const NodeId self = member.id();
    json status{{"node", text_of(self)},
                {"name", brief(self)},
                {"incarnation", core.id().incarnation},
                {"role", words_of(core.role())},
                {"run", hex(run::hash(trainer_.identity()))},
                {"line", view_ ? json(hex(view_->founder)) : json()},
                {"view", view_ ? json(hex(view_->name)) : json()},
                {"epoch", view_ ? json(view_->epoch) : json()},
                {"step", std::min(state.applied, static_cast<std::uint64_t>(trainer_.run().train.steps))},
                {"stable", core.stable()},
                {"steps", trainer_.run().train.steps},
                {"batch", trainer_.run().train.batch},
                {"loss", loss_ ? json(*loss_) : json()},
                {"members", view_ ? members_of(*view_, state.applied, self) : json::array()},
                {"links", view_ ? links_of(*view_) : json::array()},
                {"institutions", view_ ? institutions_of(*view_) : json::array()},
                {"connections", connections_of(member.links())},
                {"counters", counters_of(member)},
                {"handling_cpu_us", std::chrono::duration<double, std::micro>(member.handling_cpu()).count()},
                {"why", why().why},
                {"uptime_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count()},
                {"pid", ::getpid()},
                {"listen", options_.live.listen.empty() ? "" : member.address()}};
    status["counters"]["steps_redone"] = steps_redone_;
    status["counters"]["steps_taken"] = steps_taken_;
    status["held_out"] = json();
    if (held_out_) {
        const compute::Measure& measure = held_out_->measure;
        const double targets = static_cast<double>(std::max<std::uint64_t>(measure.targets, 1));
        status["held_out"] = {
            {"step", held_out_->step},
            {"loss", measure.loss},
            {"accuracy", measure.correct ? json(static_cast<double>(*measure.correct) / targets) : json()}};
    }
    status["state_hash"] = state_hash_ ? json{{"step", state_hash_->step}, {"hash", hex(state_hash_->root)}} : json();
    status["step_seconds"] = step_seconds_ > 0.0 ? json(step_seconds_) : json();
    status["samples_per_s"] =
        step_seconds_ > 0.0 ? json(static_cast<double>(trainer_.run().train.batch) / step_seconds_) : json();
    if (participant_->joiner().running()) {
        const elastic::Joiner::Progress progress = participant_->joiner().progress();
        status["join"] = {{"shards", progress.shards},
                          {"of", progress.of},
                          {"shard_bytes", progress.shard_bytes},
                          {"result_bytes", progress.result_bytes},
                          {"received_bytes", progress.received_bytes}};
    }
    return status;
}

}  // namespace chaos::node
