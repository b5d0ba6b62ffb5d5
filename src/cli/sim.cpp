#include "cli/commands.h"

#include "sim/report.h"
#include "sim/sweep.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>

namespace chaos::cli {
namespace {

using sim::Outcome;

sim::Wishes wishes_of(const SimOptions& options) {
    sim::Wishes wishes;
    wishes.scenario = options.scenario;
    wishes.nodes = options.nodes;
    if (options.policy) wishes.strict = *options.policy == "strict";
    if (options.seconds) wishes.duration = static_cast<sim::Time>(*options.seconds) * sim::second;
    return wishes;
}

std::string replay_command(const SimOptions& options, std::uint64_t seed) {
    std::string command = "chaos sim --seed " + std::to_string(seed);
    if (options.scenario != "mixed") command += " --scenario " + options.scenario;
    if (options.nodes) command += " --nodes " + std::to_string(*options.nodes);
    if (options.policy) command += " --policy " + *options.policy;
    if (options.seconds) command += " --seconds " + std::to_string(*options.seconds);
    return command + " --trace";
}

std::string headline(const Outcome& outcome) {
    return "seed " + std::to_string(outcome.seed) + " (" + outcome.scenario + ", " + std::to_string(outcome.nodes) +
           " nodes, " + (outcome.strict ? "strict" : "continue") + ")";
}

// "0.4 s in half of the runs, 2.1 s in 99 %, 5.0 s in all"
std::string spread_of(std::vector<sim::Time> times) {
    if (times.empty()) return "no time: no run came to its end";
    std::sort(times.begin(), times.end());
    const auto at = [&](std::size_t percent) {
        const sim::Time time = times[std::min(times.size() * percent / 100, times.size() - 1)];
        std::array<char, 32> text{};
        std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(time) / sim::second);
        return std::string(text.data());
    };
    return at(50) + " in half of the runs, " + at(99) + " in 99 %, " + at(100) + " in all";
}

void print_failure(const SimOptions& options, const Outcome& outcome) {
    std::printf("%s fails: %s\n", headline(outcome).c_str(), outcome.failure->c_str());
    std::printf("replay it: %s\n", replay_command(options, outcome.seed).c_str());
    std::fflush(stdout);  // what comes next may crash, if that is what was found
}

void print_shrunk(const sim::Setup& setup) {
    constexpr std::size_t tries = 200;
    const sim::Setup less = sim::shrink(setup, tries);
    std::printf("%zu of its %zu faults are enough:\n", less.faults.size(), setup.faults.size());
    for (const sim::Fault& fault : less.faults) std::printf("  %s\n", sim::describe(fault).c_str());
}

Result<bool> run_one(const SimOptions& options) {
    CHAOS_TRY(const sim::Setup setup, sim::make_setup(options.seed, wishes_of(options)));
    const sim::Watching watching{.trace = options.trace, .timeline = !options.report.empty()};
    sim::World world(setup, watching);
    const Outcome outcome = sim::run(world, setup);
    const sim::Statistics& sums = outcome.statistics;
    std::printf(
        "%s: %.1f virtual seconds, %llu steps, %llu views, %llu forks, %llu messages of %.1f bytes, stalled for "
        "%.1f node-seconds\n",
        headline(outcome).c_str(), static_cast<double>(sums.ended_at) / sim::second,
        static_cast<unsigned long long>(sums.steps), static_cast<unsigned long long>(sums.views),
        static_cast<unsigned long long>(sums.forks), static_cast<unsigned long long>(sums.messages),
        static_cast<double>(sums.bytes) / static_cast<double>(std::max<std::uint64_t>(sums.messages, 1)),
        static_cast<double>(sums.stalled) / sim::second);
    std::printf("most bytes were sent for: %s\n", sim::busiest_kinds(sums).c_str());
    if (!options.report.empty()) {
        CHAOS_CHECK(sim::write_report(options.report, world, outcome));
        std::printf("wrote %s\n", options.report.c_str());
    }
    if (!outcome.failure) {
        std::puts(sums.stopped_rightly ? "stopped, as it must: strict, and a quorum is gone for good"
                                       : "all invariants held");
        return true;
    }
    print_failure(options, outcome);
    print_shrunk(setup);
    return false;
}

Result<bool> run_many(const SimOptions& options) {
    sim::SweepSettings settings;
    settings.begin = options.first_seed;
    settings.end = options.last_seed;
    settings.keep_going = options.keep_going;
    const bool terminal = ::isatty(STDERR_FILENO) != 0;
    const auto began = std::chrono::steady_clock::now();
    auto shown = began;
    settings.progress = [&](const sim::Sums& sums, std::uint64_t failures) {
        const auto now = std::chrono::steady_clock::now();
        if (!terminal || now - shown < std::chrono::milliseconds(200)) return;
        shown = now;
        std::fprintf(stderr, "\r%llu of %llu seeds, %llu failed ", static_cast<unsigned long long>(sums.runs),
                     static_cast<unsigned long long>(settings.end - settings.begin),
                     static_cast<unsigned long long>(failures));
    };
    if (options.keep_going) settings.failed = [&](const Outcome& outcome) { print_failure(options, outcome); };
    CHAOS_TRY(const sim::SweepResult result, sim::sweep(settings, wishes_of(options)));
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (terminal) std::fputs("\r", stderr);
    const sim::Sums& sums = result.sums;
    std::printf(
        "%llu seeds in %.1f s: %.0f virtual hours, %llu steps, %llu views, %llu forks, %llu foundings, %llu stopped "
        "rightly, %llu failed\n",
        static_cast<unsigned long long>(sums.runs), took, static_cast<double>(sums.simulated) / sim::second / 3600,
        static_cast<unsigned long long>(sums.steps), static_cast<unsigned long long>(sums.views),
        static_cast<unsigned long long>(sums.forks), static_cast<unsigned long long>(sums.foundings),
        static_cast<unsigned long long>(sums.stopped_rightly), static_cast<unsigned long long>(result.failures));
    std::printf(
        "after the last fault, a step was committed within %s (%.2f of what is allowed); all trained together within "
        "%s (%.2f)\n",
        spread_of(sums.resumed).c_str(), sums.worst_resumed, spread_of(sums.recovered).c_str(), sums.worst_recovered);
    if (!result.first) return true;
    print_failure(options, *result.first);
    print_shrunk(*sim::make_setup(result.first->seed, wishes_of(options)));
    return false;
}

}  // namespace

Result<bool> simulate(const SimOptions& options) {
    if (options.policy && *options.policy != "strict" && *options.policy != "continue")
        return Error{"--policy is strict or continue, not \"" + *options.policy + "\""};
    if (options.sweep && options.last_seed <= options.first_seed)
        return Error{"--seeds A..B needs A < B: it runs seeds A to B - 1"};
    if (options.sweep && (options.trace || !options.report.empty()))
        return Error{"--trace and --report are about one run: use --seed N instead of --seeds"};
    return options.sweep ? run_many(options) : run_one(options);
}

}  // namespace chaos::cli
