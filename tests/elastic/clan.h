// Participants that train together in one process, each in a folder of its own, over real links on loopback. Each has
// a loop of its own, so that one can be frozen while the others go on; all of them are turned by whoever waits.
//
// Every node keeps a journal. expect_sound() has the journals judged, and the run computed again.
#pragma once

#include "elastic/journal_check.h"
#include "elastic/participant.h"
#include "elastic/replay.h"
#include "net/credential.h"
#include "temporary_folder.h"
#include "toy_engine/toy_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace chaos::elastic {

inline const net::SecretKey& institution() {
    static const net::SecretKey key = net::SecretKey::generate();
    return key;
}

using Entries = std::vector<journal::TimedEntry>;

// What outlives a node's process.
struct Home {
    unsigned number = 0;
    std::filesystem::path folder;
    net::SecretKey key = net::SecretKey::generate();
    std::string address = "127.0.0.1:0";  // the same in each life
    Entries journal;

    [[nodiscard]] NodeId id() const { return net::node_id(key.public_key()); }
};

// One life of a node, and what it told of itself.
class Relative final : public Observer {
public:
    Relative(Trainer its_trainer, Home& home, std::string& log, live::Options options)
        : log_(log), home_(home), trainer(std::move(its_trainer)) {
        std::filesystem::create_directories(home.folder / "checkpoints");
        options.core.heartbeat = 100 * cluster::millisecond;
        options.listen = {home.address};
        options.folder = home.folder;
        auto opened =
            Participant::open(loop, home.key, net::vouch_for(institution(), home.key.public_key(), 4'000'000'000),
                              options, trainer, {home.folder / "checkpoints"}, std::string("a toy"), *this);
        EXPECT_TRUE(opened) << opened.error().message;
        participant = std::move(*opened);
        const auto started = participant->member().start();
        EXPECT_TRUE(started) << started.error().message;
        home.address = participant->member().address();
        write(journal::Begun{.member = participant->member().core().id(),
                             .run = run::hash(trainer.identity()),
                             .threads = 1,
                             .version = "test"});
    }

    static Trainer open(const run::Run& run, const toy::ToyModel& model) {
        return open(run, toy::make_toy_engine(model));
    }
    static Trainer open(const run::Run& run, const Trainer::MakeEngine& make_engine) {
        auto opened = Trainer::open(run, make_engine);
        EXPECT_TRUE(opened) << opened.error().message;
        return std::move(*opened);
    }

    // False: there was nothing to do.
    bool turn() {
        loop.restart();
        return !is_frozen && loop.poll() > 0;
    }

    void write(const journal::Entry& entry) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        home_.journal.push_back(
            {.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(), .entry = entry});
    }
    void say(const std::string& text) {
        log_ += std::to_string(home_.number) + " at " + std::to_string(steps) + ": " + text + "\n";
        notes += text + "\n";
    }

    void adopted(const ViewPtr& now) override {
        view = now;
        write(journal::Adopted{now});
        say("view " + std::to_string(now->epoch) + " with " + std::to_string(now->members.size()) +
            " members from step " + std::to_string(now->first_step));
    }
    void followed(const ViewPtr& of_step) override { write(journal::Adopted{of_step}); }
    void applied(const Outcome& outcome, const StateLabel& state, journal::How how) override {
        const state::StepRecord& record = outcome.record;
        if (outcome.held_out) held_out[record.step] = *outcome.held_out;
        last = outcome;
        if (trainer.is_over(record.step)) return;
        steps = state.applied;
        lineages[state.applied] = state.lineage;
        losses[record.step] = record.loss;
        write(journal::Applied{.record = record, .lineage = state.lineage, .how = how, .samples_lost = 0});
        if (!outcome.skipped) return;
        if (outcome.culprit) culprits[record.step] = *outcome.culprit;
        write(journal::Skipped{.step = record.step, .view = record.view, .node = outcome.culprit, .why = "test"});
    }
    void joining(const ViewPtr&) override {
        say("joins");
        ++joins;
        first.reset();
        synced_at.reset();
    }
    void synced(const StateLabel& state, const cluster::Name& root) override {
        steps = state.applied;
        write(journal::Synced{.applied = steps, .lineage = state.lineage, .root = root});
        synced_at = steps;
        pulled = participant->joiner().progress();
        say("is synced, " + std::to_string(pulled.shard_bytes) + " bytes pulled");
    }
    void activated(std::uint64_t first_step) override {
        say("is let in from step " + std::to_string(first_step));
        first = first_step;
    }
    void restored(const StateLabel& state) override {
        write(journal::Restored{.applied = state.applied, .lineage = state.lineage});
        steps = state.applied;
        restored_at = state.applied;
        say("begins");
    }
    // The next result is complete, and about to be applied.
    void stable(std::uint64_t count) override {
        write(journal::Stable{count});
        before_applying();
    }
    void hashed(const StateLabel& state, const cluster::Name& root) override {
        roots[state.applied] = root;
        write(journal::StateHash{.applied = state.applied, .root = root});
    }
    void astray(NodeId node, const StateLabel& state) override {
        say("the state of " + cluster::brief(node) + " went astray before step " + std::to_string(state.applied));
        gone_astray.insert(node);
    }
    void offender(NodeId node, std::uint64_t step) override {
        say(cluster::brief(node) + " is a repeat offender");
        offenders[step].insert(node);
    }
    void saved(std::uint64_t step, const std::filesystem::path&) override { saved_steps.push_back(step); }
    void excluded(const std::string& why, bool final) override {
        write(journal::Excluded{why});
        is_out_for_good = final;
        say("is out: " + why);
        ++exclusions;
    }
    void left() override {
        write(journal::Left{});
        has_left = true;
    }
    void finished() override { has_finished = true; }
    void note(const std::string& text) override { say(text); }
    void failed(const Error& why) override {
        say("FAILED: " + why.message);
        has_failed = true;
    }

