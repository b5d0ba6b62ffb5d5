// One member's part in a sync plan, worked out once per view: for each tree its parent, its children and the chunks.
// Everything that both ends of a link must agree on is in here, and in the hash that every chunk carries.
#pragma once

#include "base/result.h"
#include "collective/encoding.h"
#include "collective/transport.h"
#include "plan/sync_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chaos::collective {

inline constexpr std::uint32_t max_chunk_bytes = 64U << 20;
inline constexpr std::uint32_t max_window_chunks = 1U << 16;

// Floats of a vector, or bytes of an encoding.
struct Range {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    bool operator==(const Range&) const = default;
};

struct ScheduleOptions {
    std::uint64_t view = 0;  // some bits of the view's name: lines of views that have forked refuse each other
    Encoding encoding = Encoding::fp32;
    std::uint32_t chunk_bytes = 256U << 10;  // as fp32; a multiple of 512, so that chunks hold whole blocks
    // A member sends the sum of chunk k of a tree only when it knows the result of chunk k - window. This bounds what
    // its parent must stage without another message, and needs to cover rate times the way up and down a tree. More is
    // no better: sums that are early stand in the way of results that others wait for. This is the window of the tree
    // with the most chunks; others have less in proportion, so that all trees advance alike.
    std::uint32_t window_chunks = 64;
    // The vector in parts, in the order in which their values come about: every tree carries its share of each part,
    // and of one after the other, so that all links work as soon as the first part is there. None: all of it at once,
    // each tree the range that the plan says.
    std::vector<Range> parts = {};
};

// What a tree carries of one part of the vector; maybe nothing.
struct Piece {
    Range floats;
    std::uint32_t first_chunk = 0;
    std::uint64_t first_byte = 0;  // in the encoded result
};

// This member's place in one tree.
struct Branch {
    std::vector<Piece> pieces;  // one for each part
    std::uint32_t chunks = 0;
    std::uint32_t window_chunks = 0;
    std::optional<NodeId> parent;  // none: this member is the root
    std::vector<NodeId> children;  // ascending: the order in which sums are added
};

struct Schedule {
    NodeId self;
    ScheduleOptions options;
    std::uint64_t floats = 0;
    std::uint64_t result_bytes = 0;  // of the whole result, encoded
    std::uint64_t slot_bytes = 0;    // of the longest encoded chunk
    std::uint64_t hash = 0;
    std::vector<Branch> branches;

    [[nodiscard]] std::size_t parts() const { return std::max<std::size_t>(options.parts.size(), 1); }
    // How many chunks of a tree the first so many parts make.
    [[nodiscard]] std::uint32_t chunks_of(std::uint32_t tree, std::size_t parts) const;
    // The floats of a chunk, and its bytes in the encoded result.
    [[nodiscard]] Range floats_of(std::uint32_t tree, std::uint32_t chunk) const;
    [[nodiscard]] Range bytes_of(std::uint32_t tree, std::uint32_t chunk) const;

    // No exchange holds more than this for sums that wait to be added or to leave.
    [[nodiscard]] std::uint64_t max_staging_bytes() const;
};

// Of so many floats, encoded. Chunks hold whole blocks and ranges are padded, so that every chunk is aligned as a float
// is.
[[nodiscard]] std::uint64_t padded_bytes(Encoding encoding, std::uint64_t floats);

// The chunks to ask a plan for, and to execute it with: short enough that filling the trees costs little beside the
// load, and long enough that handling them does not slow down the fastest link. The same on every member.
[[nodiscard]] std::uint32_t fit_chunk_bytes(const plan::SyncRequest& request);
// The window for a plan that was made for this request, or for any other trees over its links.
[[nodiscard]] std::uint32_t fit_window_chunks(const plan::SyncRequest& request, const plan::SyncPlan& plan);

// What each tree of a plan carries of each of these parts (none: the plan's own ranges), in proportion to the plan's
// ranges: as many ranges as parts, for each tree.
[[nodiscard]] std::vector<std::vector<Range>> ranges_of(const plan::SyncPlan& plan, std::span<const Range> parts);

// `members` are the nodes that the plan's indexes mean. Refuses in words a plan, or parts, that make no sense.
[[nodiscard]] Result<Schedule> make_schedule(const plan::SyncPlan& plan, std::span<const NodeId> members, NodeId self,
                                             const ScheduleOptions& options);

// Turns the encoded result of a member that has it into floats: the same bits as everybody's. Refuses another size.
[[nodiscard]] Result<void> decode_result(const Schedule& schedule, std::span<const std::byte> encoded,
                                         std::span<float> result);

}  // namespace chaos::collective
