#include "elastic/tally.h"

#include "base/assert.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace chaos::elastic {
namespace {

constexpr double far_beyond = 1000.0;  // times the median norm

bool finite(const Contribution& part) {
    return std::isfinite(part.samples) && std::isfinite(part.loss) && std::isfinite(part.norm);
}

}  // namespace

std::size_t place_of(const cluster::View& view, cluster::NodeId node) {
    std::size_t place = 0;
    for (const cluster::MemberInfo& member : view.members) {
        if (member.id.node == node) break;
        if (member.standing == cluster::Standing::active) ++place;
    }
    return place;
}

void write_tally(std::span<float> into, std::size_t place, const Contribution& mine,
                 const std::optional<compute::Measure>& held_out) {
    CHAOS_ASSERT(into.size() == tally_floats);
    const std::size_t slot = place % tally_slots;
    std::ranges::fill(into, 0.0F);
    into[3 * slot] = static_cast<float>(mine.samples);
    into[3 * slot + 1] = static_cast<float>(mine.loss * mine.samples);
    into[3 * slot + 2] = static_cast<float>(mine.norm * mine.samples);
    if (!held_out) return;
    const std::span<float> end = into.last(3);
    const auto targets = static_cast<double>(held_out->targets);
    end[0] = static_cast<float>(held_out->loss * targets);
    end[1] = held_out->correct ? static_cast<float>(*held_out->correct) : -1.0F;
    end[2] = static_cast<float>(targets);
}

Tally read_tally(std::span<const float> tally) {
    CHAOS_ASSERT(tally.size() == tally_floats);
    Tally read;
    read.slots.resize(tally_slots);
    double loss = 0.0;
    for (std::size_t slot = 0; slot < tally_slots; ++slot) {
        Contribution& part = read.slots[slot];
        part.samples = tally[3 * slot];
        const bool any = part.samples != 0.0;
        part.loss = any ? tally[3 * slot + 1] / part.samples : tally[3 * slot + 1];
        part.norm = any ? tally[3 * slot + 2] / part.samples : tally[3 * slot + 2];
        read.samples += part.samples;
        loss += tally[3 * slot + 1];
    }
    read.loss = read.samples > 0.0 ? loss / read.samples : 0.0;
    const std::span<const float> end = tally.last(3);
    if (end[2] > 0.0F)
        read.held_out = compute::Measure{
            .loss = static_cast<double>(end[0]) / static_cast<double>(end[2]),
            .correct = end[1] < 0.0F ? std::nullopt : std::optional(static_cast<std::uint64_t>(end[1])),
            .targets = static_cast<std::uint64_t>(end[2])};
    return read;
}

std::optional<cluster::NodeId> culprit_of(const Tally& tally, const cluster::View& view) {
    std::vector<double> norms;
    for (const Contribution& part : tally.slots)
        if (part.samples > 0.0 && finite(part)) norms.push_back(part.norm);
    std::ranges::sort(norms);
    const double most =
        norms.size() < 2 ? std::numeric_limits<double>::infinity() : far_beyond * norms[(norms.size() - 1) / 2];
    for (const cluster::MemberInfo& member : view.members) {
        if (member.standing != cluster::Standing::active) continue;
        const Contribution& part = tally.slots[place_of(view, member.id.node) % tally_slots];
        if (!finite(part) || part.norm > most) return member.id.node;
    }
    return std::nullopt;
}

}  // namespace chaos::elastic
