#include "state/schedule.h"

#include "base/assert.h"

#include <algorithm>

namespace chaos::state {
namespace {

constexpr double pi = 3.14159265358979323846;

// Taylor series; at |x| <= pi/4 the next term is below 1e-17.
double small_cosine(double x) {
    const double square = x * x;
    double sum = 0.0;
    for (int n = 16; n >= 2; n -= 2) sum = (1.0 + sum) * (-square / (n * (n - 1)));
    return 1.0 + sum;
}

double small_sine(double x) {
    const double square = x * x;
    double sum = 0.0;
    for (int n = 17; n >= 3; n -= 2) sum = (1.0 + sum) * (-square / (n * (n - 1)));
    return x * (1.0 + sum);
}

}  // namespace

double cosine_of_pi(double x) {
    CHAOS_ASSERT(x >= 0.0 && x <= 1.0);
    if (x > 0.5) return -cosine_of_pi(1.0 - x);
    return x <= 0.25 ? small_cosine(pi * x) : small_sine(pi * (0.5 - x));
}

double power(double base, std::uint64_t exponent) {
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}

double learning_rate(const run::Schedule& schedule, double largest, std::uint64_t step, std::uint64_t steps) {
    const auto warmup = static_cast<std::uint64_t>(schedule.warmup_steps);
    if (step < warmup) return largest * static_cast<double>(step + 1) / static_cast<double>(warmup);
    if (schedule.kind == "constant") return largest;
    CHAOS_ASSERT(schedule.kind == "cosine");
    const std::uint64_t last = steps > warmup + 1 ? steps - 1 - warmup : 1;
    const double progress = static_cast<double>(std::min(step - warmup, last)) / static_cast<double>(last);
    const double share = 0.5 * (1.0 + cosine_of_pi(progress));
    return largest * (schedule.final_ratio + (1.0 - schedule.final_ratio) * share);
}

}  // namespace chaos::state
