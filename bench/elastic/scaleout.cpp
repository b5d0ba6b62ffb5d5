#include "scaleout.h"

#include "cluster.h"

#include <algorithm>
#include <cstdio>

namespace chaos::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double mb = 1e6;
constexpr double most_machine = 0.8;  // busier than that, hosts get less than their quotas: such a run says nothing
// TCP, TLS, greetings, the request and the view that answers it (with a majority's votes), the first shard.
constexpr double set_up_round_trips = 6.0;

// Rates of links are mixed, from 20 to 200 Mbit/s.
const std::vector<std::vector<double>>& all_rates() {
    static const std::vector<std::vector<double>> rates = {
        {50.0, 200.0}, {20.0, 50.0, 100.0, 200.0}, {20.0, 40.0, 80.0, 120.0, 160.0, 200.0}};
    return rates;
}

struct ScaleOut {
    double limit_s = 0.0;
    double took_s = 0.0;
    double fetched = 0.0;  // bytes of shards, over the state's
    double joiner_cores = 0.0;
    double machine = 0.0;
};

Result<ScaleOut> measure(double state_mb, const std::vector<double>& rates, unsigned times) {
    ClusterSpec spec;
    spec.state_bytes = static_cast<std::uint64_t>(state_mb * mb);
    spec.rates_mbit = rates;
    spec.quiet = true;
    CHAOS_TRY(const std::unique_ptr<Cluster> cluster, Cluster::start(spec));
    std::vector<ScaleOut> seen;
    unsigned voided = 0;
    while (seen.size() < times) {
        ScaleOut now;
        CHAOS_TRY(const double limit, cluster->ingress_limit(seconds(5)));
        CHAOS_TRY(const double round_trip, cluster->round_trip());
        now.limit_s = static_cast<double>(cluster->state_bytes()) / limit + set_up_round_trips * round_trip;
        CHAOS_TRY(NodeProcess joiner, cluster->join());
        CHAOS_TRY(const Line asked, joiner.wait_for(is_kind("joins"), seconds(60)));
        const MachineUse use;
        const double cpu_before = joiner.cpu_seconds();
        const milliseconds patience(static_cast<std::int64_t>(10e3 * now.limit_s) + 30'000);
        CHAOS_TRY(const Line synced, joiner.wait_for(is_kind("synced"), patience));
        now.took_s = synced.time - asked.time;
        now.joiner_cores = (joiner.cpu_seconds() - cpu_before) / now.took_s;
        now.machine = use.share();
        std::fprintf(stderr, "scale-out of %.0f MB from %zu: %.2f s, limit %.2f s (%.1f ms a round trip), %.2f cores\n",
                     state_mb, rates.size(), now.took_s, now.limit_s, round_trip * 1e3, now.joiner_cores);
        CHAOS_TRY(const nlohmann::json status, joiner.status());
        now.fetched = status.at("join").at("shard_bytes").get<double>() / static_cast<double>(cluster->state_bytes());
        CHAOS_CHECK(cluster->lose(joiner));
        if (now.machine <= most_machine) {
            seen.push_back(now);
        } else if (++voided > times) {
            return Error{"this machine is too busy: " + fixed(100.0 * now.machine, 0) + " % of it, time and again"};
        }
    }
    std::ranges::sort(seen, {}, [](const ScaleOut& one) { return one.took_s / one.limit_s; });
    return seen[seen.size() / 2];
}

}  // namespace

Result<Table> measure_scale_out(const Wish& wish, std::vector<Figure>& figures) {
    Table table{.head = {"scale-out", "neighbours", "Mbit/s", "limit", "took", "ratio", "fetched", "joiner's cores",
                         "% machine"},
                .rows = {}};
    double worst = 0.0;
    for (const double state_mb : wish.quick ? std::vector{94.0} : std::vector{94.0, 537.0}) {
        if (wish.state_mb.value_or(state_mb) != state_mb) continue;
        for (const std::vector<double>& rates : all_rates()) {
            if (wish.neighbours.value_or(rates.size()) != rates.size()) continue;
            if (wish.quick && rates.size() == 6) continue;
            CHAOS_TRY(const ScaleOut seen, measure(state_mb, rates, wish.times.value_or(wish.quick ? 1 : 3)));
            double sum = 0.0;
            for (const double rate : rates) sum += rate;
            const double ratio = seen.took_s / seen.limit_s;
            worst = std::max(worst, ratio);
            table.rows.push_back({fixed(state_mb, 0) + " MB", std::to_string(rates.size()), fixed(sum, 0),
                                  fixed(seen.limit_s, 2) + " s", fixed(seen.took_s, 2) + " s", fixed(ratio, 3),
                                  fixed(seen.fetched, 3), fixed(seen.joiner_cores, 2), fixed(100.0 * seen.machine, 0)});
        }
    }
    figures.push_back({"scaleout_vs_limit", worst});
    return table;
}

}  // namespace chaos::bench
