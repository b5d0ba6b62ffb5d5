// Proof that the simulator can fail: each of these bugs, planted on purpose, is caught.
#include "base/planted.h"
#include "sim/sweep.h"

#include <gtest/gtest.h>

#include <string>

namespace chaos::sim {
namespace {

struct Bug {
    Planted planted;
    const char* name;
    const char* scenario;  // where it shows soonest
};

class PlantedBug : public testing::TestWithParam<Bug> {};

constexpr std::uint64_t max_seeds = 2000;

TEST_P(PlantedBug, IsCaught) {
    Wishes wishes;
    wishes.scenario = GetParam().scenario;
    SweepSettings settings;
    settings.end = max_seeds;
    settings.prepare_thread = [] { planted_bug = GetParam().planted; };
    const auto result = sweep(settings, wishes);
    ASSERT_TRUE(result);
    ASSERT_TRUE(result->first) << "not caught in " << max_seeds << " seeds";
    RecordProperty("seed", std::to_string(result->first->seed));
    std::printf("caught by seed %llu: %s\n", static_cast<unsigned long long>(result->first->seed),
                result->first->failure->c_str());
}

INSTANTIATE_TEST_SUITE_P(Sim, PlantedBug,
                         testing::Values(Bug{Planted::no_ballot_check, "no_ballot_check", "mixed"},
                                         Bug{Planted::no_quorum, "no_quorum", "partition"},
                                         Bug{Planted::stale_epoch_accepted, "stale_epoch_accepted", "mixed"},
                                         Bug{Planted::flush_skipped, "flush_skipped", "churn"},
                                         Bug{Planted::restarted_voter_forgets, "restarted_voter_forgets", "mixed"},
                                         Bug{Planted::fork_without_waiting, "fork_without_waiting", "partition"},
                                         Bug{Planted::promise_not_kept, "promise_not_kept", "mixed"},
                                         Bug{Planted::signature_unchecked, "signature_unchecked", "liar"},
                                         Bug{Planted::holder_ignored, "holder_ignored", "churn"},
                                         Bug{Planted::double_vote_ignored, "double_vote_ignored", "liar"},
                                         Bug{Planted::result_dropped_early, "result_dropped_early", "churn"},
                                         Bug{Planted::sample_counted_twice, "sample_counted_twice", "churn"},
                                         Bug{Planted::wrong_shard_kept, "wrong_shard_kept", "liar"},
                                         Bug{Planted::wrong_step_accepted, "wrong_step_accepted", "mixed"},
                                         Bug{Planted::float_in_plan, "float_in_plan", "mixed"},
                                         Bug{Planted::commit_without_all, "commit_without_all", "mixed"}),
                         [](const testing::TestParamInfo<Bug>& bug) { return std::string(bug.param.name); });

}  // namespace
}  // namespace chaos::sim
