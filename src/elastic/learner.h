// What is trained, as a member's steps (steps.h) see it. Called by the compute thread, one call at a time.
#pragma once

#include "base/result.h"
#include "cluster/view.h"
#include "state/update.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace chaos::elastic {

using cluster::NodeId;
using cluster::SampleRange;
using cluster::ViewPtr;

class Learner {
public:
    // One member's part in a step.
    struct Task {
        std::uint64_t step = 0;
        ViewPtr view;                       // under which it is done
        NodeId self;                        // whose part it is
        bool first = true;                  // nothing of it was computed before: `into` holds zeros
        std::span<const SampleRange> more;  // of the step's batch: to be added to what was
        // Told while it computes: from here on, up to the end of the gradient, `into` is final. Each time less than
        // before.
        std::function<void(std::size_t from)> ready = [](std::size_t) {};
    };
    virtual ~Learner() = default;

    // Adds the part of R(step) that these samples make to `into`, range by range in their order (so that whoever
    // computes the same gets the same bits), and brings what else R(step) says of this member up to date. Called at
    // least once per view under which a step is done, even without samples. How long the samples took, without what
    // else there was to do. An error: this node cannot go on.
    [[nodiscard]] virtual Result<std::chrono::nanoseconds> compute(const Task& task, std::span<float> into) = 0;
    // Applies R(step), which came about under `view`, and whose digest this is. The lineage of the state then.
    [[nodiscard]] virtual cluster::Name apply(std::uint64_t step, const cluster::View& view,
                                              std::span<const float> result, const state::ResultDigest& digest) = 0;
};

}  // namespace chaos::elastic
