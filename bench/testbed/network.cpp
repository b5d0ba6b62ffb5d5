#include "testbed/network.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

namespace chaos::testbed {
namespace {

namespace fs = std::filesystem;

const fs::path namespaces_folder = "/run/netns";
const fs::path groups_folder = "/sys/fs/cgroup/cpu";
constexpr int quota_period_us = 10'000;
// Frames of both ends of a veth carry this address, so no end ever asks for the other's: a cut link stays silent
// instead of answering "host unreachable" after a while.
constexpr const char* link_address = "02:00:00:00:00:77";
constexpr double max_offload_bytes = 65'536.0;

std::string namespace_of(const std::string& testbed, const std::string& host) {
    return "chaos-" + testbed + "." + host;
}

fs::path namespace_of(pid_t process) {
    return "/proc/" + std::to_string(process) + "/ns/net";
}

fs::path group_of(const std::string& testbed) {
    return groups_folder / ("chaos-" + testbed);
}

const std::string& from(const Link& link, Way way) {
    return way == Way::forth ? link.a : link.b;
}
const std::string& to(const Link& link, Way way) {
    return way == Way::forth ? link.b : link.a;
}

double queue_bytes(const Spec& spec, std::uint64_t bits_per_s) {
    return static_cast<double>(bits_per_s) / 8.0 * spec.queue_ms / 1e3;
}

// How much of a TCP stream crosses the link as one packet: enough to be cheap, little enough for its queue to hold
// several. A rate that is changed later does not change it, as open connections would not notice.
double offload_bytes(const Spec& spec, const Link& link, Way way) {
    const double most = std::min(max_offload_bytes, spec.burst_kb * 1000.0 / 2.0);
    return std::clamp(queue_bytes(spec, rate_in_spec(link, way)) / 8.0, 8192.0, std::max(most, 8192.0));
}

std::string shape_line(const Spec& spec, const Link& link, Way way, const Switch& turn) {
    const std::string queue = "qdisc replace dev to-" + to(link, way) + " root ";
    if (turn.cut != 0) return queue + "blackhole\n";
    const double limit = std::max(queue_bytes(spec, turn.rate_bits_per_s), 4.0 * offload_bytes(spec, link, way));
    std::ostringstream line;
    line << queue << "tbf rate " << turn.rate_bits_per_s << "bit burst " << std::llround(spec.burst_kb * 1000.0)
         << " limit " << std::llround(limit) << "\n";
    return line.str();
}

Result<void> run_batch(const std::string& program, const std::string& host_namespace, const std::string& lines) {
    if (lines.empty()) return {};
    std::vector<std::string> command = {program};
    if (!host_namespace.empty()) command.insert(command.end(), {"-n", host_namespace});
    command.insert(command.end(), {"-batch", "-"});
    CHAOS_CHECK(run_program(command, lines));
    return {};
}

std::string namespaces_and_veths(const Spec& spec) {
    std::string lines;
    for (const Host& host : spec.hosts) lines += "netns add " + namespace_of(spec.name, host.name) + "\n";
    for (const Link& link : spec.links) {
        if (link.relayed()) continue;
        lines += "link add name to-" + link.b + " address " + link_address + " netns " +
                 namespace_of(spec.name, link.a) + " type veth peer name to-" + link.a + " address " + link_address +
                 " netns " + namespace_of(spec.name, link.b) + "\n";
    }
    return lines;
}

std::string set_up_host(const Spec& spec, std::size_t host, const std::map<std::string, std::size_t>& numbers) {
    std::ostringstream lines;
    lines << "link set lo up\naddr add " << address4(host) << "/32 dev lo\naddr add " << address6(host)
          << "/128 dev lo nodad\n";
    for (const Link& link : spec.links) {
        for (const Way way : {Way::forth, Way::back}) {
            if (from(link, way) != spec.hosts[host].name) continue;
            const std::string device = "to-" + to(link, way);
            const std::size_t other = numbers.at(to(link, way));
            lines << "link set " << device << " addrgenmode none\n";
            if (link.relayed()) {
                lines << "link set " << device << " txqueuelen 10000\n";
            } else {
                lines << "link set " << device << " arp off gso_max_size "
                      << std::llround(offload_bytes(spec, link, way)) << "\n";
            }
            lines << "link set " << device << " up\n";
            lines << "route add " << address4(other) << "/32 dev " << device << " src " << address4(host) << "\n";
            lines << "route add " << address6(other) << "/128 dev " << device << " src " << address6(host) << "\n";
        }
    }
    return lines.str();
}

Result<void> write_text(const fs::path& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    if (!file) return system_error("cannot write \"" + text + "\" to " + path.string());
    return {};
}

Result<void> make_groups(const Spec& spec) {
    for (const Host& host : spec.hosts) {
        if (host.cpus == 0.0) continue;
        CHAOS_CHECK(can_limit_cpus());
        const fs::path group = group_of(spec.name) / host.name;
        std::error_code failure;
        fs::create_directories(group, failure);
        if (failure) return Error{"cannot make " + group.string() + ": " + failure.message()};
        CHAOS_CHECK(write_text(group / "cpu.cfs_period_us", std::to_string(quota_period_us)));
        CHAOS_CHECK(limit_cpus(spec, host.name, host.cpus));
    }
    return {};
}

Result<void> open_tuns(const Spec& spec, std::vector<RelayedLink>& relayed) {
    for (RelayedLink& one : relayed) {
        const Link& link = one.link;
        // Each segment has its own chance of being lost.
        const bool whole_segments = link.loss_percent == 0.0;
        for (const Way way : {Way::forth, Way::back}) {
            CHAOS_CHECK(inside(place_of(spec, from(link, way)), [&]() -> Result<void> {
                CHAOS_TRY(Descriptor tun, open_tun("to-" + to(link, way), whole_segments));
                (way == Way::forth ? one.tun_a : one.tun_b) = std::move(tun);
                return {};
            }));
        }
    }
    return {};
}

// One run must not learn from the last one's losses.
Result<void> forget_metrics(const Spec& spec, const Host& host) {
    return inside(place_of(spec, host.name), [] { return write_text("/proc/sys/net/ipv4/tcp_no_metrics_save", "1"); });
}

std::optional<std::pair<dev_t, ino_t>> identity_of(const fs::path& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return std::pair(status.st_dev, status.st_ino);
}

void end_processes_in(const fs::path& namespace_file) {
    // Again, for those that were started meanwhile.
    for (auto pids = processes_in(namespace_file); !pids.empty(); pids = processes_in(namespace_file)) {
        for (const pid_t pid : pids) {
            const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
            // Only now is the number sure to stay with the process: does it mean the one that was found?
            if (process.get() < 0 || identity_of(namespace_of(pid)) != identity_of(namespace_file)) continue;
            ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
            pollfd ended{process.get(), POLLIN, 0};
            ::poll(&ended, 1, -1);
        }
    }
}

// A group can be removed a moment after its last process has ended.
Result<void> remove_group(const fs::path& group) {
    constexpr int max_tries = 2000;
    for (int i = 0; i < max_tries; ++i) {
        if (::rmdir(group.c_str()) == 0 || errno == ENOENT) return {};
        if (errno != EBUSY) break;
        ::poll(nullptr, 0, 1);
    }
    return system_error("cannot remove " + group.string());
}

}  // namespace

Result<void> can_limit_cpus() {
    if (fs::exists(groups_folder / "cgroup.procs")) return {};
    return Error{"a CPU quota needs the cpu controller of cgroup v1 at " + groups_folder.string()};
}

Result<void> limit_cpus(const Spec& spec, const std::string& host, double cpus) {
    return write_text(group_of(spec.name) / host / "cpu.cfs_quota_us",
                      std::to_string(std::llround(cpus * quota_period_us)));
}

Place place_of(const Spec& spec, const std::string& host) {
    const auto found =
        std::find_if(spec.hosts.begin(), spec.hosts.end(), [&](const Host& h) { return h.name == host; });
    CHAOS_ASSERT(found != spec.hosts.end());
    Place place;
    place.namespace_file = namespaces_folder / namespace_of(spec.name, host);
    if (found->cpus != 0.0) place.group_file = group_of(spec.name) / host / "cgroup.procs";
    return place;
}

std::string address4(std::size_t host) {
    return "10.77.0." + std::to_string(host + 1);
}

std::string address6(std::size_t host) {
    std::ostringstream text;
    text << "fd77::" << std::hex << host + 1;
    return text.str();
}

Result<void> inside(const Place& place, const std::function<Result<void>()>& work) {
    Result<void> result;
    std::thread([&] {
        result = enter({.namespace_file = place.namespace_file, .group_file = ""});
        if (result.ok()) result = work();
    }).join();
    return result;
}

Result<std::vector<RelayedLink>> build_network(const Spec& spec, const Switches& switches) {
    CHAOS_CHECK(run_batch("ip", "", namespaces_and_veths(spec)));
    CHAOS_CHECK(make_groups(spec));

    std::vector<RelayedLink> relayed;
    std::map<std::string, std::string> shapes;
    for (std::size_t i = 0; i < spec.links.size(); ++i) {
        const Link& link = spec.links[i];
        if (link.relayed()) {
            RelayedLink& one = relayed.emplace_back();
            one.link = link;
            one.queue_ms = spec.queue_ms;
            one.seed = spec.seed * (max_hosts * max_hosts) + i;
            one.forth = &switches.of(i, Way::forth);
            one.back = &switches.of(i, Way::back);
            continue;
        }
        for (const Way way : {Way::forth, Way::back}) {
            shapes[from(link, way)] += shape_line(spec, link, way, switches.of(i, way));
        }
    }
    CHAOS_CHECK(open_tuns(spec, relayed));

    std::map<std::string, std::size_t> numbers;
    for (std::size_t i = 0; i < spec.hosts.size(); ++i) numbers[spec.hosts[i].name] = i;
    for (std::size_t i = 0; i < spec.hosts.size(); ++i) {
        const Host& host = spec.hosts[i];
        CHAOS_CHECK(run_batch("ip", namespace_of(spec.name, host.name), set_up_host(spec, i, numbers)));
        CHAOS_CHECK(run_batch("tc", namespace_of(spec.name, host.name), shapes[host.name]));
        CHAOS_CHECK(forget_metrics(spec, host));
    }
    return relayed;
}

Result<void> apply_switches(const Spec& spec, const Switches& switches, const std::vector<Turn>& turns) {
    std::map<std::string, std::string> shapes;
    for (const auto& [index, way] : turns) {
        const Link& link = spec.links[index];
        if (!link.relayed()) shapes[from(link, way)] += shape_line(spec, link, way, switches.of(index, way));
    }
    // All at once: a host is isolated in one moment, as far as possible.
    std::vector<Process> commands;
    for (const auto& [host, lines] : shapes) {
        CHAOS_TRY(Process command,
                  Process::start({"tc", "-n", namespace_of(spec.name, host), "-batch", "-"}, {}, lines));
        commands.push_back(std::move(command));
    }
    Result<void> result;
    for (Process& command : commands) {
        if (command.wait() != 0) result = Error{"tc failed: " + command.err()};
    }
    return result;
}

std::vector<pid_t> processes_in(const std::string& namespace_file) {
    std::vector<pid_t> found;
    const auto wanted = identity_of(namespace_file);
    if (!wanted) return found;
    std::error_code failure;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc", failure)) {
        const std::string name = entry.path().filename();
        if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
        if (identity_of(entry.path() / "ns/net") == wanted) found.push_back(static_cast<pid_t>(std::stol(name)));
    }
    return found;
}

Result<void> remove_network(const std::string& name) {
    std::error_code failure;
    std::string lines;
    for (const fs::directory_entry& entry : fs::directory_iterator(namespaces_folder, failure)) {
        const std::string space = entry.path().filename();
        if (!space.starts_with(namespace_of(name, ""))) continue;
        end_processes_in(entry.path());
        lines += "netns delete " + space + "\n";
    }
    CHAOS_CHECK(run_batch("ip", "", lines));
    const fs::path groups = group_of(name);
    if (!fs::exists(groups)) return {};
    for (const fs::directory_entry& entry : fs::directory_iterator(groups, failure)) {
        if (entry.is_directory()) CHAOS_CHECK(remove_group(entry.path()));
    }
    return remove_group(groups);
}

}  // namespace chaos::testbed
