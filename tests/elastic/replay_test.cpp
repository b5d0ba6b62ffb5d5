// A cluster trains through churn, with the real engine between its members; then its journals are computed again.
#include "elastic/replay.h"

#include "base/random.h"
#include "cluster/ancestry.h"
#include "collective/network.h"
#include "elastic/gradient_plan.h"
#include "elastic/journals.h"
#include "plan/seed.h"

#include <gmock/gmock.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

namespace chaos::elastic {
namespace {

using namespace journal;
using cluster::ViewPtr;
using test::Entries;
using testing::HasSubstr;

constexpr std::size_t floats = 3000;
constexpr std::uint32_t batch = 24;

// Sums of its gradients depend on their order, and gradients on the parameters.
class SmallLearner final : public Learner {
public:
    Result<std::chrono::nanoseconds> compute(const Task& task, std::span<float> into) override {
        for (const SampleRange range : task.more)
            for (std::uint64_t sample = range.begin; sample < range.end; ++sample)
                for (std::size_t i = 1; i < into.size(); ++i) {
                    const std::uint64_t bits = random_bits(seed, task.step * batch + sample, i);
                    const float noise = std::ldexp(random_unit(bits) - 0.5F, static_cast<int>(bits % 12));
                    into[i] += noise - 0.1F * parameters[i];
                }
        into[0] = static_cast<float>(task.self.low * task.view->epoch);  // what is said even without samples
        return std::chrono::nanoseconds{1};
    }
    cluster::Name apply(std::uint64_t step, const cluster::View& view, std::span<const float> result,
                        const state::ResultDigest& digest) override {
        const bool skipped = !std::isfinite(digest.norm);
        for (std::size_t i = 0; i < result.size() && !skipped; ++i)
            parameters[i] += 0.01F * result[i] / static_cast<float>(view.batch);
        record = {};
        record.step = step;
        record.view = view.name;
        record.index = step * view.batch;
        record.samples = view.batch;
        if (skipped) record.scalars = state::skipped_update;
        record.norm = digest.norm;
        record.result_hash = digest.hash;
        lineage = state::extend_lineage(lineage, record);
        return lineage;
    }

    std::uint64_t seed = 1;
    std::vector<float> parameters = std::vector<float>(floats);
    cluster::Name lineage = test::name(9);
    state::StepRecord record;  // of the last step
};

struct Trainee {
    SmallLearner learner;
    Entries entries;
    // g(s)
    std::uint64_t step = ~std::uint64_t{0};
    std::vector<SampleRange> held;
    std::vector<float> gradient = std::vector<float>(floats);

    void say(Entry entry) { entries.push_back({.time_ns = 0, .entry = std::move(entry)}); }
};

class Cluster {
public:
    explicit Cluster(std::uint64_t seed) : seed_(seed) {
        view = test::founded(batch);
        begin(1);
        trainees[1].say(Restored{.applied = 0, .lineage = trainees[1].learner.lineage});
        trainees[1].say(Adopted{view});
    }

    // Takes part from the next step on.
    void join(std::uint64_t number, std::initializer_list<std::uint64_t> peers) {
        const auto views = test::join(view, number, peers, applied);
        adopt(views[0]);
        begin(number);
        trainees[number].learner = trainees[1].learner;
        trainees[number].say(Synced{.applied = applied, .lineage = trainees[1].learner.lineage, .root = test::name(0)});
        adopt(views[1]);
    }
    // Dies in the middle of a step: all have begun it.
    void lose(std::initializer_list<std::uint64_t> numbers) {
        for (const std::uint64_t number : members()) compute(number);
        for (const std::uint64_t number : numbers) trainees.erase(number);
        adopt(test::lose(view, numbers, applied));
    }
    void train(std::uint64_t steps) {
        for (; steps > 0; --steps) train();
    }
    void train() {
        for (const std::uint64_t number : members()) compute(number);
        exchange();
    }

    [[nodiscard]] const Entries& journal(std::uint64_t number) { return trainees.at(number).entries; }

