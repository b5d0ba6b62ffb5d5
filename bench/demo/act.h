// What an event costs those who go on: the CPU time in which they handle it, and how long their steps stood still.
#pragma once

#include "nodes/local_cluster.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace chaos::bench {

struct Cost {
    double handling_ms = 0.0;   // CPU time per view, of the node that it took the longest
    double stall_s = 0.0;       // the longest pause between two steps, beyond a usual step; of the worst node
    double step_s = 0.0;        // a usual one
    double longest_s = 0.0;     // between two steps
    double round_trip_s = 0.0;  // the longest between two nodes
};

// From an event until the nodes that go on have done some more steps.
class Act {
public:
    static Result<Act> begin(LocalCluster& cluster, std::vector<std::string> who_go_on);
    // Returns once all of them have done so many more steps.
    [[nodiscard]] Result<Cost> end(std::uint64_t more_steps);
    [[nodiscard]] double since() const { return begun_; }

private:
    Act(LocalCluster& cluster, std::vector<std::string> names) : cluster_(cluster), names_(std::move(names)) {}

    LocalCluster& cluster_;
    std::vector<std::string> names_;
    double begun_ = 0.0;
    struct Before {
        double handling_us = 0.0;
        std::uint64_t epoch = 0;
    };
    std::map<std::string, Before> before_;
};

}  // namespace chaos::bench
