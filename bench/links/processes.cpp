#include "processes.h"

#include "base/assert.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

namespace chaos::bench {

struct Meeting::Shared {
    std::atomic<unsigned> arrivals = 0;
    std::array<std::atomic<std::uint16_t>, max_processes> ports{};
    std::array<double, max_figures> figures{};
    std::size_t figure_count = 0;
};

Meeting::Meeting(unsigned processes) : processes_(processes) {
    CHAOS_ASSERT(processes <= max_processes);
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHAOS_ASSERT(memory != MAP_FAILED);
    shared_ = new (memory) Shared;
}

Meeting::~Meeting() {
    ::munmap(shared_, sizeof(Shared));
}

void Meeting::wait(const std::function<void()>& meanwhile) {
    ++shared_->arrivals;
    for (const unsigned all = ++waits_ * processes_; shared_->arrivals < all;) meanwhile();
}

void Meeting::tell_port(unsigned number, std::uint16_t port) {
    shared_->ports[number] = port;
}

std::uint16_t Meeting::port_of(unsigned number) const {
    while (shared_->ports[number] == 0) std::this_thread::yield();
    return shared_->ports[number];
}

std::vector<double> run_together(unsigned processes,
                                 const std::function<std::vector<double>(Meeting&, unsigned)>& part) {
    Meeting meeting(processes);
    std::vector<pid_t> running;
    for (unsigned number = 0; number < processes; ++number) {
        const pid_t child = ::fork();
        CHAOS_ASSERT(child >= 0);
        if (child != 0) {
            running.push_back(child);
            continue;
        }
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody stays behind when the benchmark is stopped
        const std::vector<double> figures = part(meeting, number);
        CHAOS_ASSERT(figures.size() <= Meeting::max_figures);
        if (number == 0) {
            std::ranges::copy(figures, meeting.shared_->figures.begin());
            meeting.shared_->figure_count = figures.size();
        }
        std::_Exit(0);  // what the libraries would tidy up, the system does
    }
    while (!running.empty()) {
        int status = 0;
        const pid_t child = ::waitpid(-1, &status, 0);
        std::erase(running, child);
        if (status == 0) continue;
        for (const pid_t other : running) ::kill(other, SIGKILL);
        give_up("one of " + std::to_string(processes) + " processes failed");
    }
    const auto& figures = meeting.shared_->figures;
    return {figures.begin(), figures.begin() + static_cast<std::ptrdiff_t>(meeting.shared_->figure_count)};
}

void give_up(const std::string& why) {
    std::fprintf(stderr, "bench links: %s\n", why.c_str());
    std::_Exit(2);
}

}  // namespace chaos::bench
