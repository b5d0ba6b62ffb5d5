#include "stall.h"

#include "cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace chaos::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t members = 3;
constexpr std::size_t steps_before = 5;

// When steps ended, by what a node told.
std::vector<double> step_times(NodeProcess& node) {
    std::vector<double> times;
    for (const Line& line : node.lines())
        if (is_kind("trained")(line.content)) times.push_back(line.time);
    return times;
}

struct Join {
    double step_s = 0.0;   // of the steps before
    double stall_s = 0.0;  // of all members' steps until it is let in, each
    double during_s = 0.0;
    double waited_s = 0.0;
    double best_s = 0.0;        // node-seconds
    bool waiting_best = false;  // that is, all wait until the state is copied
    [[nodiscard]] double lost_s() const { return static_cast<double>(members) * stall_s + waited_s; }
};

Result<Join> join_once(Cluster& cluster, double rate_mbit) {
    for (std::size_t i = 0; i < members; ++i)
        CHAOS_CHECK(cluster.box().set_rate(donor_host(i), joiner_host, rate_mbit));
    CHAOS_TRY(const double bytes_per_s, cluster.ingress_limit(seconds(4)));
    NodeProcess& witness = cluster.donors()[0];
    const std::size_t first = step_times(witness).size();
    while (step_times(witness).size() < first + steps_before + 1)
        CHAOS_CHECK(witness.wait_for(is_kind("trained"), seconds(60), witness.lines().size()));
    CHAOS_TRY(NodeProcess joiner, cluster.join());
    CHAOS_TRY(const Line asked, joiner.wait_for(is_kind("joins"), seconds(60)));
    CHAOS_TRY(const Line synced, joiner.wait_for(is_kind("synced"), seconds(120)));
    CHAOS_TRY(const Line let_in, joiner.wait_for(is_kind("joined"), seconds(60)));
    // The step that was under way then is counted, too.
    CHAOS_CHECK(witness.wait_for(is_kind("trained"), seconds(60), witness.lines().size()));
    Join join;
    std::vector<double> before;
    double steps_during = 0.0;
    const std::vector<double> ends = step_times(witness);
    for (std::size_t i = first + 1; i < ends.size(); ++i) {
        const double took = ends[i] - ends[i - 1];
        if (ends[i] <= asked.time) {
            before.push_back(took);
        } else if (ends[i - 1] <= let_in.time) {
            join.during_s += took;
            steps_during += 1.0;
        }
    }
    join.step_s = median(before);
    join.stall_s = std::max(join.during_s - steps_during * join.step_s, 0.0);
    join.waited_s = synced.time - asked.time;
    const double state = static_cast<double>(cluster.state_bytes());
    const double result = state / 3.0;  // parameters and two slots
    const double stop_and_copy = static_cast<double>(members + 1) * state / bytes_per_s;
    const double share = result / (bytes_per_s * join.step_s);
    const double zero_stall =
        share < 1.0 ? -join.step_s * state / result * std::log(1.0 - share) : std::numeric_limits<double>::infinity();
    join.best_s = std::min(stop_and_copy, zero_stall);
    join.waiting_best = stop_and_copy < zero_stall;
    CHAOS_CHECK(cluster.lose(joiner));
    CHAOS_CHECK(cluster.all_train());
    return join;
}

}  // namespace

Result<Table> measure_stall(const Wish& wish, std::vector<Figure>& figures) {
    ClusterSpec spec;
    spec.state_bytes = 60'000'000;
    spec.rates_mbit = std::vector<double>(members, 100.0);
    spec.donor_cpus = 0.3;
    spec.batch = 9;
    spec.per_sample = milliseconds(650);
    CHAOS_TRY(const std::unique_ptr<Cluster> cluster, Cluster::start(spec));
    CHAOS_CHECK(cluster->all_train());
    Table table{.head = {"a join at", "a step", "stall", "of the steps", "joiner waited", "lost", "at best", "ratio"},
                .rows = {}};
    double stalled = 0.0;
    double during = 0.0;
    double worst = 0.0;
    for (const double rate : wish.quick ? std::vector{80.0} : std::vector{10.0, 20.0, 40.0, 60.0, 100.0, 160.0}) {
        if (wish.rate_mbit.value_or(rate) != rate) continue;
        for (unsigned i = 0; i < wish.times.value_or(wish.quick ? 1 : 3); ++i) {
            CHAOS_TRY(const Join join, join_once(*cluster, rate));
            if (!join.waiting_best) {
                stalled += join.stall_s;
                during += join.during_s;
            }
            worst = std::max(worst, join.lost_s() / join.best_s);
            table.rows.push_back({"3 x " + fixed(rate, 0) + " Mbit/s", fixed(join.step_s, 2) + " s",
                                  fixed(join.stall_s * 1e3, 0) + " ms",
                                  fixed(100.0 * join.stall_s / join.during_s, 1) + " %", fixed(join.waited_s, 2) + " s",
                                  fixed(join.lost_s(), 2) + " node-s", fixed(join.best_s, 2) + " node-s",
                                  fixed(join.lost_s() / join.best_s, 2)});
            std::fprintf(stderr, "a join at 3 x %.0f Mbit/s: lost %.2f node-s, at best %.2f\n", rate, join.lost_s(),
                         join.best_s);
        }
    }
    figures.push_back({"join_stall_share", during > 0.0 ? stalled / during : 0.0});
    figures.push_back({"join_lost_vs_best", worst});
    return table;
}

}  // namespace chaos::bench
