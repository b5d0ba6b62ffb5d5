#include "testbed/testbed.h"

#include "base/file.h"
#include "base/words.h"
#include "testbed/keeper.h"
#include "testbed/network.h"

#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

namespace chaos::testbed {

Result<void> can_build() {
    if (::geteuid() != 0) return Error{"a testbed needs root"};
    for (const char* program : {"ip", "tc"}) {
        if (!run_program({program, "-V"}).ok()) return Error{"a testbed needs ip and tc, from the package iproute2"};
    }
    if (!std::filesystem::exists("/dev/net/tun")) return Error{"a testbed needs /dev/net/tun"};
    Result<void> result;
    std::thread([&] {
        if (::unshare(CLONE_NEWNET) != 0) result = system_error("a testbed needs network namespaces");
    }).join();
    return result;
}

Result<Process> Testbed::start_keeper(const Spec& spec, std::optional<pid_t> owner) {
    CHAOS_CHECK(can_build());
    CHAOS_CHECK(check_spec(spec));
    std::vector<std::string> command = {CHAOS_TESTBED_PROGRAM, "keep"};
    if (owner) command.insert(command.end(), {"--owner", std::to_string(*owner)});
    CHAOS_TRY(Process keeper, Process::start(command, {}, to_toml(spec)));
    if (keeper.wait_for_output(keeper_ready)) return keeper;
    std::string complaint = keeper.out() + keeper.err();
    while (!complaint.empty() && complaint.back() == '\n') complaint.pop_back();
    return Error{complaint};
}

Result<Testbed> Testbed::start(Spec spec) {
    static std::atomic<int> count = 0;
    if (spec.name.empty()) spec.name = std::to_string(::getpid()) + "-" + std::to_string(++count);
    CHAOS_TRY(Process keeper, start_keeper(spec, ::getpid()));
    CHAOS_TRY(Switches switches, Switches::open(folder_of(spec.name) / "switches", spec));
    return Testbed(std::move(spec), std::move(switches), std::move(keeper));
}

Result<Testbed> Testbed::attach(const std::string& name) {
    if (!keeper_of(name)) return Error{"no testbed called \"" + name + "\" is up"};
    const std::filesystem::path file = folder_of(name) / "spec.toml";
    CHAOS_TRY(const std::string text, read_file(file));
    CHAOS_TRY(Spec spec, parse_spec(text, file.string()));
    CHAOS_TRY(Switches switches, Switches::open(folder_of(name) / "switches", spec));
    return Testbed(std::move(spec), std::move(switches), std::nullopt);
}

Result<void> Testbed::leave(const Spec& spec) {
    CHAOS_TRY(Process keeper, start_keeper(spec, std::nullopt));
    keeper.release();
    return {};
}

Testbed::~Testbed() {
    if (!keeper_ || keeper_->pid() < 0) return;
    ::kill(keeper_->pid(), SIGTERM);
    // A keeper that was killed left everything to us; what cannot be removed now, the next keeper will try.
    if (keeper_->wait() != 0) [[maybe_unused]]
        const auto ignored = remove_testbed(spec_.name);
}

Result<std::size_t> Testbed::number_of(const std::string& host) const {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < spec_.hosts.size(); ++i) {
        if (spec_.hosts[i].name == host) return i;
        names.emplace_back(spec_.hosts[i].name);
    }
    return Error{"no host is called \"" + host + "\"; there is " + one_of(names)};
}

Result<std::string> Testbed::address(const std::string& host) const {
    CHAOS_TRY(const std::size_t number, number_of(host));
    return testbed::address4(number);
}

Result<std::string> Testbed::address6(const std::string& host) const {
    CHAOS_TRY(const std::size_t number, number_of(host));
    return testbed::address6(number);
}

Result<Process> Testbed::spawn(const std::string& host, const std::vector<std::string>& arguments) const {
    CHAOS_TRY(const Place there, place(host));
    return Process::start(arguments, there);
}

Result<Place> Testbed::place(const std::string& host) const {
    CHAOS_CHECK(number_of(host));
    return place_of(spec_, host);
}

Result<void> Testbed::set_cpus(const std::string& host, double cpus) const {
    CHAOS_CHECK(number_of(host));
    return limit_cpus(spec_, host, cpus);
}

Error Testbed::become(const std::string& host, const std::vector<std::string>& arguments) const {
    CHAOS_ASSERT(!arguments.empty());
    CHAOS_CHECK(number_of(host));
    CHAOS_CHECK(enter(place_of(spec_, host)));
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    ::execvp(pointers[0], pointers.data());
    return system_error("cannot run " + arguments.front());
}

