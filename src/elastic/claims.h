// What donors say of the state: which lineage it has after so many steps, and how far they are. Any one of them may be
// wrong, or lie; what more than half of those who are asked say is believed. No I/O.
#pragma once

#include "cluster/id.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace chaos::elastic {

class Claims {
public:
    using NodeId = cluster::NodeId;
    using Clock = std::chrono::steady_clock;

    static constexpr std::size_t kept_of_each = 64;  // the steps of the newest such claims
    // Donors are no further apart than that, and what they tell of a step may be as old.
    static constexpr std::uint64_t most_apart_steps = 2;

    // The lineage after so many steps, which are known to stay.
    void settled(NodeId donor, std::uint64_t applied, const cluster::Name& lineage, Clock::time_point now);
    // It is so far; whether that stays may not be known.
    void reached(NodeId donor, std::uint64_t applied, Clock::time_point now);
    void forget(NodeId donor) { of_.erase(donor); }
    void clear() { of_.clear(); }

    // As most of these donors say; nullopt: they do not.
    [[nodiscard]] std::optional<cluster::Name> lineage_after(std::uint64_t applied,
                                                             std::span<const NodeId> donors) const;
    // Most of these donors are at least so far.
    [[nodiscard]] std::uint64_t reached_by_most(std::span<const NodeId> donors) const;
    // Most of these donors said something after `since`, and are not near that step yet.
    [[nodiscard]] bool most_are_behind(std::uint64_t applied, Clock::time_point since,
                                       std::span<const NodeId> donors) const;

private:
    struct Claim {
        std::map<std::uint64_t, cluster::Name> lineages;  // after so many steps
        std::uint64_t applied = 0;
        Clock::time_point heard;
    };
    std::map<NodeId, Claim> of_;
};

}  // namespace chaos::elastic
