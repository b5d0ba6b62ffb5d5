// Trust: who may be in, and why not. Institutions vouch for their nodes by credentials, which a Signer reads; the view
// says which institutions are in, what was revoked, and which join tokens are used up. Every member checks this for
// itself, before it relays, votes for or follows anything that adds a node: nobody takes another's word.
#pragma once

#include "cluster/compose.h"

namespace chaos::cluster {

// Whether the view lets in a node of which this is proven, or why not.
[[nodiscard]] Result<void> admits(const View& view, NodeId node, const Vouched& vouched);

// Whether its credential says what the newcomer says of itself.
[[nodiscard]] Result<void> proves(const Newcomer& newcomer, const Signer& signer);

// Whether everybody whom the delta adds is vouched for. Those in `pending` were looked at when they were asked for; and
// where all were down, members come back as what they were.
[[nodiscard]] Result<void> prove_additions(const View& parent, const Delta& delta, const Pending& pending,
                                           const Signer& signer);

}  // namespace chaos::cluster
