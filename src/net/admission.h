// Admission: who may have a link with this node. Asked of every connection, before anything else is heard from it; the
// only place where the date of a credential counts.
#pragma once

#include "cluster/view.h"
#include "net/tls.h"

namespace chaos::net {

// By our clock, and by the view that we know (null: none yet). An error says why not, to the log and to the peer.
[[nodiscard]] Result<void> admit(const cluster::View* view, const Proven& peer, UnixSeconds now);

}  // namespace chaos::net
