// bench/testbed: a network in a box. Hosts with their own addresses, and links between them with a rate, a delay,
// jitter and loss, on one machine and for as long as needed; links and hosts fail, slow down and come back on demand.
// What runs in it notices nothing: it opens ordinary sockets.
//
//   Spec spec{.name = "two", .hosts = {{"a"}, {"b"}}};
//   link_all(spec, {.rate_mbit = 100, .delay_ms = 20});
//   CHAOS_TRY(Testbed testbed, Testbed::start(spec));
//   CHAOS_TRY(Process server, testbed.spawn("b", {"iperf3", "-s", "-1"}));
//   CHAOS_TRY(Process client, testbed.spawn("a", {"iperf3", "-c", *testbed.address("b")}));
//   CHAOS_CHECK(testbed.cut("a", "b"));       // nobody is told: packets vanish
//   CHAOS_CHECK(testbed.heal("a", "b"));
//
// The same by command: chaos-testbed --help.
//
// A host is a network namespace with one address per family on its loopback device (10.77.0.1, fd77::1 for the first
// host, and so on) and, where it has a quota, a control group. A link is a veth pair shaped by the kernel (tbf), or,
// with delay, jitter or loss, two TUN devices and a thread that relays between them (relay.h). Hosts without a link
// between them do not reach each other. Socket buffers and congestion control are the machine's.
//
// Everything goes when the Testbed goes, also when its process is killed: another process, the keeper (keeper.h), sees
// to it. Programs in src/ never use this; benches and tests do. Needs root and iproute2: can_build() tells.
#pragma once

#include "base/result.h"
#include "testbed/process.h"
#include "testbed/spec.h"
#include "testbed/switches.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace chaos::testbed {

// An error says what is missing on this machine.
[[nodiscard]] Result<void> can_build();

class Testbed {
public:
    // Builds it. An empty name stands for one that no other testbed has.
    static Result<Testbed> start(Spec spec);
    // Uses one that another process has built; it stays when this object goes.
    static Result<Testbed> attach(const std::string& name);
    // Builds one that stays until remove_testbed(name) (keeper.h), whoever ends meanwhile.
    static Result<void> leave(const Spec& spec);

    ~Testbed();
    Testbed(Testbed&&) = default;
    Testbed& operator=(Testbed&&) = delete;

    [[nodiscard]] const Spec& spec() const { return spec_; }
    [[nodiscard]] Result<std::string> address(const std::string& host) const;   // 10.77.0.N
    [[nodiscard]] Result<std::string> address6(const std::string& host) const;  // fd77::N

    // Starts a program in a host, within its quota. Process kills, freezes and thaws it.
    [[nodiscard]] Result<Process> spawn(const std::string& host, const std::vector<std::string>& arguments) const;
    // Where programs of a host run, for Process::start.
    [[nodiscard]] Result<Place> place(const std::string& host) const;
    // From now on, for a host that has a quota.
    [[nodiscard]] Result<void> set_cpus(const std::string& host, double cpus) const;
    // Becomes a program in a host; returns only with an error.
    [[nodiscard]] Error become(const std::string& host, const std::vector<std::string>& arguments) const;
    // Runs `work` on a thread in the host's network: sockets opened by it belong to the host for good, whoever uses
    // them later.
    [[nodiscard]] Result<void> inside(const std::string& host, const std::function<Result<void>()>& work) const;
    // To every process in a host, e.g. SIGKILL, SIGSTOP, SIGCONT.
    [[nodiscard]] Result<void> signal(const std::string& host, int number) const;

    // Faults. From when these return, and with what is on its way, packets vanish without a trace: no reset, no "host
    // unreachable". A link that is cut keeps the rate it is given meanwhile.
    [[nodiscard]] Result<void> cut(const std::string& a, const std::string& b);
    [[nodiscard]] Result<void> cut_one_way(const std::string& from, const std::string& to);
    [[nodiscard]] Result<void> isolate(const std::string& host);  // cuts all its links
    [[nodiscard]] Result<void> set_rate(const std::string& a, const std::string& b, double rate_mbit);
    [[nodiscard]] Result<void> set_rate_one_way(const std::string& from, const std::string& to, double rate_mbit);
    // As the spec says again: not cut, at its own rates.
    [[nodiscard]] Result<void> heal(const std::string& a, const std::string& b);
    [[nodiscard]] Result<void> heal_host(const std::string& host);  // all its links

    // CPU time that the keeper has used, which is the relays'. It counts the kernel's work on received packets, too.
    [[nodiscard]] double relay_cpu_seconds() const;

private:
    using Turn = std::pair<std::size_t, Way>;

    Testbed(Spec spec, Switches switches, std::optional<Process> keeper)
        : spec_(std::move(spec)), switches_(std::move(switches)), keeper_(std::move(keeper)) {}
    static Result<Process> start_keeper(const Spec& spec, std::optional<pid_t> owner);

    [[nodiscard]] Result<std::size_t> number_of(const std::string& host) const;
    [[nodiscard]] Result<Turn> turn(const std::string& from, const std::string& to) const;
    [[nodiscard]] Result<std::vector<Turn>> both(const std::string& a, const std::string& b) const;
    [[nodiscard]] Result<std::vector<Turn>> all_of(const std::string& host) const;
    [[nodiscard]] Result<void> cut(const std::vector<Turn>& turns);
    [[nodiscard]] Result<void> heal(const std::vector<Turn>& turns);
    [[nodiscard]] Result<void> set_rate(const std::vector<Turn>& turns, double rate_mbit);

    Spec spec_;
    Switches switches_;
    std::optional<Process> keeper_;  // where it is ours
};

}  // namespace chaos::testbed
