#include "sim/run.h"

#include <gtest/gtest.h>

namespace chaos::sim {
namespace {

std::string figures(const Outcome& outcome) {
    const Statistics& s = outcome.statistics;
    return std::to_string(s.ended_at) + " " + std::to_string(s.events) + " " + std::to_string(s.messages) + " " +
           std::to_string(s.bytes) + " " + std::to_string(s.steps) + " " + std::to_string(s.views);
}

TEST(Run, OneSeedIsOneRun) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const sim::Setup setup = *make_setup(seed, {});
        EXPECT_EQ(figures(run(setup, {})), figures(run(setup, {}))) << "seed " << seed;
    }
}

TEST(Run, CalmClustersTrain) {
    for (const Host nodes : {1U, 2U, 5U, 17U}) {
        Wishes wishes;
        wishes.scenario = "calm";
        wishes.nodes = nodes;
        const Outcome outcome = run(*make_setup(nodes, wishes), {});
        EXPECT_FALSE(outcome.failure) << *outcome.failure;
        EXPECT_GT(outcome.statistics.steps, 10U);
    }
}

TEST(Run, EveryScenarioHasASetup) {
    for (const std::string_view name : scenario_names()) {
        Wishes wishes;
        wishes.scenario = name;
        const auto setup = make_setup(1, wishes);
        ASSERT_TRUE(setup) << name;
        EXPECT_EQ(setup->speeds.size(), setup->hosts) << name;
    }
    Wishes wrong;
    wrong.scenario = "chrun";
    EXPECT_FALSE(make_setup(1, wrong));
}

}  // namespace
}  // namespace chaos::sim
