// Real messages, as a village of members says them when it is founded, grows, loses a member and gets it back.
#pragma once

#include "cluster/village.h"

#include <array>
#include <map>
#include <vector>

namespace chaos::fuzz {

// A few of each kind.
inline std::vector<cluster::MessagePtr> overheard() {
    using namespace cluster;
    std::map<std::size_t, std::vector<MessagePtr>> by_kind;
    Village village;
    village.overhear = [&](NodeId, const Send& send) {
        std::vector<MessagePtr>& kind = by_kind[send.message->body.index()];
        if (kind.size() < 4) kind.push_back(send.message);
    };
    village.found(0);
    village.join(1, 0);
    village.join(2, 0);
    CHAOS_ASSERT(village.until([&] { return village.settled({0, 1, 2}); }));
    village.crash(2);
    CHAOS_ASSERT(village.until([&] { return village.settled({0, 1}); }));
    village.restart(2, true);
    CHAOS_ASSERT(village.until([&] { return village.settled({0, 1, 2}); }));
    village.tell(1, LeaveCommand{});
    CHAOS_ASSERT(village.until([&] { return village.settled({0, 2}); }));
    std::vector<MessagePtr> all;
    for (const auto& [kind, messages] : by_kind) all.insert(all.end(), messages.begin(), messages.end());
    // What honest members have no reason to say.
    const PlainSigner signer(Village::node(0));
    const MemberId author{.node = Village::node(0), .incarnation = 1000};
    const std::vector<MessagePtr>& votes = by_kind[Body(Accepted{}).index()];
    CHAOS_ASSERT(!votes.empty());
    Proof proof;
    proof.first = votes.front()->bytes;
    proof.second = votes.back()->bytes;
    all.push_back(make_signed(std::move(proof), author, 0, signer));
    LineSummary summary;
    summary.founder = sha256("founder");
    summary.ancestors = {{.view = sha256("a"), .epoch = 1, .fork = true}};
    summary.meetings = {{.other = sha256("o"), .samples = 5}};
    all.push_back(make_signed(std::move(summary), author, 0, signer));
    return all;
}

}  // namespace chaos::fuzz
