#include "tensor/ability.h"

#include "base/median.h"

#include <algorithm>
#include <numeric>

namespace chaos::tensor {
namespace {

constexpr std::size_t kept_passes = 64;
constexpr std::size_t enough_passes = 16;
// A layer's half calls the pool so often, and does some things alone.
constexpr std::uint64_t calls_of_a_phase = 3;
constexpr std::uint64_t alone_ns = 4'000;
constexpr double most_factor = 2.0;
constexpr std::uint64_t nearly_always_permille = 900;

std::uint64_t first_phase_ns(const infer::Speed& measured) {
    return calls_of_a_phase * measured.call_ns + alone_ns;
}

std::optional<double> mean(const std::deque<double>& values) {
    if (values.empty()) return std::nullopt;
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void Paces::add(double whole_s, double own_s) {
    whole_s_.push_back(whole_s);
    own_s_.push_back(own_s);
    if (whole_s_.size() <= kept_passes) return;
    whole_s_.pop_front();
    own_s_.pop_front();
}

bool Paces::tell() const {
    return whole_s_.size() >= enough_passes;
}
double Paces::usual_s() const {
    return median(whole_s_);
}
double Paces::usual_own_s() const {
    return median(own_s_);
}
std::optional<double> Paces::mean_s() const {
    return mean(whole_s_);
}
std::optional<double> Paces::mean_own_s() const {
    return mean(own_s_);
}

Ability::Ability(const infer::Speed& measured)
    : measured_(measured),
      weight_bytes_per_s_(measured.weight_bytes_per_s),
      phase_ns_(first_phase_ns(measured)),
      share_permille_(measured.share_permille) {}

void Ability::learn(double own_s, std::uint64_t weight_bytes, std::uint64_t phases) {
    if (weight_bytes == 0 || measured_.weight_bytes_per_s == 0 || own_s <= 0.0) return;
    const double weights_s = static_cast<double>(weight_bytes) / static_cast<double>(measured_.weight_bytes_per_s);
    const double phase_s = 1e-9 * static_cast<double>(first_phase_ns(measured_));
    const double factor = std::min(own_s / (weights_s + phase_s * static_cast<double>(phases)), most_factor);
    weight_bytes_per_s_ = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(static_cast<double>(measured_.weight_bytes_per_s) / factor));
    const double beyond = std::max(0.0, own_s - factor * weights_s);
    phase_ns_ = static_cast<std::uint64_t>(1e9 * beyond / static_cast<double>(phases));
}

void Ability::learn(const Rehearsed& rehearsed, std::uint64_t weight_bytes, std::uint64_t phases) {
    learn(rehearsed.token_s, weight_bytes, phases);
    share_permille_ = rehearsed.share_permille;
}

bool Ability::learns_from_passes() const {
    return share_permille_ >= nearly_always_permille;
}

}  // namespace chaos::tensor
