// The tally: what R(s) says of those who contributed, in a few floats behind the gradient and the buffers. Everybody
// adds its own part and zeros elsewhere, so the all-reduce that sums gradients also brings the step's loss, the
// held-out loss, and a norm and a hash of the state per member to everybody, at the same time and with the same bits.
//
//   | gradient | buffers | slot 0: samples, loss, norm, state | slot 1 ... | held-out: loss, correct, targets |
//
// Of up to own_slots active members, each has a slot of its own. Of more, so many have in each step, drawn anew; the
// others share the slots behind these, and tell no state. So nobody is overlooked for long. A state's hash is 48 bits
// in two floats, each a whole number that no float rounds.
#pragma once

#include "cluster/view.h"
#include "compute/engine.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chaos::elastic {

inline constexpr std::size_t own_slots = 64;
inline constexpr std::size_t shared_slots = 64;
inline constexpr std::size_t tally_slots = own_slots + shared_slots;
inline constexpr std::size_t slot_floats = 5;
inline constexpr std::size_t tally_floats = slot_floats * tally_slots + 3;

// What one member gave to a step.
struct Contribution {
    double samples = 0.0;
    double loss = 0.0;        // mean over its samples
    double norm = 0.0;        // of the mean gradient over its samples
    std::uint64_t state = 0;  // bits of the root of the state that it computed with; 0: not told
};

// Of a root, as they are told.
[[nodiscard]] std::uint64_t told_bits_of(const cluster::Name& root);

// A member's place among the active members of a view.
[[nodiscard]] std::size_t place_of(const cluster::View& view, cluster::NodeId node);

// Where the member at this place, of so many, says what it did in `step`.
[[nodiscard]] std::size_t slot_of(std::size_t place, std::size_t members, std::uint64_t step);

// What a member says of itself; `into` is a whole tally.
void write_tally(std::span<float> into, std::size_t slot, const Contribution& mine,
                 const std::optional<compute::Measure>& held_out);

struct Tally {
    std::vector<Contribution> slots;  // tally_slots
    double samples = 0.0;
    double loss = 0.0;                         // mean over all samples
    std::optional<compute::Measure> held_out;  // what members evaluated together; unset: nobody did
};
[[nodiscard]] Tally read_tally(std::span<const float> tally);

// Whose contribution makes `step` worthless, by the same rule everywhere: it is not finite, or its norm is far beyond
// what the others found. Who found nothing says nothing about that; and of two that are far apart nobody knows which is
// wrong, so that the larger one must be large by itself, too. Where several members share a slot, the first of them is
// named.
[[nodiscard]] std::optional<cluster::NodeId> culprit_of(const Tally& tally, const cluster::View& view,
                                                        std::uint64_t step);

// Whose contributions make it worthless, where it is clear that the fault is theirs: more members contributed something
// sound. Of two, nobody can tell; and where the model itself has come to no good, all are alike. Of members that have
// slots of their own.
[[nodiscard]] std::vector<cluster::NodeId> offenders_of(const Tally& tally, const cluster::View& view,
                                                        std::uint64_t step);

// Whose state is not that of most members who told theirs; of two as large groups, the one with the longest-standing
// of them is right.
[[nodiscard]] std::vector<cluster::NodeId> astray(const Tally& tally, const cluster::View& view, std::uint64_t step);

}  // namespace chaos::elastic
