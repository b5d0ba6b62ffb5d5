#include "sim/run.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

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

// One seed is one run on every machine and with every compiler, and not only twice in one process. A change of the
// protocol, the scenarios or the trace changes these: run this test, see that the runs are right, and copy the lines
// that it prints.
struct Golden {
    std::uint64_t seed;
    std::uint64_t trace;
    std::uint64_t state;
};
constexpr Golden golden[] = {
    {3, 0x43745c7a54f6ff0a, 0xaace28e62b050dc6},
    {40, 0xed291c0a4ec702e7, 0x70f03d38392fba0b},
    {1234, 0xdfd8167efdf2164b, 0xe0b25c7443a27a8b},
};

TEST(Run, OneSeedIsOneRunEverywhere) {
    for (const Golden& expected : golden) {
        const sim::Setup setup = *make_setup(expected.seed, {});
        World world(setup, {.trace_hash = true});
        const Outcome outcome = run(world, setup);
        EXPECT_FALSE(outcome.failure) << *outcome.failure;
        std::array<char, 80> line{};
        std::snprintf(line.data(), line.size(), "    {%llu, 0x%016llx, 0x%016llx},",
                      static_cast<unsigned long long>(expected.seed),
                      static_cast<unsigned long long>(world.trace_hash()),
                      static_cast<unsigned long long>(world.state_hash()));
        EXPECT_TRUE(world.trace_hash() == expected.trace && world.state_hash() == expected.state)
            << "the run of seed " << expected.seed << " is another one; it is now\n"
            << line.data();
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
