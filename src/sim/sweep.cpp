#include "sim/sweep.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

namespace chaos::sim {
namespace {

// A failed assertion ends the process; whose run it was must not be lost with it.
thread_local std::uint64_t running_seed = 0;

void name_the_seed(int) {
    std::array<char, 64> line{};
    const int length = std::snprintf(line.data(), line.size(), "in the run of seed %llu\n",
                                     static_cast<unsigned long long>(running_seed));
    if (::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(length)) < 0) return;
}

}  // namespace

Result<SweepResult> sweep(const SweepSettings& settings, const Wishes& wishes) {
    CHAOS_CHECK(make_setup(settings.begin, wishes));  // the wishes make sense, or do not for any seed
    std::atomic<std::uint64_t> next = settings.begin;
    std::atomic<std::uint64_t> stop_at = settings.end;
    std::mutex mutex;  // guards the result: runs are long, so nobody waits for it
    SweepResult result;
    std::signal(SIGABRT, name_the_seed);
    const auto work = [&] {
        if (settings.prepare_thread) settings.prepare_thread();
        for (;;) {
            const std::uint64_t seed = next.fetch_add(1);
            if (seed >= stop_at) return;
            running_seed = seed;
            const Setup setup = *make_setup(seed, wishes);
            const Outcome outcome = run(setup, {});
            const std::lock_guard lock(mutex);
            ++result.sums.runs;
            result.sums.steps += outcome.statistics.steps;
            result.sums.views += outcome.statistics.views;
            result.sums.forks += outcome.statistics.forks;
            result.sums.foundings += outcome.statistics.foundings;
            result.sums.messages += outcome.statistics.messages;
            result.sums.simulated += outcome.statistics.ended_at;
            if (outcome.statistics.stopped_rightly) ++result.sums.stopped_rightly;
            if (!outcome.failure && !outcome.statistics.stopped_rightly) {
                const Statistics& s = outcome.statistics;
                result.sums.resumed.push_back(s.resumed);
                result.sums.recovered.push_back(s.recovered);
                const auto ratio = [](Time time, Time allowed) {
                    return static_cast<double>(time) / static_cast<double>(std::max<Time>(allowed, 1));
                };
                result.sums.worst_resumed = std::max(result.sums.worst_resumed, ratio(s.resumed, s.resume_allowed));
                result.sums.worst_recovered =
                    std::max(result.sums.worst_recovered, ratio(s.recovered, s.recovery_allowed));
            }
            if (outcome.failure) {
                ++result.failures;
                if (!result.first || seed < result.first->seed) result.first = outcome;
                if (!settings.keep_going) stop_at = std::min(stop_at.load(), result.first->seed);
                if (settings.failed) settings.failed(outcome);
            }
            if (settings.progress) settings.progress(result.sums, result.failures);
        }
    };
    const unsigned count = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (unsigned i = 0; i < count; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    return result;
}

}  // namespace chaos::sim