    // Not while it trains.
    [[nodiscard]] std::vector<float> memory() {
        const auto all = trainer.engine().arena().all();
        return {all.begin(), all.end()};
    }
    // It takes part, and did several steps since it was let in.
    [[nodiscard]] bool trains() const { return first && steps > *first + 2; }

private:
    std::string& log_;
    Home& home_;

public:
    net::asio::io_context loop{1};
    Trainer trainer;
    std::unique_ptr<Participant> participant;
    ViewPtr view;
    std::uint64_t steps = 0;
    std::map<std::uint64_t, cluster::Name> lineages;  // after so many steps
    std::map<std::uint64_t, cluster::Name> roots;
    std::map<std::uint64_t, double> losses;
    std::map<std::uint64_t, compute::Measure> held_out;
    std::map<std::uint64_t, NodeId> culprits;  // of steps that were skipped
    std::set<NodeId> gone_astray;
    std::map<std::uint64_t, std::set<NodeId>> offenders;  // repeat offenders, by the step that showed it
    Outcome last;
    std::optional<std::uint64_t> synced_at;
    std::optional<std::uint64_t> first;
    std::optional<std::uint64_t> restored_at;
    Joiner::Progress pulled;
    std::vector<std::uint64_t> saved_steps;
    std::string notes;
    std::function<void()> before_applying = [] {};
    unsigned joins = 0;
    unsigned exclusions = 0;
    bool has_left = false;
    bool is_out_for_good = false;
    bool has_finished = false;
    bool has_failed = false;
    bool is_frozen = false;
};

class Clan {
public:
    explicit Clan(const toy::ToyModel& toy_model, std::int64_t steps = 1'000'000, std::int64_t batch = 24)
        : model(toy_model), run(toy::toy_run(steps, batch)) {}
    // Of any run and engine instead of toys.
    Clan(const run::Run& its_run, Trainer::MakeEngine make_engine)
        : run(its_run), make_engine_(std::move(make_engine)) {}

    Home& home(unsigned number) {
        auto& home = homes_[number];
        if (home == nullptr) {
            home = std::make_unique<Home>();
            home->number = number;
            home->folder = folder_.path() / std::to_string(number);
        }
        return *home;
    }
    // In the folder that an earlier life left, if there was one.
    Relative& start(unsigned number) { return start(number, model); }
    Relative& start(unsigned number, const toy::ToyModel& its_model) {
        live::Options its_options = options;
        its_options.turns_away = [this, number](NodeId peer) {
            for (const auto& [other, home] : homes_)
                if (home->id() == peer && cut_.contains(std::minmax(number, other))) return true;
            return false;
        };
        nodes[number] = std::make_unique<Relative>(open(its_model), home(number), log, its_options);
        return *nodes[number];
    }
    Relative& found(unsigned number) {
        Relative& node = start(number);
        node.restored(node.participant->state());
        node.participant->member().found(static_cast<std::uint32_t>(run.train.batch), strict);
        return node;
    }
    Relative& join(unsigned number, const std::vector<unsigned>& by) { return join(number, by, model); }
    Relative& join(unsigned number, const std::vector<unsigned>& by, const toy::ToyModel& its_model) {
        Relative& node = start(number, its_model);
        std::vector<std::string> addresses;
        addresses.reserve(by.size());
        for (const unsigned other : by) addresses.push_back(home(other).address);
        node.participant->member().join(addresses);
        return node;
    }
    // The first founds, the others join, one after the other; all train.
    [[nodiscard]] bool gather(unsigned count) {
        found(0);
        if (!wait([&] { return nodes[0]->steps > 0; })) return false;
        for (unsigned number = 1; number < count; ++number) {
            Relative& node = join(number, {number - 1});
            if (!wait([&] { return node.trains(); })) return false;
        }
        return true;
    }
    // Without a word.
    void kill(unsigned number) {
        log += std::to_string(number) + " dies\n";
        nodes.erase(number);
    }
    // No connection between these, from now on: neither end hears why.
    void cut(const std::vector<unsigned>& some, const std::vector<unsigned>& others) {
        for (const unsigned a : some)
            for (const unsigned b : others) {
                cut_.insert(std::minmax(a, b));
                if (nodes.contains(a)) nodes[a]->participant->member().links().close(home(b).id());
                if (nodes.contains(b)) nodes[b]->participant->member().links().close(home(a).id());
            }
        log += "cut\n";
    }
    void mend() {
        cut_.clear();
        log += "mended\n";
    }

