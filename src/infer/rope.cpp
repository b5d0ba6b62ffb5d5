#include "infer/rope.h"

#include "base/assert.h"

#include <cmath>

namespace chaos::infer {
namespace {

constexpr double ln2 = 0x1.62e42fefa39efp-1;

// log2 of a number above 0: its exponent, and a series for what is left, between sqrt(1/2) and sqrt(2).
double log2_of(double value) {
    int exponent = 0;
    double rest = std::frexp(value, &exponent);  // in [0.5, 1)
    if (rest < 0x1.6a09e667f3bcdp-1) {
        rest *= 2.0;
        --exponent;
    }
    // ln(rest) = 2 atanh(t), |t| < 0.172
    const double t = (rest - 1.0) / (rest + 1.0);
    double sum = 0.0;
    for (int odd = 25; odd >= 1; odd -= 2) sum = sum * (t * t) + 1.0 / odd;
    return static_cast<double>(exponent) + 2.0 * t * sum / ln2;
}

double exp2_of(double value) {
    const double whole = std::nearbyint(value);
    const double x = (value - whole) * ln2;  // |x| < 0.347
    double sum = 1.0;
    for (int i = 16; i >= 1; --i) sum = 1.0 + sum * x / i;
    return std::ldexp(sum, static_cast<int>(whole));
}

struct SineCosine {
    double sine = 0.0;
    double cosine = 0.0;
};

// Of an angle below 2^20 times pi / 2: quarter turns are taken off in three parts, the first two of which have so few
// bits that their products are exact; series for what is left.
SineCosine sine_cosine(double angle) {
    const double quarters = std::nearbyint(angle * 0x1.45f306dc9c883p-1);
    const double x =
        ((angle - quarters * 0x1.921fb544p0) - quarters * 0x1.0b4611a6p-34) - quarters * 0x1.3198a2e037073p-69;
    const double square = x * x;
    double sine = 1.0;
    double cosine = 1.0;
    for (int i = 18; i >= 2; i -= 2) {
        sine = 1.0 - sine * square / (i * (i + 1));
        cosine = 1.0 - cosine * square / (i * (i - 1));
    }
    sine *= x;
    switch (static_cast<long>(quarters) & 3L) {
        case 0:
            return {sine, cosine};
        case 1:
            return {cosine, -sine};
        case 2:
            return {-sine, -cosine};
        default:
            return {-cosine, sine};
    }
}

}  // namespace

double power(double base, double exponent) {
    CHAOS_ASSERT(base > 0.0);
    return exp2_of(exponent * log2_of(base));
}

std::vector<float> inverse_frequencies(double theta, std::size_t dimensions) {
    std::vector<float> values(dimensions / 2);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(power(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dimensions)));
    return values;
}

void angles_of(std::size_t position, std::span<const float> inverse_frequencies, std::span<float> cosines,
               std::span<float> sines) {
    CHAOS_ASSERT(position < (std::size_t{1} << 20));
    CHAOS_ASSERT(cosines.size() == inverse_frequencies.size() && sines.size() == inverse_frequencies.size());
    for (std::size_t i = 0; i < inverse_frequencies.size(); ++i) {
        const float angle = static_cast<float>(position) * inverse_frequencies[i];
        const SineCosine both = sine_cosine(static_cast<double>(angle));
        cosines[i] = static_cast<float>(both.cosine);
        sines[i] = static_cast<float>(both.sine);
    }
}

}  // namespace chaos::infer
