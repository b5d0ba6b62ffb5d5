#include "shaped.h"

#include "hosts.h"
#include "peer.h"

#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>

namespace chaos::bench {
namespace {

using Clock = std::chrono::steady_clock;
using testbed::Link;
using testbed::Process;
using testbed::Spec;
using testbed::Testbed;

constexpr std::chrono::seconds warm_up{2};
constexpr std::uint32_t frame_bytes = 128 << 10;

// Numbers of the two processes, which their keys are made from.
constexpr unsigned receiver = 0;
constexpr unsigned sender = 1;

// Takes what comes; prints the rate after the warm-up, in bits per second.
int receive(const std::string& address, std::uint32_t connections, std::chrono::seconds duration) {
    Peer peer(receiver, false, connections);
    peer.others_may_go = true;
    (void)peer.listen(address + ":" + std::to_string(host_port));
    std::printf("listening\n");
    std::fflush(stdout);
    peer.await_links(1);
    const NodeId from = id_of(sender);
    // Where arrived bytes stood when they first changed after the beginning and last changed before the end.
    Clock::time_point first_ever;
    Clock::time_point first;
    Clock::time_point last;
    std::uint64_t bytes_first = 0;
    std::uint64_t bytes_last = 0;
    peer.run_until([&] {
        if (!peer.links.linked(from)) return true;
        const std::uint64_t bytes = peer.links.figures(from).bulk_received_bytes;
        if (bytes == bytes_last) return false;
        const Clock::time_point now = Clock::now();
        if (bytes_last == 0) first_ever = now;
        if (now > first_ever + warm_up + duration) return false;
        last = now;
        bytes_last = bytes;
        if (now > first_ever + warm_up && bytes_first == 0) {
            first = now;
            bytes_first = bytes;
        }
        return false;
    });
    const double seconds = std::chrono::duration<double>(last - first).count();
    if (bytes_first == 0 || bytes_last == bytes_first) return 1;
    std::printf("%.0f\n", static_cast<double>(bytes_last - bytes_first) * 8.0 / seconds);
    return 0;
}

// Sends state without pause; prints the round trips of control messages after the warm-up, in nanoseconds.
int send(const std::string& address, std::uint32_t connections, std::chrono::seconds duration) {
    constexpr std::chrono::milliseconds tick_length{1};
    constexpr int ticks_per_ping = 10;
    constexpr std::uint64_t bytes_ahead = 32 << 20;
    Peer peer(sender, false, connections);
    peer.connect(receiver, address + ":" + std::to_string(host_port));
    const NodeId to = id_of(receiver);
    const auto data = std::make_shared<const std::vector<std::byte>>(frame_bytes, std::byte{7});
    const auto begun = Clock::now();
    std::uint32_t frames = 0;
    std::vector<std::int64_t> round_trips;
    bool asked = false;
    net::asio::steady_timer timer(peer.loop);
    for (int tick = 0; Clock::now() < begun + 2 * warm_up + duration; ++tick) {
        while (std::uint64_t{frames} * frame_bytes < peer.links.figures(to).bulk_sent_bytes + bytes_ahead) {
            const net::BulkHead head{.kind = net::BulkKind::state, .bytes = frame_bytes, .fifth = frames};
            if (!peer.links.send_bulk(to, head, *data, net::any_lane, data)) return 1;
            ++frames;
        }
        if (tick % ticks_per_ping == 0 && !asked && Clock::now() > begun + warm_up) asked = peer.links.ping(to);
        bool ticked = false;
        timer.expires_after(tick_length);
        timer.async_wait([&](boost::system::error_code) { ticked = true; });
        peer.run_until([&] {
            const std::chrono::nanoseconds round_trip = peer.links.figures(to).round_trip;
            if (asked && round_trip.count() > 0) {
                round_trips.push_back(round_trip.count());
                asked = false;
            }
            return ticked;
        });
    }
    for (const std::int64_t round_trip : round_trips) std::printf("%lld\n", static_cast<long long>(round_trip));
    return 0;
}

Spec two_hosts(const Link& link) {
    Spec spec{.hosts = {{"a"}, {"b"}}};
    testbed::link_all(spec, link);
    return spec;
}

struct Ours {
    double bits_per_s = 0.0;
    std::vector<double> round_trips_us;  // ascending
};

Result<Ours> measure_ours(const Testbed& box, int connections, int seconds) {
    const auto part = [&](const std::string& what) {
        return std::vector<std::string>{"shaped", what, *box.address("b"), std::to_string(connections),
                                        std::to_string(seconds)};
    };
    CHAOS_TRY(Process to, spawn_part(box, "b", part("receive")));
    if (!to.wait_for_output("listening")) return Error{"the receiver does not listen: " + to.err()};
    CHAOS_TRY(Process from, spawn_part(box, "a", part("send")));
    CHAOS_TRY(const std::string sent, output_of(from));
    CHAOS_TRY(const std::string received, output_of(to));
    Ours ours;
    std::istringstream trips(sent);
    for (double ns = 0.0; trips >> ns;) ours.round_trips_us.push_back(ns * 1e-3);
    std::ranges::sort(ours.round_trips_us);
    std::string word;
    std::istringstream(received) >> word >> ours.bits_per_s;
    return ours;
}

Result<double> measure_iperf(const Testbed& box, int streams, int seconds) {
    CHAOS_TRY(const Process server, box.spawn("b", {"iperf3", "-s", "-1", "--forceflush"}));
    if (!server.wait_for_output("Server listening")) return Error{"iperf3 -s: " + server.out() + server.err()};
    CHAOS_TRY(Process client, box.spawn("a", {"iperf3", "-J", "-c", *box.address("b"), "-P", std::to_string(streams),
                                              "-t", std::to_string(seconds), "-O", std::to_string(warm_up.count())}));
    const int code = client.wait();
    const auto json = nlohmann::json::parse(client.out(), nullptr, false);
    if (code != 0 || json.is_discarded()) return Error{"iperf3 -c: " + client.out() + client.err()};
    return json.at("end").at("sum_received").at("bits_per_second").get<double>();
}

}  // namespace

Result<Table> compare_with_iperf(bool quick, std::vector<Figure>& figures) {
    struct Case {
        std::string name;
        Link link;
        int connections;
    };
    Table table{.head = {"link", "streams", "ours Mbit/s", "iperf3 Mbit/s", "ratio", "round trip p99", "% machine"},
                .rows = {}};
    const int rounds = quick ? 1 : 3;
    const int seconds = quick ? 8 : 12;
    for (const Case& one : {Case{"shaped_100", {.rate_mbit = 100.0}, 2}, Case{"shaped_500", {.rate_mbit = 500.0}, 2},
                            Case{"shaped_500_50ms", {.rate_mbit = 500.0, .delay_ms = 50.0}, 8}}) {
        CHAOS_TRY(const Testbed box, Testbed::start(two_hosts(one.link)));
        std::vector<double> ratios;
        for (int round = 0; round < rounds; ++round) {
            const MachineUse use;
            CHAOS_TRY(const Ours ours, measure_ours(box, one.connections, seconds));
            const double busy = use.share();
            CHAOS_TRY(const double iperf, measure_iperf(box, one.connections, seconds));
            ratios.push_back(ours.bits_per_s / iperf);
            const double p99_us =
                ours.round_trips_us.empty() ? 0.0 : ours.round_trips_us[ours.round_trips_us.size() * 99 / 100];
            table.rows.push_back({one.name, std::to_string(one.connections), fixed(ours.bits_per_s * 1e-6, 1),
                                  fixed(iperf * 1e-6, 1), fixed(ratios.back(), 3), fixed(p99_us * 1e-3, 1) + " ms",
                                  fixed(busy * 100.0, 0)});
        }
        figures.push_back({one.name + "_vs_iperf", median(ratios)});
    }
    return table;
}

Result<Table> measure_round_trips(bool quick, std::vector<Figure>& figures) {
    Table table{.head = {"round trip under bulk", "Mbit/s", "p50", "p99", "most"}, .rows = {}};
    const int rounds = quick ? 1 : 3;
    std::vector<double> worst;
    CHAOS_TRY(const Testbed box, Testbed::start(two_hosts({.rate_mbit = 100.0})));
    for (int round = 0; round < rounds; ++round) {
        CHAOS_TRY(const Ours ours, measure_ours(box, 2, quick ? 5 : 10));
        const std::vector<double>& trips = ours.round_trips_us;
        if (trips.size() < 100) return Error{"too few control messages were answered under bulk"};
        worst.push_back(trips[trips.size() * 99 / 100]);
        table.rows.push_back({"100 Mbit/s", fixed(ours.bits_per_s * 1e-6, 1), fixed(trips[trips.size() / 2], 0) + " us",
                              fixed(worst.back(), 0) + " us", fixed(trips.back(), 0) + " us"});
    }
    figures.push_back({"rtt_under_bulk_p99_us", median(worst)});
    return table;
}

int play_shaped(const std::vector<std::string>& arguments) {
    if (arguments.size() != 4) return 2;
    const auto connections = static_cast<std::uint32_t>(std::stoul(arguments[2]));
    const std::chrono::seconds duration{std::stol(arguments[3])};
    if (arguments[0] == "receive") return receive(arguments[1], connections, duration);
    if (arguments[0] == "send") return send(arguments[1], connections, duration);
    return 2;
}

}  // namespace chaos::bench
