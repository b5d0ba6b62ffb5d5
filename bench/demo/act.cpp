#include "act.h"

#include "nodes/pace.h"

#include <algorithm>

namespace chaos::bench {
namespace {

constexpr double look_back_s = 3.0;  // for what is usual
constexpr std::chrono::seconds patience{60};

double longest_round_trip_s(const nlohmann::json& status) {
    double longest = 0.0;
    for (const auto& connection : status.at("connections"))
        longest = std::max(longest, connection.at("round_trip_us").get<double>() / 1e6);
    return longest;
}

}  // namespace

Result<Act> Act::begin(LocalCluster& cluster, std::vector<std::string> who_go_on) {
    Act act(cluster, std::move(who_go_on));
    for (const std::string& name : act.names_) {
        CHAOS_TRY(const nlohmann::json status, cluster.node(name).status());
        act.before_[name] = {.handling_us = status.at("handling_cpu_us"), .epoch = status.at("epoch")};
    }
    act.begun_ = now();
    return act;
}

Result<Cost> Act::end(std::uint64_t more_steps) {
    std::uint64_t until = 0;
    for (const std::string& name : names_) {
        CHAOS_TRY(const nlohmann::json status, cluster_.node(name).status());
        until = std::max(until, status.at("step").get<std::uint64_t>() + more_steps);
    }
    Cost cost;
    for (const std::string& name : names_) {
        NodeProcess& node = cluster_.node(name);
        CHAOS_CHECK(node.wait_for(trained_step(until), patience));
        CHAOS_TRY(const nlohmann::json status, node.status());
        const Before& before = before_.at(name);
        const auto views = std::max<std::uint64_t>(status.at("epoch").get<std::uint64_t>() - before.epoch, 1);
        const double handling_us = status.at("handling_cpu_us").get<double>() - before.handling_us;
        cost.handling_ms = std::max(cost.handling_ms, handling_us / 1e3 / static_cast<double>(views));
        cost.round_trip_s = std::max(cost.round_trip_s, longest_round_trip_s(status));
        CHAOS_TRY(const std::vector<StepTime> steps, step_times(node.dir()));
        const double usual = pace_between(steps, begun_ - look_back_s, begun_).step_s;
        const double longest = pace_between(steps, begun_, now()).longest_s;
        cost.step_s = std::max(cost.step_s, usual);
        cost.longest_s = std::max(cost.longest_s, longest);
        cost.stall_s = std::max(cost.stall_s, longest - usual);
    }
    return cost;
}

}  // namespace chaos::bench
