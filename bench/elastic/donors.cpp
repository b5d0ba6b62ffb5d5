#include "donors.h"

#include "base/random.h"
#include "cluster.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace chaos::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

enum class Loss : std::uint8_t { killed, frozen, cut };

std::string name_of(Loss loss) {
    switch (loss) {
        case Loss::killed:
            return "killed";
        case Loss::frozen:
            return "frozen";
        case Loss::cut:
            return "cut";
    }
    return "";
}

struct Trial {
    double took_s = 0.0;   // from the request to the verified state
    double fetched = 0.0;  // bytes that came in, over the state and the results of steps meanwhile
};

// Waits until the joiner has this share of the shards; false: it had all before it was seen.
Result<bool> wait_for_share(NodeProcess& joiner, double share) {
    const double limit = now() + 60.0;
    while (now() < limit) {
        CHAOS_TRY(const nlohmann::json status, joiner.status());
        if (status.contains("join")) {
            const nlohmann::json& join = status.at("join");
            const double have = join.at("shards").get<double>() / join.at("of").get<double>();
            if (have == 1.0) return false;
            if (have >= share) return true;
        }
    }
    return Error{"the joiner gets no shards: " + joiner.last_words()};
}

Result<Trial> try_once(Cluster& cluster, Loss loss, std::uint64_t seed) {
    const auto victim = static_cast<std::size_t>(random_bits(seed, 1, 0) % cluster.donors().size());
    const double share = 0.1 + 0.7 * static_cast<double>(random_bits(seed, 2, 0) % 1000) / 1000.0;
    CHAOS_TRY(NodeProcess joiner, cluster.join());
    CHAOS_TRY(const Line asked, joiner.wait_for(is_kind("joins"), seconds(60)));
    CHAOS_TRY(const bool in_time, wait_for_share(joiner, share));
    if (!in_time) return Error{"the joiner was too fast to lose a donor in time"};
    NodeProcess& donor = cluster.donors()[victim];
    if (loss == Loss::killed) donor.kill();
    if (loss == Loss::frozen) donor.freeze();
    if (loss == Loss::cut) CHAOS_CHECK(cluster.box().cut(donor_host(victim), joiner_host));
    CHAOS_TRY(const Line synced, joiner.wait_for(is_kind("synced"), seconds(60)));
    CHAOS_TRY(const nlohmann::json status, joiner.status());
    if (!status.contains("join")) return Error{"the joiner was let in before it could be asked"};
    const double results = status.at("join").at("result_bytes").get<double>();
    const double state = static_cast<double>(cluster.state_bytes());
    Trial trial;
    trial.took_s = synced.time - asked.time;
    trial.fetched = status.at("join").at("received_bytes").get<double>() / (state + results);
    joiner.kill();
    joiner.process().wait();
    if (loss == Loss::frozen) donor.thaw();
    if (loss == Loss::cut) CHAOS_CHECK(cluster.box().heal(donor_host(victim), joiner_host));
    if (loss == Loss::killed) CHAOS_CHECK(cluster.restart(victim));
    CHAOS_CHECK(cluster.all_train());
    return trial;
}

}  // namespace

Result<Table> measure_lost_donors(const Wish& wish, std::vector<Figure>& figures) {
    const unsigned times = wish.times.value_or(wish.quick ? 3 : 20);
    const char* wished = std::getenv("CHAOS_SEED");
    const std::uint64_t seed = wished != nullptr ? std::stoull(wished) : std::random_device{}();
    std::printf("seed %llu (CHAOS_SEED repeats it)\n", static_cast<unsigned long long>(seed));
    ClusterSpec spec;
    spec.state_bytes = 40'000'000;
    spec.rates_mbit = {40.0, 60.0, 80.0};
    spec.donor_cpus = 0.3;
    spec.per_sample = milliseconds(500);
    CHAOS_TRY(std::unique_ptr<Cluster> cluster, Cluster::start(spec));
    Table table{.head = {"a donor is", "times", "joined", "took p50", "longest", "fetched p50", "most"}, .rows = {}};
    double worst = 0.0;
    unsigned not_joined = 0;
    for (const Loss loss : {Loss::killed, Loss::frozen, Loss::cut}) {
        std::vector<double> took;
        std::vector<double> fetched;
        for (unsigned i = 0; i < times; ++i) {
            const Result<Trial> trial = try_once(*cluster, loss, seed + i);
            if (!trial) {
                std::fprintf(stderr, "bench elastic: a donor is %s, seed %llu: %s\n", name_of(loss).c_str(),
                             static_cast<unsigned long long>(seed + i), trial.error().message.c_str());
                ++not_joined;
                CHAOS_TRY(cluster, Cluster::start(spec));  // what state it is in now is anybody's guess
                continue;
            }
            std::fprintf(stderr, "a donor is %s, %u of %u: %.2f s, fetched %.3f\n", name_of(loss).c_str(), i + 1, times,
                         trial->took_s, trial->fetched);
            took.push_back(trial->took_s);
            fetched.push_back(trial->fetched);
        }
        if (took.empty()) continue;
        worst = std::max(worst, std::ranges::max(fetched));
        table.rows.push_back({name_of(loss), std::to_string(times), std::to_string(took.size()),
                              fixed(median(took), 2) + " s", fixed(std::ranges::max(took), 2) + " s",
                              fixed(median(fetched), 3), fixed(std::ranges::max(fetched), 3)});
    }
    figures.push_back({"refetch_ratio", worst});
    figures.push_back({"joins_failed", static_cast<double>(not_joined)});
    return table;
}

}  // namespace chaos::bench
