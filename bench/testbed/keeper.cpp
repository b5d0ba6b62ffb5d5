#include "testbed/keeper.h"

#include "base/file.h"
#include "testbed/network.h"
#include "testbed/relay.h"
#include "testbed/switches.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace chaos::testbed {
namespace {

namespace fs = std::filesystem;

const fs::path run_folder = "/run/chaos-testbed";

Result<Descriptor> open_lock(const fs::path& path) {
    Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.get() < 0) return system_error("cannot open " + path.string());
    return lock;
}

bool try_lock(const Descriptor& lock) {
    return ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

// Held by whoever takes or removes names, so that nobody takes a testbed that is about to be locked for a dead one.
Result<Descriptor> lock_names() {
    std::error_code failure;
    fs::create_directories(run_folder, failure);
    if (failure) return Error{"cannot make " + run_folder.string() + ": " + failure.message()};
    CHAOS_TRY(Descriptor lock, open_lock(run_folder / ".lock"));
    if (::flock(lock.get(), LOCK_EX) != 0) return system_error("cannot lock " + run_folder.string());
    return lock;
}

std::vector<std::string> all_names() {
    std::vector<std::string> names;
    std::error_code failure;
    for (const fs::directory_entry& entry : fs::directory_iterator(run_folder, failure)) {
        if (entry.is_directory()) names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

bool is_living(const std::string& name) {
    const Descriptor lock(::open((folder_of(name) / "lock").c_str(), O_RDWR | O_CLOEXEC));
    return lock.get() >= 0 && !try_lock(lock);
}

Result<void> remove_folder(const std::string& name) {
    std::error_code failure;
    fs::remove_all(folder_of(name), failure);
    if (failure) return Error{"cannot remove " + folder_of(name).string() + ": " + failure.message()};
    return {};
}

// Of a dead testbed, with the names locked.
Result<void> remove_leftovers(const std::string& name) {
    CHAOS_CHECK(remove_network(name));
    return remove_folder(name);
}

// Of the testbed whose lock we hold.
Result<void> remove_ours(const std::string& name) {
    CHAOS_CHECK(remove_network(name));
    CHAOS_TRY(const Descriptor names, lock_names());
    return remove_folder(name);
}

// The lock of the testbed that is ours from now on.
Result<Descriptor> claim(const std::string& name) {
    CHAOS_TRY(const Descriptor names, lock_names());
    for (const std::string& other : all_names()) {
        if (!is_living(other)) CHAOS_CHECK(remove_leftovers(other));
    }
    CHAOS_CHECK(make_folder(folder_of(name)));
    CHAOS_TRY(Descriptor lock, open_lock(folder_of(name) / "lock"));
    if (!try_lock(lock)) return Error{"a testbed called \"" + name + "\" is already up"};
    CHAOS_CHECK(write_file_atomically(folder_of(name) / "keeper", std::to_string(::getpid())));
    return lock;
}

struct Kept {
    Switches switches;
    std::vector<Relay> relays;  // after the switches, which they use to their end
};

Result<Kept> build(const Spec& spec) {
    CHAOS_CHECK(write_file_atomically(folder_of(spec.name) / "spec.toml", to_toml(spec)));
    CHAOS_TRY(Switches switches, Switches::create(folder_of(spec.name) / "switches", spec));
    CHAOS_TRY(auto relayed, build_network(spec, switches));
    Kept kept{std::move(switches), {}};
    for (RelayedLink& link : relayed) {
        CHAOS_TRY(Relay relay, Relay::start(std::move(link)));
        kept.relays.push_back(std::move(relay));
    }
    return kept;
}

// Signals that end us arrive here, on whichever thread.
Result<Descriptor> ending_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    Descriptor signals(::signalfd(-1, &set, SFD_CLOEXEC));
    if (signals.get() < 0) return system_error("cannot receive signals");
    return signals;
}

// Readable when the owner has ended.
Result<Descriptor> watch(std::optional<pid_t> owner) {
    if (!owner) return Descriptor();
    Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, *owner, 0)));
    if (end.get() < 0 || ::getppid() != *owner) return Error{"the owner of the testbed has ended"};
    return end;
}

Result<void> keep(const Spec& spec, std::optional<pid_t> owner) {
    CHAOS_TRY(const Descriptor signals, ending_signals());
    CHAOS_TRY(const Descriptor owner_end, watch(owner));
    CHAOS_TRY(const Descriptor lock, claim(spec.name));
    {
        const Result<Kept> kept = build(spec);
        if (!kept.ok()) {
            // The first error says more than one that follows from it.
            [[maybe_unused]] const auto ignored = remove_ours(spec.name);
            return kept.error();
        }
        std::fputs(keeper_ready, stdout);
        std::fflush(stdout);
        std::array<pollfd, 2> ends = {pollfd{signals.get(), POLLIN, 0}, pollfd{owner_end.get(), POLLIN, 0}};
        while (::poll(ends.data(), ends.size(), -1) <= 0) {
        }
    }
    return remove_ours(spec.name);
}

}  // namespace

fs::path folder_of(const std::string& name) {
    return run_folder / name;
}

std::vector<std::string> living_testbeds() {
    std::vector<std::string> names = all_names();
    std::erase_if(names, [](const std::string& name) { return !is_living(name); });
    return names;
}

std::optional<pid_t> keeper_of(const std::string& name) {
    if (!is_living(name)) return std::nullopt;
    const auto text = read_file(folder_of(name) / "keeper");
    if (!text.ok()) return std::nullopt;
    return static_cast<pid_t>(std::strtol(text->c_str(), nullptr, 10));
}

int keep_testbed(const Spec& spec, std::optional<pid_t> owner) {
    // Whoever started the owner may wait for the end of a pipe that we inherited and never use.
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    const Result<void> result = keep(spec, owner);
    if (result.ok()) return 0;
    std::printf("%s\n", result.error().message.c_str());
    return 1;
}

Result<bool> remove_testbed(const std::string& name) {
    if (!fs::exists(folder_of(name))) return false;
    if (const auto keeper = keeper_of(name)) {
        CHAOS_TRY(const Descriptor lock, open_lock(folder_of(name) / "lock"));
        ::kill(*keeper, SIGTERM);
        if (::flock(lock.get(), LOCK_EX) != 0) return system_error("cannot wait for the keeper of " + name);
    }
    CHAOS_TRY(const Descriptor names, lock_names());
    if (!is_living(name)) CHAOS_CHECK(remove_leftovers(name));
    return true;
}

}  // namespace chaos::testbed
