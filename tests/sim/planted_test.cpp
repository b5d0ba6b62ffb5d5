// Proof that the simulator can fail: each of these bugs, planted on purpose, is caught.
#include "base/planted.h"
#include "sim/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace chaos::sim {
namespace {

struct Bug {
    Planted planted;
    const char* name;
    const char* scenario;               // where it shows soonest
    std::vector<std::string> failures;  // what shows it: any of these words
};

class PlantedBug : public testing::TestWithParam<Bug> {};

constexpr std::uint64_t max_seeds = 2000;

// The first run that fails with the bug, and does not fail without it: that would prove nothing.
std::optional<Outcome> first_caught(const Bug& bug) {
    Wishes wishes;
    wishes.scenario = bug.scenario;
    SweepSettings settings;
    settings.end = max_seeds;
    settings.prepare_thread = [&] { planted_bug = bug.planted; };
    while (settings.begin < settings.end) {
        const auto result = sweep(settings, wishes);
        if (!result || !result->first) return std::nullopt;
        if (!run(*make_setup(result->first->seed, wishes), {}).failure) return result->first;
        settings.begin = result->first->seed + 1;
    }
    return std::nullopt;
}

TEST_P(PlantedBug, IsCaughtByWhatItBreaks) {
    const std::optional<Outcome> caught = first_caught(GetParam());
    ASSERT_TRUE(caught) << "not caught in " << max_seeds << " seeds";
    RecordProperty("seed", std::to_string(caught->seed));
    std::printf("caught by seed %llu: %s\n", static_cast<unsigned long long>(caught->seed), caught->failure->c_str());
    EXPECT_TRUE(
        std::any_of(GetParam().failures.begin(), GetParam().failures.end(),
                    [&](const std::string& words) { return caught->failure->find(words) != std::string::npos; }))
        << "expected: " << testing::PrintToString(GetParam().failures);
}

const std::string two_decisions = "but a quorum decided that";

INSTANTIATE_TEST_SUITE_P(
    Sim, PlantedBug,
    testing::Values(Bug{Planted::no_ballot_check, "no_ballot_check", "mixed", {"goes back on the ballot"}},
                    Bug{Planted::no_quorum, "no_quorum", "partition", {two_decisions}},
                    Bug{Planted::stale_epoch_accepted, "stale_epoch_accepted", "mixed", {two_decisions}},
                    Bug{Planted::flush_skipped, "flush_skipped", "churn", {"I3"}},
                    Bug{Planted::restarted_voter_forgets,
                        "restarted_voter_forgets",
                        "mixed",
                        {"forgets its vote", "goes back on the ballot"}},
                    Bug{Planted::fork_without_waiting, "fork_without_waiting", "partition", {"without having waited"}},
                    Bug{Planted::promise_not_kept, "promise_not_kept", "mixed", {"promised to leave to the next view"}},
                    Bug{Planted::signature_unchecked, "signature_unchecked", "liar", {two_decisions, "a storm"}},
                    Bug{Planted::credential_unchecked, "credential_unchecked", "liar", {"an impostor"}},
                    Bug{Planted::holder_ignored, "holder_ignored", "churn", {"I3"}},
                    Bug{Planted::double_vote_ignored, "double_vote_ignored", "liar", {"was not expelled"}},
                    Bug{Planted::result_dropped_early, "result_dropped_early", "churn", {"I3", "stuck"}},
                    Bug{Planted::sample_counted_twice, "sample_counted_twice", "churn", {"I6"}},
                    Bug{Planted::wrong_shard_kept, "wrong_shard_kept", "liar", {"I5"}},
                    Bug{Planted::wrong_step_accepted, "wrong_step_accepted", "mixed", {"another plan"}},
                    Bug{Planted::float_in_plan, "float_in_plan", "mixed", {"another plan"}},
                    Bug{Planted::commit_without_all, "commit_without_all", "mixed", {"I6"}}),
    [](const testing::TestParamInfo<Bug>& bug) { return std::string(bug.param.name); });

}  // namespace
}  // namespace chaos::sim
