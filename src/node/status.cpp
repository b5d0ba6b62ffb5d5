#include "node/status.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

namespace chaos::node {

using cluster::brief;
using nlohmann::json;

std::string text_of(NodeId node) {
    std::array<char, 33> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx%016llx", static_cast<unsigned long long>(node.high),
                  static_cast<unsigned long long>(node.low));
    return digits.data();
}

std::string_view words_of(cluster::Role role) {
    switch (role) {
        case cluster::Role::outside:
            return "outside";
        case cluster::Role::joining:
            return "joining";
        case cluster::Role::syncing:
            return "syncing";
        case cluster::Role::active:
            return "active";
        case cluster::Role::returning:
            return "returning";
    }
    return "";
}

json institutions_of(const cluster::View& view) {
    json institutions = json::array();
    for (const cluster::Institution& institution : view.institutions) {
        if (institution.standing != cluster::InstitutionStanding::in) continue;
        const auto nodes =
            std::ranges::count(view.members, institution.root, [](const auto& member) { return member.institution; });
        institutions.push_back({{"root", hex(institution.root)}, {"nodes", nodes}});
    }
    return institutions;
}

json links_of(const cluster::View& view) {
    json links = json::array();
    for (const cluster::LinkInfo& link : view.links)
        links.push_back({{"a", text_of(link.id.a)},
                         {"b", text_of(link.id.b)},
                         {"rate_ab", link.figures.rate_ab},
                         {"rate_ba", link.figures.rate_ba},
                         {"delay_us", link.figures.delay_us}});
    return links;
}

json connections_of(const net::Links& links) {
    json connections = json::array();
    for (const NodeId peer : links.peers()) {
        const net::LinkFigures figures = links.figures(peer);
        const double sent = static_cast<double>(std::max<std::uint64_t>(figures.segments.sent, 1));
        connections.push_back(
            {{"peer", text_of(peer)},
             {"name", brief(peer)},
             {"round_trip_us",
              std::chrono::duration_cast<std::chrono::microseconds>(figures.round_trips.mean()).count()},
             {"sent_bytes", figures.bulk_sent_bytes},
             {"received_bytes", figures.bulk_received_bytes},
             {"receive_bytes_per_s", figures.receive_bytes_per_s},
             {"lost_segments_percent", 100.0 * static_cast<double>(figures.segments.again) / sent}});
    }
    return connections;
}

json counters_of(const live::Member& member) {
    const cluster::Counters& core = member.core().counters();
    const net::LinkCounters& links = member.links().counters();
    return {{"messages_sent", member.messages_sent()},
            {"messages_received", member.messages_received()},
            {"messages_malformed", core.malformed},
            {"messages_forged", core.forged},
            {"messages_stale", core.stale},
            {"messages_repeated", core.repeated},
            {"messages_refused", core.refused},
            {"turned_away", links.turned_away},
            {"turned_away_too_many", links.too_many},
            {"handshakes_failed", links.handshake_failed},
            {"refused", links.refused},
            {"malformed", links.malformed},
            {"dropped_slow", links.dropped_slow},
            {"dropped_loud", links.dropped_loud}};
}

}  // namespace chaos::node
