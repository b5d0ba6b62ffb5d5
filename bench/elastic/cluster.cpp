#include "cluster.h"

#include "base/file.h"

#include <thread>

namespace chaos::bench {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr seconds patience{180};
constexpr unsigned port = 7440;
constexpr unsigned first_iperf_port = 5201;
constexpr int iperf_warm_up_seconds = 1;
constexpr std::uint64_t never = 1'000'000;  // steps
constexpr seconds quiet_sample{600};
constexpr std::uint64_t set_up_bytes_per_us = 400;

testbed::Spec testbed_of(const ClusterSpec& spec) {
    testbed::Spec box;
    for (std::size_t i = 0; i < spec.rates_mbit.size(); ++i)
        box.hosts.push_back({.name = donor_host(i), .cpus = spec.donor_cpus});
    box.hosts.push_back({.name = joiner_host, .cpus = spec.joiner_cpus});
    for (std::size_t i = 0; i < spec.rates_mbit.size(); ++i) {
        for (std::size_t j = i + 1; j < spec.rates_mbit.size(); ++j)
            box.links.push_back({.a = donor_host(i), .b = donor_host(j), .rate_mbit = spec.between_donors_mbit});
        box.links.push_back({.a = donor_host(i), .b = joiner_host, .rate_mbit = spec.rates_mbit[i]});
    }
    return box;
}

}  // namespace

std::string donor_host(std::size_t number) {
    return "d" + std::to_string(number);
}

Cluster::Cluster(const ClusterSpec& spec, testbed::Testbed box)
    : spec_(spec), box_(std::move(box)), state_bytes_(toy_state_bytes(spec.state_bytes)) {}

Result<std::unique_ptr<Cluster>> Cluster::start(const ClusterSpec& spec) {
    CHAOS_TRY(testbed::Testbed box, testbed::Testbed::start(testbed_of(spec)));
    std::unique_ptr<Cluster> cluster(new Cluster(spec, std::move(box)));
    CHAOS_CHECK(cluster->set_up());
    return cluster;
}

Result<void> Cluster::set_up() {
    folder_.write("run.toml", toy_run_text(spec_.state_bytes, spec_.batch, never));
    // Nothing is measured yet: whoever has something to do may do it.
    for (std::size_t i = 0; i < spec_.rates_mbit.size(); ++i)
        CHAOS_CHECK(box_.set_cpus(donor_host(i), std::thread::hardware_concurrency()));
    CHAOS_CHECK(set_pace(std::chrono::microseconds(0)));
    CHAOS_TRY(const std::string first, box_.address(donor_host(0)));
    const std::string founder = first + ":" + std::to_string(port);
    for (std::size_t i = 0; i < spec_.rates_mbit.size(); ++i) {
        const std::vector<std::string> join = i == 0 ? std::vector<std::string>{} : std::vector{founder};
        CHAOS_TRY(NodeProcess node, start_node(donor_host(i), donor_host(i), port, join));
        donors_.push_back(std::move(node));
        if (i > 0) continue;
        // Far enough for the state that a newcomer begins with to be of no use.
        CHAOS_CHECK(donors_[0].wait_for(trained_step(10), patience));
        // Steps that leave those who join the time to follow.
        const auto step = std::max<std::chrono::microseconds>(
            std::chrono::microseconds(spec_.rates_mbit.size() * state_bytes_ / set_up_bytes_per_us), seconds(1));
        CHAOS_CHECK(set_pace(step / spec_.batch));
    }
    CHAOS_CHECK(all_train());
    // An exchange of large results within small quotas would keep nodes from answering each other.
    CHAOS_CHECK(spec_.quiet ? quieten() : set_pace(spec_.per_sample));
    for (std::size_t i = 0; i < spec_.rates_mbit.size(); ++i)
        CHAOS_CHECK(box_.set_cpus(donor_host(i), spec_.donor_cpus));
    return {};
}

Result<NodeProcess> Cluster::start_node(const std::string& host, const std::string& dir, unsigned at_port,
                                        const std::vector<std::string>& join) {
    NodeStart start;
    start.run_file = folder_ / "run.toml";
    start.dir = folder_ / dir;
    start.home = folder_ / "home";
    start.join = join;
    CHAOS_TRY(const std::string address, box_.address(host));
    start.listen = address + ":" + std::to_string(at_port);
    CHAOS_TRY(start.place, box_.place(host));
    start.environment["CHAOS_TOY_SAMPLE_US"] = folder_ / "pace";
    start.more = {"--links", std::to_string(std::max<std::size_t>(spec_.rates_mbit.size(), 1))};
    return NodeProcess::start(start);
}

Result<void> Cluster::set_pace(std::chrono::microseconds per_sample) {
    return write_file_atomically(folder_ / "pace", std::to_string(per_sample.count()));
}

