#include "testbed/testbed.h"

#include "sockets.h"
#include "testbed/keeper.h"
#include "testbed/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <array>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

namespace chaos::testbed::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TestbedTest : public testing::Test {
protected:
    void SetUp() override {
        if (const auto possible = can_build(); !possible.ok()) GTEST_SKIP() << possible.error().message;
    }

    static Testbed start(const Spec& spec) {
        auto testbed = Testbed::start(spec);
        if (!testbed.ok()) throw std::runtime_error(testbed.error().message);
        return std::move(*testbed);
    }
    static Spec hosts(std::vector<Host> hosts, const Link& like) {
        Spec spec;
        spec.hosts = std::move(hosts);
        link_all(spec, like);
        return spec;
    }
    // Where hosts can have a quota, so that its traces are looked for, too.
    static double half_a_core() { return can_limit_cpus().ok() ? 0.5 : 0.0; }
    static std::string unique_name(const std::string& what) { return what + "-" + std::to_string(::getpid()); }
};

// Sends from one host to another while it lives.
class Stream {
public:
    Stream(const Testbed& testbed, const std::string& a, const std::string& b)
        : connection_(connect(testbed, a, b)),
          sender_([this] {
              const std::vector<char> data(1 << 16);
              while (::send(connection_.a.get(), data.data(), data.size(), MSG_NOSIGNAL) > 0) {
              }
          }),
          receiver_([this] {
              std::vector<char> data(1 << 16);
              while (::recv(connection_.b.get(), data.data(), data.size(), 0) > 0) {
              }
          }) {}
    ~Stream() {
        for (const Descriptor* end : {&connection_.a, &connection_.b}) ::shutdown(end->get(), SHUT_RDWR);
        sender_.join();
        receiver_.join();
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // After what was sent at another rate, or as a burst, has arrived.
    [[nodiscard]] double settled_mbit(double asked_mbit) const {
        [[maybe_unused]] const std::uint32_t ignored = arrival_of(1000);
        const auto start = Clock::now();
        const double frames = arrival_of(static_cast<std::uint32_t>(asked_mbit * 1e6 / 8.0 / 1514.0 * 0.6));
        return frames * 1514.0 * 8e-6 / std::chrono::duration<double>(Clock::now() - start).count();
    }

private:
    // Waits for that many more segments to arrive, in whichever order; returns how many did.
    [[nodiscard]] std::uint32_t arrival_of(std::uint32_t segments) const {
        const std::uint32_t start = info_of(connection_.a).tcpi_delivered;
        while (info_of(connection_.a).tcpi_delivered - start < segments) ::poll(nullptr, 0, 1);
        return info_of(connection_.a).tcpi_delivered - start;
    }

    Connection connection_;
    std::thread sender_;
    std::thread receiver_;
};

TEST_F(TestbedTest, ALinkCarriesItsRateEachWayAndCanBeSlowed) {
    Testbed testbed = start(hosts({{"a"}, {"b"}}, {.rate_mbit = 100.0, .rate_back_mbit = 40.0}));
    {
        const Stream back(testbed, "b", "a");
        EXPECT_NEAR(back.settled_mbit(40.0), 40.0, 2.0);
    }
    const Stream stream(testbed, "a", "b");
    EXPECT_NEAR(stream.settled_mbit(100.0), 100.0, 5.0);
    must(testbed.set_rate_one_way("a", "b", 30.0));
    EXPECT_NEAR(stream.settled_mbit(30.0), 30.0, 1.5);
    must(testbed.heal("a", "b"));
    EXPECT_NEAR(stream.settled_mbit(100.0), 100.0, 5.0);
}

TEST_F(TestbedTest, ARelayedLinkCarriesItsRateAndCanBeSlowed) {
    Testbed testbed = start(hosts({{"a"}, {"b"}}, {.rate_mbit = 100.0, .delay_ms = 5.0}));
    const Stream stream(testbed, "a", "b");
    EXPECT_NEAR(stream.settled_mbit(100.0), 100.0, 5.0);
    must(testbed.set_rate("a", "b", 30.0));
    EXPECT_NEAR(stream.settled_mbit(30.0), 30.0, 1.5);
}

TEST_F(TestbedTest, AMessageTakesTheDelayOfItsLink) {
    const Testbed testbed = start(hosts({{"a"}, {"b"}}, {.rate_mbit = 500.0, .delay_ms = 10.0}));
    const std::vector<double> delays_ms = datagram_delays_ms(testbed, "a", "b", 31);
    EXPECT_GE(delays_ms.front(), 10.0 - 0.001);
    EXPECT_NEAR(delays_ms[delays_ms.size() / 2], 10.0, 1.0);
}

TEST_F(TestbedTest, ALossyLinkLosesPacketsAndTcpSendsThemAgain) {
    const Testbed testbed =
        start(hosts({{"a"}, {"b"}}, {.rate_mbit = 100.0, .delay_ms = 2.0, .jitter_ms = 1.0, .loss_percent = 2.0}));
    const Connection connection = connect(testbed, "a", "b");
    std::thread sender([&] {
        const std::vector<char> data(2'000'000);
        ::send(connection.a.get(), data.data(), data.size(), MSG_NOSIGNAL);
    });
    std::vector<char> received(2'000'000);
    must(::recv(connection.b.get(), received.data(), received.size(), MSG_WAITALL) == 2'000'000, "recv");
    sender.join();
    // 1,381 segments; the binomial's middle 99.9999 %, were there no losses of repeated ones.
    EXPECT_GE(info_of(connection.a).tcpi_total_retrans, 7U);
    EXPECT_LE(info_of(connection.a).tcpi_total_retrans, 200U);
}

class CutTest : public TestbedTest, public testing::WithParamInterface<double> {};

TEST_P(CutTest, ACutLinkIsSilentUntilItIsHealed) {
    Testbed testbed = start(hosts({{"a"}, {"b"}}, {.rate_mbit = 100.0, .delay_ms = GetParam()}));
    const Connection connection = connect(testbed, "a", "b");
    must(testbed.cut("a", "b"));
    send_byte(connection.a);
    send_byte(connection.b);
    wait_for_retries(connection.a);
    wait_for_retries(connection.b);
    EXPECT_TRUE(is_silent(connection.a));
    EXPECT_TRUE(is_silent(connection.b));
    must(testbed.heal("a", "b"));
    receive_byte(connection.a);
    receive_byte(connection.b);
}

TEST_P(CutTest, OneWayLeavesTheOtherWay) {
    Testbed testbed = start(hosts({{"a"}, {"b"}}, {.rate_mbit = 100.0, .delay_ms = GetParam()}));
    const Connection connection = connect(testbed, "a", "b");
    must(testbed.cut_one_way("a", "b"));
    send_byte(connection.a);
    send_byte(connection.b);
    receive_byte(connection.a);
    wait_for_retries(connection.a);
    wait_for_retries(connection.b);  // what tells b that its byte has arrived is lost
    EXPECT_TRUE(is_silent(connection.b));
    must(testbed.heal("a", "b"));
    receive_byte(connection.b);
}

INSTANTIATE_TEST_SUITE_P(VethAndRelay, CutTest, testing::Values(0.0, 1.0));

TEST_F(TestbedTest, AnIsolatedHostLosesAllItsLinksAndOthersNone) {
    Testbed testbed = start(hosts({{"a"}, {"b"}, {"c"}}, {.rate_mbit = 100.0}));
    const Connection ab = connect(testbed, "a", "b");
    const Connection ca = connect(testbed, "c", "a");
    const Connection bc = connect(testbed, "b", "c");
    must(testbed.isolate("a"));
    for (const Connection* connection : {&ab, &ca, &bc}) send_byte(connection->a);
    receive_byte(bc.b);
    wait_for_retries(ab.a);
    wait_for_retries(ca.a);
    EXPECT_TRUE(is_silent(ab.b));
    EXPECT_TRUE(is_silent(ca.b));
    must(testbed.heal_host("a"));
    receive_byte(ab.b);
    receive_byte(ca.b);
}

double cpu_seconds(pid_t pid) {
    clockid_t clock{};
    timespec used{};
    must(::clock_getcpuclockid(pid, &clock) == 0 && ::clock_gettime(clock, &used) == 0, "clock");
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

TEST_F(TestbedTest, AHostUsesNoMoreThanItsQuota) {
    if (const auto possible = can_limit_cpus(); !possible.ok()) GTEST_SKIP() << possible.error().message;
    const Testbed testbed = start(hosts({{"a", 0.2}}, {}));
    const auto start_time = Clock::now();
    auto process = testbed.spawn("a", {"sh", "-c", "while :; do :; done"});
    ASSERT_TRUE(process.ok()) << process.error().message;
    while (cpu_seconds(process->pid()) < 0.1) ::poll(nullptr, 0, 1);
    // 0.1 s at 0.2 cores takes 0.5 s; the first period's quota comes at once.
    EXPECT_GE(std::chrono::duration<double>(Clock::now() - start_time).count(), 0.45);
}

// As in ps: R runs, S sleeps, T is frozen.
char state_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string number;
    std::string name;
    char state = ' ';
    file >> number >> name >> state;
    return state;
}

TEST_F(TestbedTest, ProcessesPrintAndEnd) {
    const Testbed testbed = start(hosts({{"a"}}, {}));
    auto process = testbed.spawn("a", {"sh", "-c", "echo bad >&2; ip address; exit 5"});
    ASSERT_TRUE(process.ok()) << process.error().message;
    EXPECT_TRUE(process->wait_for_output(*testbed.address("a")));
    EXPECT_EQ(process->wait(), 5);
    EXPECT_FALSE(process->wait_for_output("something else"));
    EXPECT_EQ(process->err(), "bad\n");
}

TEST_F(TestbedTest, ProcessesFreezeThawAndAreKilled) {
    const Testbed testbed = start(hosts({{"a"}}, {}));
    auto process = testbed.spawn("a", {"sleep", "1000"});
    ASSERT_TRUE(process.ok()) << process.error().message;
    process->freeze();
    while (state_of(process->pid()) != 'T') ::poll(nullptr, 0, 1);
    process->thaw();
    while (state_of(process->pid()) != 'S') ::poll(nullptr, 0, 1);
    must(testbed.signal("a", SIGSTOP));
    while (state_of(process->pid()) != 'T') ::poll(nullptr, 0, 1);
    process->kill();
    EXPECT_EQ(process->wait(), -SIGKILL);
}

TEST_F(TestbedTest, MistakesAreExplained) {
    Testbed testbed = start(hosts({{"a"}, {"b"}}, {}));
    EXPECT_THAT(testbed.cut("a", "x").error().message, HasSubstr("no host is called \"x\"; there is a or b"));
    EXPECT_THAT(testbed.cut("a", "a").error().message, HasSubstr("not linked"));
    EXPECT_THAT(testbed.set_rate("a", "b", -1.0).error().message, HasSubstr("rate_mbit must be from"));
    EXPECT_THAT(testbed.spawn("a", {"no-such-program"}).error().message, HasSubstr("cannot run no-such-program"));
    EXPECT_THAT(Testbed::start(testbed.spec()).error().message, HasSubstr("already up"));
    EXPECT_THAT(Testbed::attach("no-such").error().message, HasSubstr("no testbed called \"no-such\" is up"));
}

// Names of everything in the system that belongs to the testbed.
std::vector<std::string> traces_of(const std::string& name) {
    std::vector<std::string> found;
    for (const char* folder : {"/run/netns", "/sys/fs/cgroup/cpu", "/run/chaos-testbed"}) {
        std::error_code failure;
        for (const auto& entry : fs::directory_iterator(folder, failure)) {
            if (entry.path().filename().string().find(name) != std::string::npos) found.push_back(entry.path());
        }
    }
    return found;
}

void wait_for_end(const Descriptor& pidfd) {
    pollfd end{pidfd.get(), POLLIN, 0};
    must(::poll(&end, 1, -1) == 1, "poll");
}

Descriptor watch(pid_t pid) {
    Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    must(end.get() >= 0, "pidfd_open");
    return end;
}

TEST_F(TestbedTest, NothingIsLeftWhenTheOwnerIsKilled) {
    Spec spec = hosts({{"a", half_a_core()}, {"b"}, {"c"}}, {.rate_mbit = 100.0});
    spec.links.front().delay_ms = 1.0;
    spec.name = unique_name("killed");
    std::array<int, 2> ends{};
    must(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe");
    const pid_t owner = ::fork();
    if (owner == 0) {
        const auto testbed = Testbed::start(spec);
        const auto process = testbed->spawn("a", {"sleep", "1000"});
        const pid_t pid = process->pid();
        if (::write(ends[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
        while (true) ::pause();
    }
    ::close(ends[1]);
    pid_t guest = 0;
    ASSERT_EQ(::read(ends[0], &guest, sizeof guest), static_cast<ssize_t>(sizeof guest));
    EXPECT_GE(traces_of(spec.name).size(), 4U);  // three namespaces, a folder
    const Descriptor guest_end = watch(guest);
    const Descriptor keeper_end = watch(keeper_of(spec.name).value());
    ::kill(owner, SIGKILL);
    ::waitpid(owner, nullptr, 0);
    wait_for_end(keeper_end);
    wait_for_end(guest_end);
    EXPECT_THAT(traces_of(spec.name), testing::IsEmpty());
}

TEST_F(TestbedTest, WhatAKilledKeeperLeavesIsRemovedByTheNext) {
    Spec spec = hosts({{"a", half_a_core()}, {"b"}}, {.rate_mbit = 100.0});
    spec.name = unique_name("left");
    must(Testbed::leave(spec));
    const pid_t keeper = keeper_of(spec.name).value();
    ::kill(keeper, SIGKILL);
    ::waitpid(keeper, nullptr, 0);
    EXPECT_GE(traces_of(spec.name).size(), 3U);
    EXPECT_FALSE(Testbed::attach(spec.name).ok());
    {
        Spec other = hosts({{"a"}}, {});
        other.name = unique_name("other");
        const Testbed testbed = start(other);
        EXPECT_THAT(traces_of(spec.name), testing::IsEmpty());
    }
    EXPECT_THAT(traces_of(unique_name("other")), testing::IsEmpty());
}

TEST_F(TestbedTest, TheCommandDoesTheSame) {
    const std::string name = unique_name("command");
    const fs::path file = fs::temp_directory_path() / (name + ".toml");
    std::ofstream(file) << "name = \"" << name
                        << "\"\nhost = [{name = \"a\"}, {name = \"b\"}]\n[defaults]\ndelay_ms = 1\n";
    const auto command = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {CHAOS_TESTBED_BINARY, "--name", name});
        auto process = Process::start(arguments);
        if (!process.ok()) throw std::runtime_error(process.error().message);
        const int code = process->wait();
        return std::pair(code, process->out() + process->err());
    };
    EXPECT_EQ(command({"up", file.string()}).first, 0);
    fs::remove(file);
    EXPECT_EQ(command({"exec", "a", "--", "sh", "-c", "exit 7"}).first, 7);
    EXPECT_THAT(command({"exec", "a", "--", "ip", "route"}).second, HasSubstr("10.77.0.2 dev to-b"));
    EXPECT_EQ(command({"cut", "a", "b", "--one-way"}).first, 0);
    EXPECT_EQ(command({"rate", "a", "b", "20"}).first, 0);
    {
        auto testbed = Testbed::attach(name);
        ASSERT_TRUE(testbed.ok());
        EXPECT_EQ(command({"heal", "a"}).first, 0);
        const Connection connection = connect(*testbed, "a", "b");
        send_byte(connection.a);
        receive_byte(connection.b);
    }
    const auto [code, text] = command({"cut", "a", "z"});
    EXPECT_EQ(code, 1);
    EXPECT_THAT(text, HasSubstr("no host is called \"z\""));
    EXPECT_EQ(command({"down"}).first, 0);
    EXPECT_THAT(traces_of(name), testing::IsEmpty());
    EXPECT_THAT(command({"down"}).second, HasSubstr("no testbed called"));
}

}  // namespace
}  // namespace chaos::testbed::test