    ViewPtr view;
    std::uint64_t applied = 0;
    std::map<std::uint64_t, Trainee> trainees;
    std::uint64_t sample_counted_twice = 0;  // by this member

private:
    [[nodiscard]] std::vector<std::uint64_t> members() const {
        std::vector<std::uint64_t> numbers;
        for (const auto& [number, trainee] : trainees) numbers.push_back(number);
        return numbers;
    }
    void begin(std::uint64_t number) {
        trainees[number].say(Begun{.member = {.node = test::node(number), .incarnation = 1},
                                   .run = test::name(9),
                                   .threads = 1,
                                   .version = ""});
    }
    void adopt(const ViewPtr& next) {
        view = next;
        for (auto& [number, trainee] : trainees) trainee.say(Adopted{view});
    }
    // What is missing of its share, in the order in which the share lists it.
    void compute(std::uint64_t number) {
        Trainee& trainee = trainees.at(number);
        if (trainee.step != applied) {
            trainee.step = applied;
            trainee.held.clear();
            std::ranges::fill(trainee.gradient, 0.0F);
        }
        for (const cluster::Share& share : cluster::shares_of(*view, applied)) {
            if (share.node != test::node(number)) continue;
            ASSERT_GE(share.ranges.size(), trainee.held.size());
            ASSERT_TRUE(std::equal(trainee.held.begin(), trainee.held.end(), share.ranges.begin()));
            const auto missing = std::span(share.ranges).subspan(trainee.held.size());
            Learner::Task task{
                .step = applied, .view = view, .self = share.node, .first = trainee.held.empty(), .more = missing};
            ASSERT_TRUE(trainee.learner.compute(task, trainee.gradient));
            if (sample_counted_twice == number && !share.ranges.empty()) {
                const SampleRange twice{.begin = share.ranges[0].begin, .end = share.ranges[0].begin + 1};
                task.more = {&twice, 1};
                ASSERT_TRUE(trainee.learner.compute(task, trainee.gradient));
            }
            trainee.held = share.ranges;
        }
    }
    void exchange() {
        const Result<GradientPlan> made = gradient_plan_of(*view, {.gradient = floats, .rest = 0});
        ASSERT_TRUE(made.ok()) << made.error().message;
        collective::test::Network network({.seed = seed_ + applied, .streams = 2});
        std::map<std::uint64_t, std::shared_ptr<collective::test::Holder>> holders;
        for (const auto& [number, trainee] : trainees) network.add(test::node(number));
        for (const auto& [number, trainee] : trainees) {
            holders[number] = collective::test::hold(trainee.gradient);
            const auto schedule =
                collective::test::schedule_for(made->plan, made->members, test::node(number), made->options);
            ASSERT_TRUE(
                network.at(test::node(number))
                    .engine->begin({view->epoch, applied}, schedule, collective::test::vectors_of(holders[number]))
                    .ok());
        }
        network.run();
        for (auto& [number, trainee] : trainees) {
            const auto& outcome = network.at(test::node(number)).outcomes.at({view->epoch, applied});
            ASSERT_TRUE(std::holds_alternative<collective::Complete>(outcome));
            const std::vector<float>& result = holders[number]->output;
            const cluster::Name lineage =
                trainee.learner.apply(applied, *view, result, state::digest_result(result, result.size()));
            trainee.say(Applied{
                .record = trainee.learner.record, .lineage = lineage, .how = How::exchanged, .samples_lost = 0});
        }
        ++applied;
    }

