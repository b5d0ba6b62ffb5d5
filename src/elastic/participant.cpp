#include "elastic/participant.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

namespace chaos::elastic {
namespace {

namespace fs = std::filesystem;

constexpr double speed_gain = 0.3;
constexpr unsigned enough_to_know = 5;  // measurements, before others hear of it

fs::path unstable_path(const state::CheckpointFolder& checkpoints) {
    return checkpoints.folder / "unstable";
}

}  // namespace

Result<std::unique_ptr<Participant>> Participant::open(net::asio::io_context& loop, const net::SecretKey& key,
                                                       const net::Credential& credential, live::Options options,
                                                       Trainer& trainer, const state::CheckpointFolder& checkpoints,
                                                       const Result<std::string>& description, Observer& observer) {
    CHAOS_TRY(const std::vector<std::uint64_t> steps, checkpoints.steps());
    if (!steps.empty()) {
        const Result<void> resumed = trainer.resume(checkpoints.path_of(steps.back()));
        if (!resumed)
            return Error{resumed.error().message + " (remove it to go on " +
                         (steps.size() > 1 ? "from " + checkpoints.path_of(steps[steps.size() - 2]).string()
                                           : std::string("without it")) +
                         ", or from what the others have)"};
    }
    if (!steps.empty())
        options.checkpoint =
            cluster::Checkpoint{.applied = trainer.progress().step, .lineage = trainer.progress().lineage};
    options.settings = run::hash(run::shared_settings(trainer.run()));
    return std::unique_ptr<Participant>(
        new Participant(loop, key, credential, options, trainer, checkpoints, description, observer));
}

Participant::Participant(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
                         const live::Options& options, Trainer& trainer, const state::CheckpointFolder& checkpoints,
                         const Result<std::string>& description, Observer& observer)
    : trainer_(trainer),
      checkpoints_(checkpoints),
      observer_(observer),
      last_saved_(trainer.progress().step),
      agreed_(trainer.progress().step),
      thread_(loop),
      steps_(loop, thread_, trainer, trainer.result_shape(), collective::Encoding::fp32,
             {.applied = [this](const AppliedStep& step) { step_applied(step); },
              .computed = [this](std::uint64_t samples, std::chrono::nanoseconds took) { computed(samples, took); },
              .note = [this](const std::string& text) { note(text); },
              .failed = [this](const Error& why) { failed(why); }}),
      donor_(loop, thread_, steps_, trainer, trainer.shards(), [this](const std::string& text) { note(text); }),
      joiner_(
          loop, thread_, steps_, trainer, trainer.shards(),
          {.synced = [this](const StateLabel& state, const cluster::Name& root) { state_synced(state, root); },
           .rolled = [this](const StateLabel& state, const state::StepRecord& record) { state_rolled(state, record); },
           .kept_out = [this](const std::string& text) { refused(text, true); },
           .note = [this](const std::string& text) { note(text); }}),
      describer_(trainer.agreed(), description),
      member_(loop, key, credential, run::hash(trainer.identity()), options, *this, steps_) {
    steps_.connect(member_);
    donor_.connect(member_);
    joiner_.connect(member_);
    describer_.connect(member_.links(), steps_.transfers());
    thread_.when_idle([this] {
        begin_sync_if_still();
        save_if_due();
        save_at_the_end();
    });
    steps_.begin_at(trainer.progress().step, trainer.progress().lineage);
}

// What computes works with everything below.
Participant::~Participant() {
    stop();
    thread_.stop();
}

void Participant::stop() {
    if (stopped_) return;
    stopped_ = true;
    joiner_.stop();
    steps_.stop_step();
    member_.stop();
}

// ---- what the core orders

void Participant::adopted(const ViewPtr& view) {
    donor_.adopted(*view);
    joiner_.adopted(*view);
    if (awaits_sync_ || joiner_.holds_state()) told_views_.insert(view->name);
    observer_.adopted(view);
}

// After the last step there is one more, in which nothing is computed; and none after that.
void Participant::start_step(std::uint64_t step, const ViewPtr& view) {
    if (ends_) return;
    // Newcomers go on by themselves from what they hold: nobody else is left.
    if (joiner_.holds_state()) {
        if (joiner_.whole() != steps_.label() || steps_.committed() != step)
            return failed({"what this node holds is not the state that all agreed to go on from; it must start anew"});
        end_join();
    }
    if (step <= static_cast<std::uint64_t>(trainer_.run().train.steps)) steps_.start_step(step, view);
}

// Who was let in and is not there yet applies nothing more, either: what it has is being counted.
void Participant::stop_step() {
    steps_.stop_step();
    if (first_step_) joiner_.pause();
}

// Who was let in and is not there yet follows as before, to the same end.
void Participant::take_result(std::uint64_t step, const std::vector<NodeId>& holders) {
    if (!joiner_.holds_state()) return steps_.take_result(step, holders);
    if (!joiner_.running()) joiner_.go_on(*member_.core().view());
}

void Participant::restore(std::uint64_t applied, const cluster::Name& agreed) {
    // Where nobody had a checkpoint, nobody could name a lineage.
    const cluster::Name lineage = applied == 0 ? run::hash(trainer_.identity()) : agreed;
    const bool mixed = joiner_.holds_state() || astray_;  // shards of others are in memory, or wrong ones
    stop_training();
    joiner_.stop();
    const StateLabel state{.applied = applied, .lineage = lineage};
    agreed_ = applied;
    astray_ = false;
    if (mixed || thread_.busy() || trainer_.blank() || steps_.label().applied != applied ||
        steps_.label().lineage != lineage) {
        const auto done = std::make_shared<Result<void>>();
        steps_.begin_at(applied, lineage, [this, mixed, done, applied, lineage] {
            const bool there = trainer_.progress().step == applied && trainer_.progress().lineage == lineage;
            if (there && !mixed && !trainer_.blank()) return;
            *done = applied == 0 ? trainer_.begin_anew() : trainer_.resume(checkpoints_.path_of(applied));
            if (*done && trainer_.progress().lineage != lineage)
                *done = Error{"the checkpoint of step " + std::to_string(applied) +
                              " on this node's disk is not the one that all agreed to go on from"};
        });
        thread_.compute([] {},
                        [this, done] {
                            if (!*done && !stopped_) failed(done->error());
                        });
    } else {
        steps_.begin_at(applied, lineage);
    }
    donor_.go_on();
    observer_.restored(state);
}

// What was given, kept or written as this node's state is no longer the cluster's.
void Participant::stop_training() {
    steps_.stop_step();
    donor_.stop();
    first_step_.reset();
    unstable_.reset();
    offences_ = {};
    synced_ = 0;
    awaits_sync_ = false;
}

void Participant::begin_sync(const ViewPtr& view) {
    stop_training();
    joiner_.pause();
    told_views_ = {view->name};
    observer_.joining(view);
    awaits_sync_ = true;
    begin_sync_if_still();
}

// What is in memory is of use once nothing changes it any more.
void Participant::begin_sync_if_still() {
    const ViewPtr view = member_.core().view();
    if (!awaits_sync_ || stopped_ || view == nullptr) return;
    if (joiner_.holds_state()) {
        joiner_.begin(*view, std::nullopt);
    } else if (!thread_.busy() && steps_.label().applied == steps_.committed()) {
        joiner_.begin(*view, trainer_.blank() ? std::nullopt : std::optional(steps_.label()));
    } else {
        return;
    }
    awaits_sync_ = false;
}

void Participant::activated(std::uint64_t first_step, const ViewPtr&) {
    first_step_ = first_step;
    observer_.activated(first_step);
    end_join_if_there();
}

void Participant::excluded(const std::string& why, bool final) {
    stop_training();
    joiner_.pause();
    observer_.excluded(why, final);
}

void Participant::left() {
    observer_.left();
}

// ---- a join

void Participant::state_synced(const StateLabel& state, const cluster::Name& root) {
    const bool let_in = first_step_.has_value();  // and lost track: it has pulled the state once more
    steps_.begin_at(state.applied, state.lineage, [this, state] { trainer_.arrive(state.applied, state.lineage); });
    const auto last = static_cast<std::uint64_t>(trainer_.run().train.steps);
    observer_.synced({.applied = std::min(state.applied, last), .lineage = state.lineage}, root);
    astray_ = false;
    set_checkpoints_aside(state.applied);
    if (!let_in) synced_ = state.applied;
    save_if_due();
    end_join_if_there();
    if (let_in) {
        if (state.applied > 0) member_.tell(cluster::Applied{state.applied - 1});
        return;
    }
    // When all is over there is no step any more to be let in for.
    if (state.applied <= last) member_.tell(cluster::Synced{.applied = state.applied, .root = root});
}

// What was trained beyond that is not what the others have: alone, or with bad memory. Should all go down, the newest
// checkpoint is what the cluster goes on from.
void Participant::set_checkpoints_aside(std::uint64_t applied) {
    agreed_ = applied;
    const Result<std::vector<std::uint64_t>> aside = checkpoints_.set_aside_after(applied);
    if (!aside) return failed(aside.error());
    if (aside->empty()) return;
    last_saved_ = 0;
    note("what this node saved up to step " + std::to_string(aside->back()) +
         " is not what the others have, and lost to the run, which is at step " + std::to_string(applied) +
         "; it is put aside, in " + checkpoints_.folder.string());
}

void Participant::state_rolled(const StateLabel& state, const state::StepRecord& record) {
    if (stopped_) return;
    steps_.follow(state);
    thread_.change([this, state] { trainer_.arrive(state.applied, state.lineage); }, [] {});
    const ViewPtr governing = member_.core().governing(record.step);
    if (governing != nullptr && governing->name == record.view && told_views_.insert(record.view).second)
        observer_.followed(governing);
    Outcome outcome;
    outcome.record = record;
    outcome.skipped = record.scalars.clip_scale == 0.0;
    observer_.applied(outcome, state, journal::How::followed);
    if (stopped_) return;
    save_if_due();
    end_join_if_there();
    member_.tell(cluster::Applied{record.step});
}

// From the first step on that it was let in for, it takes part.
void Participant::end_join_if_there() {
    if (first_step_ && joiner_.holds_state() && steps_.committed() == *first_step_) end_join();
}

void Participant::end_join() {
    first_step_.reset();
    told_views_.clear();
    joiner_.stop();
    donor_.go_on();
}

// ---- steps

void Participant::step_applied(const AppliedStep& step) {
    if (stopped_) return;
    const Outcome outcome = trainer_.outcome();
    const StateLabel state = steps_.label();
    const StateLabel before{.applied = step.step, .lineage = step.before};
    donor_.applied(step, outcome.record);
    if (outcome.root) observer_.hashed(before, *outcome.root);
    observer_.applied(outcome, state, step.taken ? journal::How::taken : journal::How::exchanged);
    if (stopped_) return;
    for (const NodeId node : offences_.add(step.step, outcome.offenders, step.view->active_count())) {
        observer_.offender(node, step.step);
        member_.tell(cluster::FoundOffender{node});
        if (stopped_) return;
    }
    for (const NodeId node : outcome.astray) observer_.astray(node, before);
    if (std::ranges::find(outcome.astray, member_.id()) != outcome.astray.end()) {
        astray_ = true;
        unstable_.reset();
        set_checkpoints_aside(agreed_);
        member_.tell(cluster::WentAstray{});
        // The others may have gone in the meantime: then this state is the only one.
        if (member_.core().role() == cluster::Role::active) astray_ = false;
        return;
    }
    if (outcome.root) {
        agreed_ = before.applied;
        joiner_.proven();
    }
    tell_stable();
    save_if_due();
}

// Shares follow measured speed. What is computed first takes longer than what follows.
void Participant::computed(std::uint64_t samples, std::chrono::nanoseconds took) {
    if (computed_++ == 0) return;
    const double seconds = std::chrono::duration<double>(took).count();
    const double now = static_cast<double>(samples) / std::max(seconds, 1e-6);
    samples_per_s_ += (samples_per_s_ > 0.0 ? speed_gain : 1.0) * (now - samples_per_s_);
    if (computed_ < enough_to_know) return;
    // Speeds are agreed in whole samples per second; a slower node than that is still a node.
    const auto speed = static_cast<std::uint32_t>(std::clamp(std::llround(samples_per_s_), 1LL, 4'000'000'000LL));
    if (cluster::speeds_agree(speed, told_speed_)) return;
    told_speed_ = speed;
    member_.tell(cluster::MeasuredSpeed{speed});
}

// ---- checkpoints

// So many of those who stand longest keep checkpoints that every quorum has one of them. All write at the same step:
// what they hold up by that, they hold up once.
bool Participant::keeps_checkpoints() const {
    const ViewPtr view = member_.core().view();
    if (view == nullptr) return false;
    const std::vector<NodeId> standing = view->by_standing();
    const auto keepers = std::span(standing).first(std::min(standing.size() / 2 + 1, standing.size()));
    return std::ranges::find(keepers, member_.id()) != keepers.end();
}

// What a joiner puts together may be of several steps, or not be compared yet.
bool Participant::may_save() const {
    return !astray_ && (!joiner_.holds_state() || joiner_.compared() == steps_.label());
}

// Everybody writes the last one, which is the trained model. Who has only begun to keep them does not wait for the next
// one: until it has its own, the others' newest may be the only one.
void Participant::save_if_due() {
    if (stopped_ || ends_ || awaits_sync_ || (joiner_.holds_state() && !joiner_.running()) || !may_save()) return;
    finish_if_over();
    StateLabel state = steps_.label();
    const run::Train& train = trainer_.run().train;
    const auto every = static_cast<std::uint64_t>(train.checkpoint_every);
    const bool last = trainer_.is_over(state.applied);
    if (last) state.applied = static_cast<std::uint64_t>(train.steps);
    const bool lacks_one = every > 0 && !unstable_ && last_saved_ < state.applied - state.applied % every;
    const bool due = last || (lacks_one && keeps_checkpoints());
    if (!due || state.applied == last_saved_ || (unstable_ && !unstable_->written) || !thread_.may_read()) return;
    unstable_ = Unstable{.state = state, .written = false};
    const auto done = std::make_shared<Result<void>>();
    thread_.read([this, done] { *done = trainer_.save(unstable_path(checkpoints_)); },
                 [this, done, lineage = state.lineage] {
                     if (stopped_ || !unstable_ || unstable_->state.lineage != lineage) return;
                     if (!*done) return failed(done->error());
                     unstable_->written = true;
                     publish_checkpoint();
                 });
}

void Participant::save_if_alone(std::function<void(const Result<void>&)> then) {
    const ViewPtr view = member_.core().view();
    const bool alone = view != nullptr && view->is_active(member_.id()) && view->active_count() == 1;
    if (!alone || stopped_) return then({});
    ends_ = true;
    steps_.stop_step();
    at_the_end_ = std::move(then);
    save_at_the_end();
}

// Once what was being computed and applied has come to its end.
void Participant::save_at_the_end() {
    if (!at_the_end_ || stopped_ || thread_.busy()) return;
    const auto then = std::exchange(at_the_end_, nullptr);
    if (!may_save()) return then(Error{"what this node holds is not one state that others had, and is not saved"});
    StateLabel state = steps_.label();
    state.applied = std::min(state.applied, static_cast<std::uint64_t>(trainer_.run().train.steps));
    if (state.applied == last_saved_) return then({});
    const auto done = std::make_shared<Result<void>>();
    thread_.read([this, done, path = checkpoints_.path_of(state.applied)] { *done = trainer_.save(path); },
                 [this, done, state, then] {
                     if (*done) {
                         last_saved_ = state.applied;
                         observer_.saved(state.applied, checkpoints_.path_of(state.applied));
                     }
                     then(*done);
                 });
}

// What is stable is never undone.
void Participant::publish_checkpoint() {
    if (!unstable_ || !unstable_->written || unstable_->state.applied > std::max(member_.core().stable(), synced_))
        return;
    const std::uint64_t step = unstable_->state.applied;
    unstable_.reset();
    const fs::path path = checkpoints_.path_of(step);
    std::error_code problem;
    fs::rename(unstable_path(checkpoints_), path, problem);
    if (problem) return failed({"cannot write " + path.string() + ": " + problem.message()});
    last_saved_ = step;
    if (const auto pruned = checkpoints_.prune(static_cast<std::uint64_t>(trainer_.run().train.keep_checkpoints));
        !pruned)
        note(pruned.error().message);
    observer_.saved(step, path);
    finish_if_over();
}

// The run's last step is applied, everybody has it, and it is on this node's disk.
void Participant::finish_if_over() {
    const auto last = static_cast<std::uint64_t>(trainer_.run().train.steps);
    if (over_ || stopped_ || last_saved_ != last || steps_.label().applied <= last) return;
    over_ = true;
    observer_.finished();
}

void Participant::stable(std::uint64_t steps) {
    donor_.stable();
    if (steps < told_stable_) told_stable_ = 0;  // the cluster was founded anew
    tell_stable();
    publish_checkpoint();
}

// A result is known to stay before it is in the state.
void Participant::tell_stable() {
    const auto last = static_cast<std::uint64_t>(trainer_.run().train.steps);
    const std::uint64_t now = std::min({member_.core().stable(), steps_.label().applied, last});
    if (now <= told_stable_) return;
    told_stable_ = now;
    observer_.stable(now);
}

// ---- links

void Participant::link_up(NodeId peer) {
    steps_.link_up(peer);
    joiner_.link_up(peer);
}

void Participant::link_down(NodeId peer) {
    steps_.link_down(peer);
    donor_.forget(peer);
    describer_.forget(peer);
    joiner_.link_down(peer);
}

void Participant::received(NodeId from, std::span<const std::uint8_t> message) {
    const Result<wire::Work> work = work_from(message);
    if (!work) return note("ignores " + cluster::brief(from) + ": " + work.error().message);
    switch (work->what_case()) {
        case wire::Work::kRunAsk:
            return describer_.received(from, work->run_ask());
        case wire::Work::kShardAsk:
            return donor_.received(from, work->shard_ask());
        case wire::Work::kPartAsk:
            return donor_.received(from, work->part_ask());
        case wire::Work::kRootAsk:
            return donor_.received(from, work->root_ask());
        case wire::Work::kPauseAsk:
            return donor_.received(from, work->pause_ask());
        case wire::Work::kShardAnswer:
            return joiner_.received(from, work->shard_answer());
        case wire::Work::kPartAnswer:
            return joiner_.received(from, work->part_answer());
        case wire::Work::kRootAnswer:
            return joiner_.received(from, work->root_answer());
        case wire::Work::kPauseAnswer:
            return joiner_.received(from, work->pause_answer());
        default:
            if (const Result<void> taken = steps_.received(from, *work); !taken)
                note("ignores " + cluster::brief(from) + ": " + taken.error().message);
    }
}

void Participant::note(const std::string& text) {
    observer_.note(text);
}

void Participant::refused(const std::string& text, bool by_others) {
    observer_.refused(text, by_others);
}

void Participant::link_refused(NodeId peer, bool connect, const std::string& text) {
    observer_.link_refused(peer, connect, text);
}

void Participant::failed(const Error& why) {
    if (has_failed_) return;
    has_failed_ = true;
    stop();
    observer_.failed(why);
}

}  // namespace chaos::elastic
