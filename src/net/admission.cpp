#include "net/admission.h"

#include "cluster/trust.h"

namespace chaos::net {

Result<void> admit(const cluster::View* view, const Proven& peer, UnixSeconds now) {
    CHAOS_CHECK(check(peer.credential, peer.node));
    CHAOS_CHECK(check_date(peer.credential, now));
    return view == nullptr ? Result<void>{} : cluster::admits(*view, peer.node, vouched_by(peer.credential));
}

}  // namespace chaos::net
