#include "sim/report.h"

#include <gmock/gmock.h>

namespace chaos::sim {
namespace {

TEST(Report, ShowsTheRunAndNeedsNothingElse) {
    Wishes wishes;
    wishes.scenario = "churn";
    wishes.nodes = 5;
    const sim::Setup setup = *make_setup(4, wishes);
    World world(setup, {.timeline = true});
    const Outcome outcome = run(world, setup);
    const std::string page = report_page(world, outcome);
    EXPECT_THAT(page, testing::HasSubstr("<svg"));
    EXPECT_THAT(page, testing::HasSubstr("active members"));
    EXPECT_THAT(page, testing::HasSubstr(describe(setup.faults.front())));
    EXPECT_THAT(page, testing::Not(testing::HasSubstr("http")));
    EXPECT_THAT(page, testing::Not(testing::HasSubstr("<script")));
}

}  // namespace
}  // namespace chaos::sim
