#include "state/record.h"

#include <gtest/gtest.h>
#include <functional>
#include <set>

namespace chaos::state {
namespace {

TEST(Record, EveryFieldIsPartOfTheLineage) {
    const Digest before = sha256("run");
    const std::vector<std::function<void(StepRecord&)>> changes = {
        [](StepRecord&) {},
        [](StepRecord& r) { r.step = 1; },
        [](StepRecord& r) { r.view[0] = 1; },
        [](StepRecord& r) { r.pass = 1; },
        [](StepRecord& r) { r.index = 1; },
        [](StepRecord& r) { r.samples = 1; },
        [](StepRecord& r) { r.scalars.learning_rate = 1.0; },
        [](StepRecord& r) { r.scalars.clip_scale = 0.5; },
        [](StepRecord& r) { r.scalars.bias_correction1 = 0.5; },
        [](StepRecord& r) { r.scalars.bias_correction2 = 0.5; },
        [](StepRecord& r) { r.norm = 1.0; },
        [](StepRecord& r) { r.loss = 1.0; },
        [](StepRecord& r) { r.result_hash = 1; },
    };
    std::set<Digest> lineages = {extend_lineage(sha256("another run"), StepRecord{})};
    for (const auto& change : changes) {
        StepRecord record;
        change(record);
        lineages.insert(extend_lineage(before, record));
    }
    EXPECT_EQ(lineages.size(), changes.size() + 1);
}

}  // namespace
}  // namespace chaos::state
