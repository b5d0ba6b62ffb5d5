// ./dev bench events [--quick]: what a change of membership costs each member, and how fast it spreads.
#include "base/assert.h"
#include "base/result.h"
#include "report.h"
#include "town.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

namespace chaos::bench {
namespace {

constexpr TownEvent all_events[] = {TownEvent::scale_in, TownEvent::connect_link, TownEvent::disconnect_link,
                                    TownEvent::failure};

const char* name_of(TownEvent event) {
    switch (event) {
        case TownEvent::scale_in:
            return "scale-in";
        case TownEvent::connect_link:
            return "connect-link";
        case TownEvent::disconnect_link:
            return "disconnect-link";
        case TownEvent::failure:
            return "node failure";
    }
    return "";
}

template <class T>
double percentile(std::vector<T>& values, std::size_t p) {
    CHAOS_ASSERT(!values.empty());
    std::ranges::sort(values);
    return static_cast<double>(values[std::min(values.size() * p / 100, values.size() - 1)]);
}

struct Measured {
    std::vector<std::uint64_t> cpu_ns;
    std::vector<std::uint64_t> messages;
    std::vector<std::uint64_t> bytes;
    std::vector<double> spreading;
    std::uint32_t dropped = 0;  // events that were not over within a minute
};

// Fails when fewer than `repeats` events came to their end: what is missing would not be seen in the figures.
Result<Measured> measure(const TownSettings& settings, TownEvent event, std::uint32_t repeats) {
    Measured result;
    Town town(settings);
    std::uint32_t done = 0;
    while (done < repeats && done + result.dropped < 4 * repeats) {
        const std::optional<Handling> handling = town.happen(event);
        if (!handling || handling->costs.empty()) {
            ++result.dropped;
            continue;
        }
        ++done;
        for (const Cost& cost : handling->costs) {
            result.cpu_ns.push_back(cost.cpu_ns);
            result.messages.push_back(cost.messages);
            result.bytes.push_back(cost.bytes);
        }
        result.spreading.push_back(static_cast<double>(handling->spreading) /
                                   static_cast<double>(handling->spreading_limit));
    }
    if (done < repeats)
        return Error{"of " + std::to_string(repeats) + " events of the kind " + name_of(event) + " among " +
                     std::to_string(settings.members) + " members (seed " + std::to_string(settings.seed) + "), only " +
                     std::to_string(done) + " came to their end; " + std::to_string(result.dropped) + " were dropped"};
    return result;
}

Result<void> run(bool quick) {
    const double load = load_average();
    Table table{{"members", "event", "signatures", "CPU p50 us", "CPU p99 us", "messages", "bytes", "dropped"}, {}};
    std::vector<Figure> figures;
    for (const bool real : {false, true}) {
        for (const std::uint32_t members : {10U, 100U, 1000U}) {
            if (quick && members == 1000 && real) continue;
            std::vector<std::uint64_t> all;
            for (const TownEvent event : all_events) {
                const std::uint32_t repeats = members == 1000 ? (quick ? 1 : 5) : members == 100 ? (quick ? 5 : 20) : 4;
                CHAOS_TRY(Measured measured,
                          measure({.members = members, .seed = members, .real_signatures = real}, event, repeats));
                all.insert(all.end(), measured.cpu_ns.begin(), measured.cpu_ns.end());
                table.rows.push_back({std::to_string(members), name_of(event), real ? "Ed25519" : "stand-in",
                                      fixed(percentile(measured.cpu_ns, 50) / 1000, 1),
                                      fixed(percentile(measured.cpu_ns, 99) / 1000, 1),
                                      fixed(percentile(measured.messages, 50), 0),
                                      fixed(percentile(measured.bytes, 50), 0), std::to_string(measured.dropped)});
            }
            const std::string suffix = std::to_string(members) + (real ? "_ed25519" : "");
            if (members >= 100) figures.push_back({"handling_p99_us_" + suffix, percentile(all, 99) / 1000});
        }
    }
    std::printf("%s\n", table_text(table).c_str());

    // Spreading: links of 20 to 200 ms, planned changes.
    std::vector<double> ratios;
    std::vector<double> failures;
    std::uint32_t dropped = 0;
    for (std::uint64_t seed = 1; seed <= (quick ? 5U : 20U); ++seed) {
        for (const TownEvent event : all_events) {
            const TownSettings wan{.members = 24,
                                   .degree = 4,
                                   .delay_low = 20 * cluster::millisecond,
                                   .delay_high = 200 * cluster::millisecond,
                                   .step_time = 2 * cluster::second,
                                   .seed = seed,
                                   .real_signatures = false,
                                   .plans = false};
            std::vector<double>& into = event == TownEvent::failure ? failures : ratios;
            CHAOS_TRY(const Measured measured, measure(wan, event, 1));
            dropped += measured.dropped;
            into.insert(into.end(), measured.spreading.begin(), measured.spreading.end());
        }
    }
    std::printf("spreading over links of 20-200 ms, against a round trip to a majority + 1.2 x the diameter:\n");
    std::printf("  planned changes: median %s of the limit, worst %s (%zu events)\n",
                fixed(percentile(ratios, 50), 3).c_str(), fixed(percentile(ratios, 100), 3).c_str(), ratios.size());
    std::printf("  node failures, which take a second round trip to everybody: median %s (%zu events)\n",
                fixed(percentile(failures, 50), 3).c_str(), failures.size());
    std::printf("  dropped, because not over within a minute: %u\n\n", dropped);
    figures.push_back({"spreading_ratio", percentile(ratios, 50)});
    std::printf("%s\n", json_line("events", load, figures).c_str());
    return {};
}

}  // namespace
}  // namespace chaos::bench

int main(int argc, char** argv) {
    bool quick = false;
    for (int i = 1; i < argc; ++i) {
        if (std::string_view(argv[i]) != "--quick") {
            std::fprintf(stderr, "bench_events: unknown argument %s; the only one is --quick\n", argv[i]);
            return 2;
        }
        quick = true;
    }
    const chaos::Result<void> done = chaos::bench::run(quick);
    if (done) return 0;
    std::fprintf(stderr, "bench_events: %s\n", done.error().message.c_str());
    return 2;
}