    std::uint64_t seed_;
};

Result<ReplayReport> replayed(std::initializer_list<Entries> journals, SmallLearner& learner,
                              std::optional<ReplayStart> start = std::nullopt) {
    const std::vector<Entries> all(journals);
    CHAOS_TRY(const CommittedChain chain, chain_of(all));
    return replay(
        chain, start.value_or(ReplayStart{.applied = 0, .lineage = learner.lineage}), learner,
        {.gradient = floats, .rest = 0},
        {.same = [](const Applied&) {}, .skipped = [&](const Applied& step) { learner.lineage = step.lineage; }});
}

void expect_same(const Result<ReplayReport>& report, std::uint64_t steps, const SmallLearner& learner,
                 const SmallLearner& live) {
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_FALSE(report->difference) << *report->difference;
    EXPECT_EQ(report->steps, steps);
    EXPECT_EQ(report->lineage, live.lineage);
    EXPECT_TRUE(collective::test::same_bits(learner.parameters, live.parameters));
}

TEST(Replay, AChurnedRunGivesEqualBits) {
    Cluster cluster(plan::test::fresh_seed());
    cluster.train(3);
    cluster.join(2, {1});
    cluster.train(2);
    cluster.join(3, {1, 2});
    cluster.join(4, {2, 3});
    cluster.train(4);
    cluster.lose({3});
    cluster.lose({4});  // before the step was redone
    ASSERT_GT(cluster::shares_of(*cluster.view, cluster.applied)[0].ranges.size(), 2U);
    cluster.train(3);
    cluster.join(5, {1, 2});
    cluster.train(3);
    SmallLearner learner;
    expect_same(replayed({cluster.journal(1)}, learner), 15, learner, cluster.trainees[1].learner);
}

TEST(Replay, OneSampleMoreIsNoticed) {
    Cluster cluster(plan::test::fresh_seed());
    cluster.join(2, {1});
    cluster.train(4);
    cluster.sample_counted_twice = 2;
    cluster.train(1);
    cluster.sample_counted_twice = 0;
    cluster.train(2);
    SmallLearner learner;
    const auto report = replayed({cluster.journal(1)}, learner);
    ASSERT_TRUE(report.ok()) << report.error().message;
    ASSERT_TRUE(report->difference);
    EXPECT_THAT(*report->difference, HasSubstr("step 4 under " + cluster::label_of(*cluster.view)));
    EXPECT_THAT(*report->difference, HasSubstr("another result"));
    EXPECT_EQ(report->steps, 4U);
}

TEST(Replay, AnotherUpdateIsNoticed) {
    Cluster cluster(1);
    cluster.train(3);
    Entries entries = cluster.journal(1);
    std::get<Applied>(entries.back().entry).lineage = test::name(3);
    SmallLearner learner;
    const auto report = replayed({entries}, learner);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_THAT(report->difference.value_or(""), HasSubstr("another lineage"));
    EXPECT_EQ(report->steps, 2U);
}

TEST(Replay, AJoinersJournalNeedsTheBeginning) {
    Cluster cluster(plan::test::fresh_seed());
    cluster.train(3);
    const SmallLearner third = cluster.trainees[1].learner;
    cluster.join(2, {1});
    cluster.train(4);
    SmallLearner learner;
    EXPECT_THAT(replayed({cluster.journal(2)}, learner).error().message,
                AllOf(HasSubstr("begins at step 3"), HasSubstr("--from CHECKPOINT")));
    // The journal of another node, or a state, closes the gap.
    expect_same(replayed({cluster.journal(2), cluster.journal(1)}, learner), 7, learner, cluster.trainees[2].learner);
    SmallLearner from = third;
    expect_same(replayed({cluster.journal(2)}, from, ReplayStart{.applied = 3, .lineage = third.lineage}), 4, from,
                cluster.trainees[2].learner);
    from = third;
    expect_same(replayed({cluster.journal(1)}, from, ReplayStart{.applied = 3, .lineage = third.lineage}), 4, from,
                cluster.trainees[1].learner);
}

TEST(Replay, AStateOfAnotherLineIsRefused) {
    Cluster cluster(1);
    cluster.train(3);
    SmallLearner learner;
    const auto start = [&](std::uint64_t applied) {
        return replayed({cluster.journal(1)}, learner, ReplayStart{.applied = applied, .lineage = test::name(2)});
    };
    EXPECT_THAT(start(0).error().message, HasSubstr("is not the one that the journal goes on from"));
    EXPECT_THAT(start(2).error().message, HasSubstr("is not the one that the journal goes on from"));
    EXPECT_THAT(start(4).error().message, HasSubstr("ends after 3 steps"));
}

TEST(Replay, StepsThatWereUndoneAreNotReplayed) {
    Cluster cluster(1);
    cluster.train(3);
    Trainee& node = cluster.trainees[1];
    const Trainee checkpoint = node;
    cluster.train(2);
    const Entries undone = node.entries;
    node.learner = checkpoint.learner;
    node.say(Restored{.applied = 3, .lineage = checkpoint.learner.lineage});
    cluster.applied = 3;
    cluster::Delta delta = test::change(*cluster.view, 3);
    delta.settlement.emplace();
    delta.settlement->applied = 3;
    delta.settlement->founded = true;
    cluster.view = test::follow(cluster.view, delta);
    node.say(Adopted{cluster.view});
    cluster.train(4);
    SmallLearner learner;
    expect_same(replayed({cluster.journal(1)}, learner), 7, learner, node.learner);
    SmallLearner other;
    const auto report = replayed({undone}, other);
    ASSERT_TRUE(report.ok() && !report->difference);
    EXPECT_EQ(report->steps, 5U);
}

TEST(Replay, WhatWasSickIsNotComputedAgainAndWhatFollowsIs) {
    Cluster cluster(1);
    cluster.join(2, {1});
    cluster.train(2);
    SmallLearner& sick = cluster.trainees[2].learner;
    const float sound = std::exchange(sick.parameters[5], std::numeric_limits<float>::infinity());
    cluster.train(1);
    sick.parameters[5] = sound;
    cluster.train(2);
    SmallLearner learner;
    const auto report = replayed({cluster.journal(1)}, learner);
    expect_same(report, 4, learner, cluster.trainees[1].learner);
    EXPECT_EQ(report->skipped, 1U);

    // What such a step says of itself is part of the lineage.
    Entries other = cluster.journal(1);
    for (TimedEntry& entry : other)
        if (auto* applied = std::get_if<Applied>(&entry.entry); applied && applied->record.step == 2)
            applied->record.loss = 7.0;
    SmallLearner again;
    const auto differs = replayed({other}, again);
    ASSERT_TRUE(differs.ok()) << differs.error().message;
    EXPECT_THAT(differs->difference.value_or(""), AllOf(HasSubstr("step 2"), HasSubstr("another lineage")));
}

TEST(Replay, WhatAJournalDoesNotSayIsAskedFor) {
    Cluster cluster(1);
    cluster.train(1);
    Entries entries = cluster.journal(1);
    std::erase_if(entries, [](const TimedEntry& entry) { return std::holds_alternative<Adopted>(entry.entry); });
    SmallLearner learner;
    EXPECT_THAT(replayed({entries}, learner).error().message, HasSubstr("which no journal holds"));

    Entries unplaced = cluster.journal(1);
    std::erase_if(unplaced, [](const TimedEntry& entry) { return std::holds_alternative<Restored>(entry.entry); });
    EXPECT_THAT(replayed({unplaced}, learner).error().message, HasSubstr("what came before step 0"));

    cluster.join(2, {1});
    cluster.train(2);
    cluster.lose({2});
    cluster.train(1);
    Entries joiners = cluster.journal(1);
    auto blind = std::make_shared<cluster::View>(*cluster.view);
    blind->redo_known = false;
    for (TimedEntry& entry : joiners)
        if (auto* adopted = std::get_if<Adopted>(&entry.entry); adopted && adopted->view == cluster.view)
            adopted->view = blind;
    EXPECT_THAT(replayed({joiners}, learner).error().message, HasSubstr("is not known to a node that joined later"));
    SmallLearner fresh;
    expect_same(replayed({joiners, cluster.journal(1)}, fresh), 4, fresh, cluster.trainees[1].learner);
}

}  // namespace
}  // namespace chaos::elastic
