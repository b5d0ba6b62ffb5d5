#include "cluster/trust.h"

#include "base/planted.h"

#include <algorithm>

namespace chaos::cluster {

Result<void> admits(const View& view, NodeId node, const Vouched& vouched) {
    const Name& institution = vouched.institution;
    if (!view.institution_in(institution)) {
        const bool removed =
            std::ranges::find(view.institutions, institution, &Institution::root) != view.institutions.end();
        return Error{removed ? "its institution was removed from the cluster"
                             : "its institution is not in the cluster"};
    }
    if (view.revokes(node, {})) return Error{"this node was expelled"};
    if (view.revokes(node, institution)) return Error{"this node was revoked"};
    if (!vouched.token) return {};
    if (view.revokes(vouched.token->id, institution)) return Error{"its join token was revoked"};
    const UsedToken* used = view.find_token(vouched.token->id);
    if (used != nullptr && used->node != node) return Error{"its join token was used by another node"};
    return {};
}

Result<void> proves(const Newcomer& newcomer, const Signer& signer) {
    if (CHAOS_PLANTED(credential_unchecked)) return {};
    const Result<Vouched> vouched = signer.vouched(newcomer.info.id.node, newcomer.credential);
    if (!vouched) return vouched.error();
    if (vouched->institution != newcomer.info.institution)
        return Error{"its credential is of another institution than it says"};
    if (vouched->token != newcomer.token) return Error{"its credential is of another token than it says"};
    return {};
}

Result<void> prove_additions(const View& parent, const Delta& delta, const Pending& pending, const Signer& signer) {
    for (const Newcomer& newcomer : delta.additions) {
        const MemberInfo* before = parent.find(newcomer.info.id.node);
        const bool founded = delta.settlement && delta.settlement->founded;
        if (founded && before != nullptr && before->institution == newcomer.info.institution && !newcomer.token)
            continue;
        const auto asked = pending.find(
            {.kind = RequestKind::join, .subject = newcomer.info.id, .link = {}, .name = {}, .author = {}});
        if (asked != pending.end() && asked->second.newcomer == newcomer) continue;
        if (const Result<void> proven = proves(newcomer, signer); !proven)
            return Error{"it adds " + brief(newcomer.info.id.node) + ": " + proven.error().message};
    }
    return {};
}

}  // namespace chaos::cluster
