#include "soak/lateness.h"

#include "nodes/nodes.h"

#include <chrono>

namespace chaos::bench {
namespace {

constexpr std::chrono::milliseconds moment{10};
constexpr double usual_s = 0.02;

}  // namespace

Lateness::Lateness() : thread_([this](const std::stop_token& end) { watch(end); }) {}

double Lateness::since(double time) const {
    const std::lock_guard lock(mutex_);
    double all = 0.0;
    for (const auto& [when, late] : seen_)
        if (when >= time) all += late;
    return all;
}

void Lateness::watch(const std::stop_token& end) {
    while (!end.stop_requested()) {
        const double before = now();
        std::this_thread::sleep_for(moment);
        const double late = now() - before - std::chrono::duration<double>(moment).count();
        if (late < usual_s) continue;
        const std::lock_guard lock(mutex_);
        seen_.emplace_back(now(), late);
    }
}

}  // namespace chaos::bench
