// ./dev bench plans [--quick]: how good plans are, against oracles that look at everything, and how long they take.
#include "base/cpu_time.h"
#include "plan/shard_oracle.h"
#include "plan/sync_oracle.h"
#include "report.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace chaos::bench {
namespace {

constexpr std::uint64_t seed = 20'240'501;

struct Report {
    Table table{{"what", "value", "wanted"}, {}};
    std::vector<Figure> figures;

    void add(const std::string& name, double value, int digits, const std::string& wanted) {
        table.rows.push_back({name, fixed(value, digits), wanted});
        figures.push_back({name, value});
    }
};

// The thread's CPU time, as DESIGN.md defines event handling: others on the machine do not count.
double thread_ms() {
    return static_cast<double>(thread_cpu_ns()) * 1e-6;
}

// What once(0), once(1), ... take.
struct Times {
    std::vector<double> ms;

    template <class Once>
    static Times of(int repeats, Once&& once) {
        Times times;
        for (int i = 0; i < repeats; ++i) {
            const double start = thread_ms();
            once(i);
            times.ms.push_back(thread_ms() - start);
        }
        std::sort(times.ms.begin(), times.ms.end());
        return times;
    }

    [[nodiscard]] double percentile(std::size_t p) const { return ms[std::min(ms.size() * p / 100, ms.size() - 1)]; }
};

void compare_shard_plans(int instances, Report& report) {
    std::mt19937_64 random(seed);
    int suboptimal = 0;
    for (int i = 0; i < instances; ++i) {
        const plan::ShardRequest request = plan::test::random_shard_request(random, i % 2 == 0);
        const auto plan = plan::plan_shards(request);
        const auto best = plan::test::ShardOracle(request).best_ns();
        if (plan.ok() != best.has_value() || (plan.ok() && plan->predicted_ns != *best)) ++suboptimal;
    }
    report.add("shard_plan_suboptimal", suboptimal, 0, "0 of " + std::to_string(instances));
}

plan::ShardRequest large_shard_request(std::mt19937_64& random, int donors, int joiners) {
    plan::ShardRequest request;
    request.state_bytes = 10'000'000'000;
    for (int j = 0; j < joiners; ++j) request.joiners.emplace_back().id = 1000 + static_cast<std::uint64_t>(j);
    for (int i = 0; i < donors; ++i) {
        const auto id = static_cast<std::uint64_t>(i);
        request.donors.push_back({.id = id, .overhead_ns = random() % 200'000});
        request.donors.back().egress_bytes_per_s = 100'000'000 + random() % 1'000'000'000;
        for (plan::ShardJoiner& joiner : request.joiners) {
            joiner.links.push_back({id, 1'000'000 + random() % 300'000'000, random() % 100'000'000});
        }
    }
    return request;
}

void time_shard_plans(int repeats, Report& report) {
    std::mt19937_64 random(seed);
    for (const int joiners : {1, 8}) {
        std::vector<plan::ShardRequest> requests;
        for (int i = 0; i < 16; ++i) requests.push_back(large_shard_request(random, 64, joiners));
        const Times times = Times::of(joiners == 1 ? repeats : repeats / 8, [&](int i) {
            const auto plan = plan::plan_shards(requests[static_cast<std::size_t>(i) % requests.size()]);
            if (!plan.ok()) std::printf("refused: %s\n", plan.error().message.c_str());
        });
        const std::string name = "shard_plan_ms_64_donors_10gb" + std::string(joiners == 1 ? "" : "_8_joiners");
        report.add(name + "_p50", times.percentile(50), 3, joiners == 1 ? "<= 1" : "");
        report.add(name + "_p99", times.percentile(99), 3, joiners == 1 ? "<= 1" : "");
    }
}

void compare_sync_plans(int rounds, Report& report) {
    std::mt19937_64 random(seed);
    double worst_best = 0.0;
    double sum_best = 0.0;
    double worst_plain = 0.0;
    int instances = 0;
    for (int round = 0; round < rounds; ++round) {
        for (const std::uint32_t members : {3U, 4U, 5U, 6U}) {
            for (int kind = 0; kind < 8; ++kind) {
                const auto extra = static_cast<std::uint32_t>(random() % 7);
                const plan::SyncRequest request = plan::test::random_sync_request(
                    random, {members, extra, (kind & 1) != 0, (kind & 2) != 0, (kind & 4) != 0});
                const auto plan = plan::plan_sync(request);
                const plan::test::SyncOracle oracle(request);
                const double ns = static_cast<double>(plan->predicted_ns);
                worst_best = std::max(worst_best, ns / oracle.best_ns());
                sum_best += ns / oracle.best_ns();
                worst_plain = std::max(worst_plain, ns / std::min(oracle.best_tree_ns(), oracle.best_ring_ns()));
                ++instances;
            }
        }
    }
    report.add("sync_plan_vs_oracle", worst_best, 4, "<= 1.05, the worst of " + std::to_string(instances));
    report.add("sync_plan_vs_oracle_mean", sum_best / instances, 4, "");
    report.add("sync_plan_vs_ring_tree", worst_plain, 6, "<= 1, the worst");
}

// Overlays with too many trees for the planner to look at each.
void compare_larger_sync_plans(int instances, Report& report) {
    std::mt19937_64 random(seed);
    double worst = 0.0;
    double sum = 0.0;
    for (int i = 0; i < instances; ++i) {
        const plan::SyncRequest request =
            plan::test::random_sync_request(random, {7, 9, (i & 1) != 0, (i & 2) != 0, (i & 4) != 0});
        const double ratio =
            static_cast<double>(plan::plan_sync(request)->predicted_ns) / plan::test::SyncOracle(request).best_ns();
        worst = std::max(worst, ratio);
        sum += ratio;
    }
    report.add("sync_plan_vs_oracle_7_members", worst, 4, "the worst of " + std::to_string(instances));
    report.add("sync_plan_vs_oracle_7_members_mean", sum / instances, 4, "");
}

void time_sync_plans(int repeats, Report& report) {
    struct Size {
        std::uint32_t members;
        std::uint32_t links;
        const char* wanted;
    };
    for (const Size& size : {Size{5, 10, "<= 1"}, Size{8, 28, "<= 1"}, Size{16, 40, "<= 1"}, Size{16, 120, "<= 1"},
                             Size{100, 400, "<= 0.4"}, Size{1000, 4000, "<= 2"}}) {
        std::mt19937_64 random(seed);
        std::vector<plan::SyncRequest> requests;
        double ratio = 0.0;
        for (int i = 0; i < 16; ++i) {
            requests.push_back(plan::test::random_sync_request(
                random, {size.members, size.links - size.members + 1, i % 4 == 1, i % 4 == 2, true}));
            const auto plan = plan::plan_sync(requests.back());
            ratio += static_cast<double>(plan->predicted_ns) / static_cast<double>(plan->bound_ns) / 16;
        }
        const Times times = Times::of(repeats, [&](int i) {
            const auto plan = plan::plan_sync(requests[static_cast<std::size_t>(i) % requests.size()]);
            if (!plan.ok()) std::printf("refused: %s\n", plan.error().message.c_str());
        });
        const std::string name =
            "_" + std::to_string(size.members) + "_members_" + std::to_string(size.links) + "_links";
        report.add("sync_plan_ms" + name + "_p50", times.percentile(50), 3, size.wanted);
        report.add("sync_plan_ms" + name + "_p99", times.percentile(99), 3, "");
        report.add("sync_plan_vs_bound" + name, ratio, 3, "");
    }
}

}  // namespace
}  // namespace chaos::bench

int main(int count, char** arguments) {
    using namespace chaos::bench;
    const bool quick = count == 2 && std::string(arguments[1]) == "--quick";
    if (count > 2 || (count == 2 && !quick)) {
        std::fprintf(stderr, "usage: bench_plans [--quick]\n");
        return 1;
    }
    const double load = load_average();
    Report report;
    compare_shard_plans(10'000, report);
    time_shard_plans(quick ? 200 : 2000, report);
    compare_sync_plans(quick ? 20 : 300, report);
    compare_larger_sync_plans(quick ? 40 : 600, report);
    time_sync_plans(quick ? 100 : 1000, report);
    std::printf("%s%s\n", table_text(report.table).c_str(), json_line("plans", load, report.figures).c_str());
    return 0;
}