Result<void> Cluster::quieten() {
    CHAOS_CHECK(set_pace(quiet_sample));
    // What is being computed or exchanged goes on; then nothing comes any more.
    const double long_enough = 4.0 + 3.0 * static_cast<double>(state_bytes_) / 100e6;
    for (double last = now(); now() - last < long_enough;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (!donors_[0].lines().empty()) last = std::max(last, donors_[0].lines().back().time);
    }
    return {};
}

Result<NodeProcess> Cluster::join() {
    std::vector<std::string> addresses;
    for (std::size_t i = 0; i < donors_.size(); ++i) {
        CHAOS_TRY(const std::string address, box_.address(donor_host(i)));
        addresses.push_back(address + ":" + std::to_string(port));
    }
    // Where nobody looks for those who were lost.
    ++joiners_;
    return start_node(joiner_host, joiner_host + std::to_string(joiners_), port + joiners_, addresses);
}

Result<double> Cluster::round_trip() {
    double sum_us = 0.0;
    double count = 0.0;
    for (const NodeProcess& donor : donors_) {
        CHAOS_TRY(const json status, donor.status());
        for (const json& connection : status.at("connections")) {
            sum_us += connection.at("round_trip_us").get<double>();
            count += 1.0;
        }
    }
    return count > 0.0 ? sum_us * 1e-6 / count : 0.0;
}

Result<void> Cluster::restart(std::size_t donor) {
    std::vector<std::string> addresses;
    for (std::size_t i = 0; i < donors_.size(); ++i) {
        CHAOS_TRY(const std::string address, box_.address(donor_host(i)));
        if (i != donor) addresses.push_back(address + ":" + std::to_string(port));
    }
    donors_[donor].process().wait();
    CHAOS_TRY(donors_[donor], start_node(donor_host(donor), donor_host(donor), port, addresses));
    return {};
}

// Like NodeProcess::wait_for, but no donor may end meanwhile.
Result<Line> Cluster::wait_for(std::size_t number, const Wanted& wanted, std::size_t from) {
    Result<Line> line = Error{};
    for (const double limit = now() + static_cast<double>(patience.count()); !line && now() < limit;) {
        line = donors_[number].wait_for(wanted, std::chrono::milliseconds(200), from);
        for (NodeProcess& donor : donors_)
            if (!line && donor.process().ended()) return Error{"a donor ended: " + donor.last_words()};
    }
    return line;
}

Result<void> Cluster::all_train() {
    std::vector<std::size_t> told;
    for (NodeProcess& donor : donors_) told.push_back(donor.lines().size());
    const auto all_here = [&](const json& line) {
        return line.value("kind", "") == "trained" && line.value("members", std::size_t{0}) == donors_.size();
    };
    // Somebody may have been let in for a step that is yet to come.
    constexpr std::uint64_t steps_to_begin = 3;
    std::uint64_t step = 0;
    for (std::size_t i = 0; i < donors_.size(); ++i) {
        CHAOS_TRY(const Line here, wait_for(i, all_here, told[i]));
        step = std::max(step, here.content.at("step").get<std::uint64_t>() + steps_to_begin);
    }
    for (std::size_t i = 0; i < donors_.size(); ++i) CHAOS_CHECK(wait_for(i, trained_step(step), told[i]));
    return {};
}

Result<void> Cluster::lose(NodeProcess& joiner) {
    const std::size_t told = donors_[0].lines().size();
    joiner.kill();
    joiner.process().wait();
    CHAOS_CHECK(donors_[0].wait_for(tells("failed", "is no longer a member"), patience, told));
    return {};
}

Result<double> Cluster::ingress_limit(seconds duration) {
    CHAOS_TRY(const std::string to, box_.address(joiner_host));
    std::vector<testbed::Process> servers;
    std::vector<testbed::Process> clients;
    for (std::size_t i = 0; i < donors_.size(); ++i) {
        CHAOS_TRY(testbed::Process server, box_.spawn(joiner_host, {"iperf3", "-s", "-1", "--forceflush", "-p",
                                                                    std::to_string(first_iperf_port + i)}));
        if (!server.wait_for_output("Server listening")) return Error{"iperf3 -s: " + server.out() + server.err()};
        servers.push_back(std::move(server));
    }
    for (std::size_t i = 0; i < donors_.size(); ++i) {
        CHAOS_TRY(
            testbed::Process client,
            box_.spawn(donor_host(i), {"iperf3", "-J", "-c", to, "-p", std::to_string(first_iperf_port + i), "-t",
                                       std::to_string(duration.count()), "-O", std::to_string(iperf_warm_up_seconds)}));
        clients.push_back(std::move(client));
    }
    double bytes_per_s = 0.0;
    for (testbed::Process& client : clients) {
        const int code = client.wait();
        const json report = json::parse(client.out(), nullptr, false);
        if (code != 0 || report.is_discarded()) return Error{"iperf3 -c: " + client.out() + client.err()};
        bytes_per_s += report.at("end").at("sum_received").at("bits_per_second").get<double>() / 8.0;
    }
    return bytes_per_s;
}

}  // namespace chaos::bench
