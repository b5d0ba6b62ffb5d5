// A view as the sync planner wants it: its active members in the order of their ids, and the links among them.
#pragma once

#include "cluster/view.h"
#include "plan/sync_plan.h"

#include <cstdint>
#include <vector>

namespace chaos::plan {

// What a link is taken for until somebody has measured it.
inline constexpr std::uint64_t rate_if_unknown_bytes_per_s = 10'000'000;
inline constexpr std::uint64_t delay_if_unknown_ns = 1'000'000;

struct ViewRequest {
    SyncRequest request;
    std::vector<cluster::NodeId> members;  // whom the request's indexes mean
};

[[nodiscard]] inline ViewRequest sync_request_of(const cluster::View& view, std::uint64_t bytes) {
    constexpr std::uint32_t none = ~0U;
    ViewRequest made;
    made.request.bytes = bytes;
    std::vector<std::uint32_t> index(view.members.size(), none);
    for (std::size_t i = 0; i < view.members.size(); ++i) {
        if (view.members[i].standing != cluster::Standing::active) continue;
        index[i] = static_cast<std::uint32_t>(made.members.size());
        made.members.push_back(view.members[i].id.node);
        made.request.members.push_back({.id = view.members[i].id.node.high});
    }
    const auto rate = [](std::uint32_t kilobytes) {
        return kilobytes == 0 ? rate_if_unknown_bytes_per_s : std::uint64_t{kilobytes} * 1000;
    };
    for (std::uint32_t a = 0; a < view.members.size(); ++a) {
        for (std::uint32_t at = view.first_adjacent[a]; at < view.first_adjacent[a + 1]; ++at) {
            const auto [b, number] = view.adjacent[at];
            if (b < a || index[a] == none || index[b] == none) continue;
            const cluster::Figures& figures = view.links[number].figures;
            made.request.links.push_back(
                {.a = index[a],
                 .b = index[b],
                 .a_to_b_bytes_per_s = rate(figures.rate_ab),
                 .b_to_a_bytes_per_s = rate(figures.rate_ba),
                 .delay_ns = figures.delay_us == 0 ? delay_if_unknown_ns : std::uint64_t{figures.delay_us} * 1000});
        }
    }
    return made;
}

}  // namespace chaos::plan
