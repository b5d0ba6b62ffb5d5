#include "elastic/tally.h"

#include "base/assert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace chaos::elastic {
namespace {

constexpr double far_beyond = 1000.0;  // times the median norm
constexpr double usual_norm = 1.0;     // of one of two, where it is less than that
constexpr unsigned half_bits = 24;
constexpr std::uint64_t low_bits = (std::uint64_t{1} << half_bits) - 1;

// Whatever a peer sent.
std::uint64_t whole(float half) {
    return half >= 0.0F && half <= static_cast<float>(low_bits) ? static_cast<std::uint64_t>(half) : 0;
}

// Whatever a peer sent; nullopt: it counts nothing.
std::optional<std::uint64_t> count_of(float sent) {
    constexpr auto beyond = static_cast<float>(std::uint64_t{1} << 63);
    if (!(sent >= 0.0F && sent < beyond)) return std::nullopt;
    return static_cast<std::uint64_t>(sent);
}

bool finite(const Contribution& part) {
    return std::isfinite(part.samples) && std::isfinite(part.loss) && std::isfinite(part.norm);
}

// What a norm may be; beyond that it is far from what the others found.
double largest_norm(const Tally& tally) {
    std::vector<double> norms;
    for (const Contribution& part : tally.slots)
        if (part.samples > 0.0 && finite(part) && part.norm > 0.0) norms.push_back(part.norm);
    std::ranges::sort(norms);
    if (norms.size() < 2) return std::numeric_limits<double>::infinity();
    if (norms.size() == 2) return far_beyond * std::max(norms.front(), usual_norm);
    return far_beyond * norms[(norms.size() - 1) / 2];
}

bool worthless(const Contribution& part, double most) {
    return !finite(part) || part.norm > most;
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

std::uint64_t told_bits_of(const cluster::Name& root) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, root.data(), 2 * half_bits / 8);
    return bits;
}

void write_tally(std::span<float> into, std::size_t place, const Contribution& mine,
                 const std::optional<compute::Measure>& held_out) {
    CHAOS_ASSERT(into.size() == tally_floats);
    const std::size_t slot = place % tally_slots;
    std::ranges::fill(into, 0.0F);
    const std::span<float> own = into.subspan(slot_floats * slot, slot_floats);
    own[0] = static_cast<float>(mine.samples);
    own[1] = static_cast<float>(mine.loss * mine.samples);
    own[2] = static_cast<float>(mine.norm * mine.samples);
    own[3] = static_cast<float>(mine.state & low_bits);
    own[4] = static_cast<float>(mine.state >> half_bits);
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
        const std::span<const float> told = tally.subspan(slot_floats * slot, slot_floats);
        part.samples = told[0];
        const bool any = part.samples != 0.0;
        part.loss = any ? told[1] / part.samples : told[1];
        part.norm = any ? told[2] / part.samples : told[2];
        part.state = whole(told[3]) | whole(told[4]) << half_bits;
        read.samples += part.samples;
        loss += told[1];
    }
    read.loss = read.samples > 0.0 ? loss / read.samples : 0.0;
    const std::span<const float> end = tally.last(3);
    if (const std::optional<std::uint64_t> targets = count_of(end[2]); targets.value_or(0) > 0)
        read.held_out = compute::Measure{.loss = static_cast<double>(end[0]) / static_cast<double>(end[2]),
                                         .correct = count_of(end[1]),
                                         .targets = *targets};
    return read;
}

std::optional<cluster::NodeId> culprit_of(const Tally& tally, const cluster::View& view) {
    const double most = largest_norm(tally);
    for (const cluster::MemberInfo& member : view.members) {
        if (member.standing != cluster::Standing::active) continue;
        if (worthless(tally.slots[place_of(view, member.id.node) % tally_slots], most)) return member.id.node;
    }
    return std::nullopt;
}

std::vector<cluster::NodeId> offenders_of(const Tally& tally, const cluster::View& view) {
    if (view.active_count() > tally_slots) return {};
    const double most = largest_norm(tally);
    std::vector<cluster::NodeId> offenders;
    std::size_t sound = 0;
    for (const cluster::MemberInfo& member : view.members) {
        if (member.standing != cluster::Standing::active) continue;
        const Contribution& part = tally.slots[place_of(view, member.id.node)];
        if (worthless(part, most)) {
            offenders.push_back(member.id.node);
        } else if (part.samples > 0.0) {
            ++sound;
        }
    }
    if (sound <= offenders.size()) offenders.clear();
    return offenders;
}

std::vector<cluster::NodeId> astray(const Tally& tally, const cluster::View& view) {
    if (view.active_count() > tally_slots) return {};
    std::map<std::uint64_t, std::size_t> members_with;
    std::map<cluster::NodeId, std::uint64_t> told;
    for (const cluster::MemberInfo& member : view.members) {
        if (member.standing != cluster::Standing::active) continue;
        const std::uint64_t state = tally.slots[place_of(view, member.id.node)].state;
        if (state == 0) continue;
        ++members_with[state];
        told.emplace(member.id.node, state);
    }
    if (members_with.size() < 2) return {};
    const auto longest = told.find(view.longest_standing());
    const auto weight = [&](const auto& entry) {
        return std::pair(entry.second, longest != told.end() && longest->second == entry.first);
    };
    const std::uint64_t right = std::ranges::max_element(members_with, {}, weight)->first;
    std::vector<cluster::NodeId> wrong;
    for (const auto& [node, state] : told)
        if (state != right) wrong.push_back(node);
    return wrong;
}

}  // namespace chaos::elastic
