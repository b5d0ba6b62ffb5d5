#include "elastic/tally.h"

#include "base/assert.h"
#include "base/random.h"

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

// Of the active members, in order, each with its slot.
void for_each_member(const cluster::View& view, std::uint64_t step, const auto& tell) {
    std::size_t place = 0;
    for (const cluster::MemberInfo& member : view.members)
        if (member.standing == cluster::Standing::active) tell(member, slot_of(place++, view.active_count(), step));
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

std::size_t slot_of(std::size_t place, std::size_t members, std::uint64_t step) {
    if (members <= own_slots) return place;
    // Drawn, because states are compared every few steps: who has its turn by them may miss those for ever.
    const std::size_t turn = (place + random_bits(0, 0, step) % members) % members;
    return turn < own_slots ? turn : own_slots + turn % shared_slots;
}

std::uint64_t told_bits_of(const cluster::Name& root) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, root.data(), 2 * half_bits / 8);
    return bits;
}

void write_tally(std::span<float> into, std::size_t slot, const Contribution& mine,
                 const std::optional<compute::Measure>& held_out) {
    CHAOS_ASSERT(into.size() == tally_floats && slot < tally_slots);
    std::ranges::fill(into, 0.0F);
    const std::span<float> own = into.subspan(slot_floats * slot, slot_floats);
    own[0] = static_cast<float>(mine.samples);
    own[1] = static_cast<float>(mine.loss * mine.samples);
    own[2] = static_cast<float>(mine.norm * mine.samples);
    if (slot < own_slots) {
        own[3] = static_cast<float>(mine.state & low_bits);
        own[4] = static_cast<float>(mine.state >> half_bits);
    }
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

std::optional<cluster::NodeId> culprit_of(const Tally& tally, const cluster::View& view, std::uint64_t step) {
    const double most = largest_norm(tally);
    std::optional<cluster::NodeId> culprit;
    for_each_member(view, step, [&](const cluster::MemberInfo& member, std::size_t slot) {
        if (!culprit && worthless(tally.slots[slot], most)) culprit = member.id.node;
    });
    return culprit;
}

std::vector<cluster::NodeId> offenders_of(const Tally& tally, const cluster::View& view, std::uint64_t step) {
    const double most = largest_norm(tally);
    std::vector<cluster::NodeId> offenders;
    std::size_t sound = 0;
    for_each_member(view, step, [&](const cluster::MemberInfo& member, std::size_t slot) {
        if (slot >= own_slots) return;
        if (worthless(tally.slots[slot], most)) {
            offenders.push_back(member.id.node);
        } else if (tally.slots[slot].samples > 0.0) {
            ++sound;
        }
    });
    if (sound <= offenders.size()) offenders.clear();
    return offenders;
}

std::vector<cluster::NodeId> astray(const Tally& tally, const cluster::View& view, std::uint64_t step) {
    struct Told {
        std::size_t members = 0;
        std::pair<std::uint64_t, cluster::NodeId> longest;  // active since that epoch
    };
    std::map<std::uint64_t, Told> told;  // by the state
    std::vector<std::pair<cluster::NodeId, std::uint64_t>> states;
    for_each_member(view, step, [&](const cluster::MemberInfo& member, std::size_t slot) {
        const std::uint64_t state = tally.slots[slot].state;
        if (slot >= own_slots || state == 0) return;
        Told& alike = told[state];
        const auto standing = std::pair(member.since_epoch, member.id.node);
        alike.longest = alike.members++ == 0 ? standing : std::min(alike.longest, standing);
        states.emplace_back(member.id.node, state);
    });
    std::vector<cluster::NodeId> wrong;
    if (told.size() < 2) return wrong;
    const auto right = std::ranges::max_element(told, [](const auto& x, const auto& y) {
        return x.second.members != y.second.members ? x.second.members < y.second.members
                                                    : x.second.longest > y.second.longest;
    });
    for (const auto& [node, state] : states)
        if (state != right->first) wrong.push_back(node);
    return wrong;
}

}  // namespace chaos::elastic
