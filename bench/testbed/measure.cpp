// ./dev bench testbed [--quick]: whether the network in a box is what it claims to be, and what its relay costs.
#include "report.h"
#include "testbed/sockets.h"
#include "testbed/testbed.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace chaos::bench {
namespace {

using testbed::Link;
using testbed::Process;
using testbed::Spec;
using testbed::Testbed;

struct Measured {
    double mbit = 0.0;         // as frames
    double relay_cores = 0.0;  // CPU seconds of the relay per second
    double machine = 0.0;      // share of all cores that was busy
    double again = 0.0;        // segments sent again, per segment
};

Spec two_hosts(const Link& link) {
    Spec spec{.hosts = {{"a"}, {"b"}}};
    testbed::link_all(spec, link);
    return spec;
}

// What iperf3 receives after its first two seconds.
Result<Measured> measure_rate(const Link& link, int streams, int seconds) {
    constexpr int ignored_seconds = 2;
    CHAOS_TRY(const Testbed box, Testbed::start(two_hosts(link)));
    CHAOS_TRY(const Process server, box.spawn("b", {"iperf3", "-s", "-1", "--forceflush"}));
    if (!server.wait_for_output("Server listening")) return Error{"iperf3 -s: " + server.out() + server.err()};
    const MachineUse use;
    const double cpu_before = box.relay_cpu_seconds();
    const auto start = testbed::test::Clock::now();
    CHAOS_TRY(Process client, box.spawn("a", {"iperf3", "-J", "-c", *box.address("b"), "-P", std::to_string(streams),
                                              "-t", std::to_string(seconds), "-O", std::to_string(ignored_seconds)}));
    const int code = client.wait();
    const double elapsed = std::chrono::duration<double>(testbed::test::Clock::now() - start).count();
    const double busy = use.share();
    const auto json = nlohmann::json::parse(client.out(), nullptr, false);
    if (code != 0 || json.is_discarded()) return Error{"iperf3 -c: " + client.out() + client.err()};
    const auto& end = json.at("end");
    const double bytes = end.at("sum_sent").at("bytes").get<double>();
    Measured measured;
    measured.mbit = end.at("sum_received").at("bits_per_second").get<double>() * 1e-6 * 1514.0 / 1448.0;
    measured.relay_cores = (box.relay_cpu_seconds() - cpu_before) / elapsed;
    measured.machine = busy;
    measured.again = end.at("sum_sent").value("retransmits", 0.0) / (bytes / 1448.0);
    return measured;
}

Result<void> run(bool quick, Table& table, std::vector<Figure>& figures) {
    struct Case {
        std::string name;
        Link link;
        int streams;
    };
    const int seconds = quick ? 3 : 10;
    for (const Case& one :
         {Case{"veth_100", {.rate_mbit = 100.0}, 1}, Case{"veth_500", {.rate_mbit = 500.0}, 1},
          Case{"relay_500_1ms", {.rate_mbit = 500.0, .delay_ms = 1.0}, 1},
          Case{"relay_500_50ms", {.rate_mbit = 500.0, .delay_ms = 50.0}, 8},
          Case{"relay_100_20ms_loss", {.rate_mbit = 100.0, .delay_ms = 20.0, .loss_percent = 0.01}, 8}}) {
        CHAOS_TRY(const Measured measured, measure_rate(one.link, one.streams, seconds));
        table.rows.push_back({one.name, std::to_string(one.streams), fixed(measured.mbit, 1),
                              fixed(measured.mbit / one.link.rate_mbit, 4), fixed(measured.again * 100.0, 2),
                              fixed(measured.relay_cores, 3), fixed(measured.machine * 100.0, 0)});
        figures.push_back({one.name + "_vs_asked", measured.mbit / one.link.rate_mbit});
        figures.push_back({one.name + "_relay_cores", measured.relay_cores});
    }
    constexpr double delay_ms = 50.0;
    CHAOS_TRY(const Testbed box, Testbed::start(two_hosts({.rate_mbit = 500.0, .delay_ms = delay_ms})));
    const std::vector<double> delays_ms = testbed::test::datagram_delays_ms(box, "a", "b", quick ? 20 : 100);
    figures.push_back({"relay_50ms_late_us_p50", (delays_ms[delays_ms.size() / 2] - delay_ms) * 1e3});
    figures.push_back({"relay_50ms_late_us_p99", (delays_ms[delays_ms.size() * 99 / 100] - delay_ms) * 1e3});
    return {};
}

int measure(int count, char** arguments) {
    const bool quick = count == 2 && std::string(arguments[1]) == "--quick";
    if (count > 2 || (count == 2 && !quick)) {
        std::fprintf(stderr, "usage: bench_testbed [--quick]\n");
        return 1;
    }
    const double load = load_average();
    Table table{{"link", "streams", "Mbit/s", "of asked", "% again", "relay's cores", "% machine"}, {}};
    std::vector<Figure> figures;
    if (const auto done = run(quick, table, figures); !done.ok()) {
        std::fprintf(stderr, "bench_testbed: %s\n", done.error().message.c_str());
        return 1;
    }
    std::printf("%s%s\n", table_text(table).c_str(), json_line("testbed", load, figures).c_str());
    return 0;
}

}  // namespace
}  // namespace chaos::bench

int main(int count, char** arguments) {
    try {
        return chaos::bench::measure(count, arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_testbed: %s\n", error.what());
        return 1;
    }
}