    [[nodiscard]] bool wait(const std::function<bool()>& condition) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(5);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > limit) return false;
            bool turned = false;
            for (const auto& [number, node] : nodes) turned = node->turn() || turned;
            if (!turned) std::this_thread::sleep_for(std::chrono::microseconds(200));  // they compute, or wait
        }
        return true;
    }
    [[nodiscard]] bool all_reach(std::uint64_t steps) {
        return wait([&] {
            return std::ranges::all_of(nodes, [&](const auto& entry) { return entry.second->steps >= steps; });
        });
    }
    [[nodiscard]] bool all_finish() {
        return wait(
            [&] { return std::ranges::all_of(nodes, [](const auto& entry) { return entry.second->has_finished; }); });
    }
    [[nodiscard]] std::uint64_t most_steps() const {
        std::uint64_t most = 0;
        for (const auto& [number, node] : nodes) most = std::max(most, node->steps);
        return most;
    }
    // Whatever two nodes say of one step is the same.
    void expect_one_line() const {
        std::map<std::uint64_t, cluster::Name> all;
        for (const auto& [number, node] : nodes)
            for (const auto& [step, lineage] : node->lineages) {
                const auto [at, fresh] = all.emplace(step, lineage);
                EXPECT_EQ(at->second, lineage) << "step " << step << " of node " << number << "\n" << log;
            }
    }

    // After the run's end: the invariants held in all journals; whoever is still there has the bits of the run computed
    // once more in one process.
    void expect_sound() {
        JournalCheck check;
        std::vector<Entries> journals;
        for (const auto& [number, home] : homes_) {
            check.begin_journal();
            for (const journal::TimedEntry& entry : home->journal) check.add(entry);
        }
        const CheckReport report = check.finish();
        for (const std::string& violation : report.violations) ADD_FAILURE() << violation << "\n" << log;
        ASSERT_FALSE(nodes.empty());
        journals.push_back(home(nodes.begin()->first).journal);
        for (const auto& [number, home] : homes_)
            if (number != nodes.begin()->first) journals.push_back(home->journal);
        const auto chain = chain_of(journals);
        ASSERT_TRUE(chain) << chain.error().message << "\n" << log;
        toy::ToyModel quick = model;
        quick.per_sample = {};
        quick.before = [] {};
        Trainer again = open(quick);
        // What members evaluated together is what one alone finds.
        const auto evaluate = [&](const journal::Applied& step) {
            for (const auto& [number, node] : nodes) {
                const auto together = node->held_out.find(step.record.step + 1);
                if (together == node->held_out.end()) continue;
                const auto alone = again.evaluate();
                EXPECT_EQ((*alone)->targets, together->second.targets);
                EXPECT_NEAR((*alone)->loss / together->second.loss, 1.0, 1e-5) << "step " << together->first;
            }
        };
        const auto replayed =
            replay(*chain, {.applied = again.progress().step, .lineage = again.progress().lineage}, again,
                   again.result_shape(), {.same = evaluate, .skipped = [&](const journal::Applied& step) {
                                              again.arrive(step.record.step + 1, step.lineage);
                                          }});
        ASSERT_TRUE(replayed) << replayed.error().message << "\n" << log;
        EXPECT_FALSE(replayed->difference) << *replayed->difference << "\n" << log;
        EXPECT_EQ(replayed->steps + replayed->skipped, static_cast<std::uint64_t>(run.train.steps));
        const auto memory = again.engine().arena().all();
        for (const auto& [number, node] : nodes) {
            EXPECT_FALSE(node->has_failed) << log;
            EXPECT_TRUE(std::ranges::equal(memory, node->memory())) << "node " << number << "\n" << log;
        }
    }

    toy::ToyModel model;
    run::Run run;
    live::Options options;
    bool strict = false;  // the policy, when a node founds
    std::string log;

private:
    [[nodiscard]] Trainer open(const toy::ToyModel& its_model) const {
        return make_engine_ ? Relative::open(run, make_engine_) : Relative::open(run, its_model);
    }

    Trainer::MakeEngine make_engine_;  // none: toys
    test::TemporaryFolder folder_;
    std::map<unsigned, std::unique_ptr<Home>> homes_;
    std::set<std::pair<unsigned, unsigned>> cut_;

public:
    std::map<unsigned, std::unique_ptr<Relative>> nodes;
};

}  // namespace chaos::elastic
