// Participants that train together in one process, each in a folder of its own, over real links on loopback.
#pragma once

#include "elastic/participant.h"
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
#include <string>
#include <vector>

namespace chaos::elastic {

inline const net::SecretKey& institution() {
    static const net::SecretKey key = net::SecretKey::generate();
    return key;
}

// One node, and what it told of itself.
class Relative final : public Observer {
public:
    Relative(net::asio::io_context& loop, const run::Run& run, const toy::ToyModel& model,
             const std::filesystem::path& folder, std::string& log, unsigned number, cluster::Options core = {})
        : log_(log), number_(number), trainer(open(run, model)) {
        std::filesystem::create_directories(folder / "checkpoints");
        live::Options options;
        core.heartbeat = 100 * cluster::millisecond;
        options.core = core;
        options.listen = {"127.0.0.1:0"};
        options.folder = folder;
        auto opened = Participant::open(loop, key_, net::vouch_for(institution(), key_.public_key(), 4'000'000'000),
                                        options, trainer, {folder / "checkpoints"}, std::string("a toy"), *this);
        EXPECT_TRUE(opened) << opened.error().message;
        participant = std::move(*opened);
        const auto started = participant->member().start();
        EXPECT_TRUE(started) << started.error().message;
    }

    static Trainer open(const run::Run& run, const toy::ToyModel& model) {
        auto opened = Trainer::open(run, toy::make_toy_engine(model));
        EXPECT_TRUE(opened) << opened.error().message;
        return std::move(*opened);
    }

    void say(const std::string& text) { log_ += std::to_string(number_) + ": " + text + "\n"; }
    void adopted(const ViewPtr& now) override {
        view = now;
        say("view " + std::to_string(now->epoch) + " with " + std::to_string(now->members.size()) +
            " members from step " + std::to_string(now->first_step));
    }
    void applied(const Outcome& outcome, const StateLabel& state, journal::How) override {
        steps = state.applied;
        lineages[state.applied] = state.lineage;
        losses[outcome.record.step] = outcome.record.loss;
        last = outcome;
    }
    void joining(const ViewPtr&) override { say("joins"); }
    void synced(const StateLabel& state, const cluster::Name&) override {
        say("is synced at " + std::to_string(state.applied));
        synced_at = state.applied;
        steps = state.applied;
        const Joiner::Progress progress = participant->joiner().progress();
        pulled = progress;
    }
    void activated(std::uint64_t first_step) override {
        say("is let in from step " + std::to_string(first_step));
        first = first_step;
    }
    void restored(const StateLabel& state) override {
        say("begins at " + std::to_string(state.applied));
        steps = state.applied;
    }
    void stable(std::uint64_t) override {}
    void hashed(const StateLabel& state, const cluster::Name& root) override { roots[state.applied] = root; }
    void saved(std::uint64_t step, const std::filesystem::path&) override { saved_steps.push_back(step); }
    void excluded(const std::string& why, bool) override { say("is out: " + why); }
    void left() override { has_left = true; }
    void finished() override { has_finished = true; }
    void note(const std::string& text) override { say(text); }
    void failed(const Error& why) override {
        say("FAILED: " + why.message);
        has_failed = true;
    }

    [[nodiscard]] std::vector<float> memory() {
        const auto all = trainer.engine().arena().all();
        return {all.begin(), all.end()};
    }

private:
    std::string& log_;
    unsigned number_;
    net::SecretKey key_ = net::SecretKey::generate();

public:
    Trainer trainer;
    std::unique_ptr<Participant> participant;
    ViewPtr view;
    std::uint64_t steps = 0;
    std::map<std::uint64_t, cluster::Name> lineages;  // after so many steps
    std::map<std::uint64_t, cluster::Name> roots;
    std::map<std::uint64_t, double> losses;
    Outcome last;
    std::optional<std::uint64_t> synced_at;
    std::optional<std::uint64_t> first;
    Joiner::Progress pulled;
    std::vector<std::uint64_t> saved_steps;
    bool has_left = false;
    bool has_finished = false;
    bool has_failed = false;
};

class Clan {
public:
    explicit Clan(const toy::ToyModel& toy_model, std::int64_t steps = 1'000'000, std::int64_t batch = 24)
        : model(toy_model), run(toy::toy_run(steps, batch)) {}

    Relative& start(unsigned number) {
        nodes[number] = std::make_unique<Relative>(loop, run, model, folder(number), log, number, core);
        return *nodes[number];
    }
    Relative& found(unsigned number) {
        Relative& node = start(number);
        node.participant->member().found(static_cast<std::uint32_t>(run.train.batch), false);
        return node;
    }
    Relative& join(unsigned number, const std::vector<unsigned>& by) {
        Relative& node = start(number);
        std::vector<std::string> addresses;
        addresses.reserve(by.size());
        for (const unsigned other : by) addresses.push_back(nodes.at(other)->participant->member().address());
        node.participant->member().join(addresses);
        return node;
    }
    // Without a word.
    void kill(unsigned number) { nodes.erase(number); }

    [[nodiscard]] std::filesystem::path folder(unsigned number) const {
        return folder_.path() / std::to_string(number);
    }

    [[nodiscard]] bool wait(const std::function<bool()>& condition) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > limit) return false;
            loop.restart();
            loop.run_one_for(std::chrono::milliseconds(100));
        }
        return true;
    }
    [[nodiscard]] bool all_reach(std::uint64_t steps) {
        return wait([&] {
            for (const auto& [number, node] : nodes)
                if (node->steps < steps) return false;
            return true;
        });
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

    net::asio::io_context loop{1};
    toy::ToyModel model;
    run::Run run;
    cluster::Options core;
    std::string log;
    std::map<unsigned, std::unique_ptr<Relative>> nodes;

private:
    test::TemporaryFolder folder_;
};

}  // namespace chaos::elastic
