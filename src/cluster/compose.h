// Which view follows from which events: pure functions from the current view, the events that wait, and the reports of
// a flush to the Delta that is proposed. They also say in words why an event cannot have what it asks for.
//
//   fitness.cpp   how a request stands towards a view
//   compose.cpp   planned changes
//   settling.cpp  the end of an interrupted step, founding again
#pragma once

#include "cluster/message.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace chaos::cluster {

// What an event is about: two requests with equal keys ask for the same.
struct RequestKey {
    RequestKind kind = RequestKind::leave;
    MemberId subject;
    LinkId link;
    Name name{};
    NodeId author;  // where each author counts for itself: approvals, claims
    auto operator<=>(const RequestKey&) const = default;
};
[[nodiscard]] RequestKey key_of(const Request& request);

using Pending = std::map<RequestKey, Request>;

// How a request stands towards a view.
struct Fitness {
    enum class Kind : std::uint8_t {
        fits,         // it would change the view
        interrupts,   // it would, and the step in flight cannot go on: a flush is needed
        may_wait,     // it would, and is a reason for an epoch of its own once there was none for a while
        rides_along,  // it would, but is no reason for an epoch of its own
        done,         // the view has it already
        refused,      // it cannot be had; `why` says so
    };
    Kind kind = Kind::fits;
    std::string why = {};
};
// Credentials, revocations and consents are checked by `signer`; null: they were checked before.
[[nodiscard]] Fitness fitness(const View& view, const Request& request, const Signer* signer);

// Whether a request that fits has all it needs: institutions are admitted and removed by a majority of institutions.
[[nodiscard]] bool ripe(const View& view, const Pending& pending, const RequestKey& key);

// A planned change from everything that fits, to hold from `first_step` on. Absent: nothing to change.
// `patient` are members whose leave may still wait for others to find links around them.
struct Composed {
    Delta delta;
    std::vector<std::string> notes;  // what is said about it: a link removal that cuts off a node, a leave that waits
};
[[nodiscard]] std::optional<Composed> compose_planned(const View& view, const Pending& pending,
                                                      std::uint64_t first_step, std::span<const NodeId> patient);

// Members of the view that its links would no longer reach if `node` left; empty: it may leave.
[[nodiscard]] std::vector<NodeId> cut_off_by(const View& view, NodeId node);

// The change that settles an interrupted step: keeps those of the reporters who hang together over links that are not
// down, as far as their steps allow. Where all came back from a restart, the cluster is founded again from the newest
// checkpoint among them. An error says why nothing can be settled.
[[nodiscard]] Result<Delta> compose_settlement(const View& view, NodeId proposer,
                                               const std::map<NodeId, Report>& reports, std::span<const LinkId> down,
                                               Fork fork);

}  // namespace chaos::cluster