Result<void> Testbed::inside(const std::string& host, const std::function<Result<void>()>& work) const {
    CHAOS_CHECK(number_of(host));
    return testbed::inside(place_of(spec_, host), work);
}

Result<void> Testbed::signal(const std::string& host, int number) const {
    CHAOS_CHECK(number_of(host));
    for (const pid_t pid : processes_in(place_of(spec_, host).namespace_file)) {
        if (::kill(pid, number) != 0 && errno != ESRCH) return system_error("cannot signal " + std::to_string(pid));
    }
    return {};
}

Result<Testbed::Turn> Testbed::turn(const std::string& from, const std::string& to) const {
    CHAOS_CHECK(number_of(from));
    CHAOS_CHECK(number_of(to));
    for (std::size_t i = 0; i < spec_.links.size(); ++i) {
        const Link& link = spec_.links[i];
        if (link.a == from && link.b == to) return Turn(i, Way::forth);
        if (link.b == from && link.a == to) return Turn(i, Way::back);
    }
    return Error{"\"" + from + "\" and \"" + to + "\" are not linked"};
}

Result<std::vector<Testbed::Turn>> Testbed::both(const std::string& a, const std::string& b) const {
    CHAOS_TRY(const Turn forth, turn(a, b));
    CHAOS_TRY(const Turn back, turn(b, a));
    return std::vector{forth, back};
}

Result<std::vector<Testbed::Turn>> Testbed::all_of(const std::string& host) const {
    CHAOS_CHECK(number_of(host));
    std::vector<Turn> turns;
    for (std::size_t i = 0; i < spec_.links.size(); ++i) {
        if (spec_.links[i].a == host || spec_.links[i].b == host) {
            turns.emplace_back(i, Way::forth);
            turns.emplace_back(i, Way::back);
        }
    }
    return turns;
}

Result<void> Testbed::cut(const std::vector<Turn>& turns) {
    for (const auto& [link, way] : turns) switches_.of(link, way).cut = 1;
    return apply_switches(spec_, switches_, turns);
}

Result<void> Testbed::heal(const std::vector<Turn>& turns) {
    for (const auto& [link, way] : turns) {
        switches_.of(link, way).rate_bits_per_s = rate_in_spec(spec_.links[link], way);
        switches_.of(link, way).cut = 0;
    }
    return apply_switches(spec_, switches_, turns);
}

Result<void> Testbed::set_rate(const std::vector<Turn>& turns, double rate_mbit) {
    Spec asked = spec_;
    for (const auto& [link, way] : turns) asked.links[link].rate_mbit = rate_mbit;
    CHAOS_CHECK(check_spec(asked));
    for (const auto& [link, way] : turns) {
        switches_.of(link, way).rate_bits_per_s = static_cast<std::uint64_t>(std::llround(rate_mbit * 1e6));
    }
    return apply_switches(spec_, switches_, turns);
}

Result<void> Testbed::cut(const std::string& a, const std::string& b) {
    CHAOS_TRY(const auto turns, both(a, b));
    return cut(turns);
}

Result<void> Testbed::cut_one_way(const std::string& from, const std::string& to) {
    CHAOS_TRY(const Turn one, turn(from, to));
    return cut(std::vector{one});
}

Result<void> Testbed::isolate(const std::string& host) {
    CHAOS_TRY(const auto turns, all_of(host));
    return cut(turns);
}

Result<void> Testbed::set_rate(const std::string& a, const std::string& b, double rate_mbit) {
    CHAOS_TRY(const auto turns, both(a, b));
    return set_rate(turns, rate_mbit);
}

Result<void> Testbed::set_rate_one_way(const std::string& from, const std::string& to, double rate_mbit) {
    CHAOS_TRY(const Turn one, turn(from, to));
    return set_rate(std::vector{one}, rate_mbit);
}

Result<void> Testbed::heal(const std::string& a, const std::string& b) {
    CHAOS_TRY(const auto turns, both(a, b));
    return heal(turns);
}

Result<void> Testbed::heal_host(const std::string& host) {
    CHAOS_TRY(const auto turns, all_of(host));
    return heal(turns);
}

double Testbed::relay_cpu_seconds() const {
    const auto keeper = keeper_of(spec_.name);
    if (!keeper) return 0.0;
    clockid_t clock{};
    timespec used{};
    if (::clock_getcpuclockid(*keeper, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0.0;
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

}  // namespace chaos::testbed
