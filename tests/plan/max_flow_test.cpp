#include "plan/max_flow.h"

#include "plan/seed.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <vector>

namespace chaos::plan {
namespace {

// The largest flow is the smallest cut: all of them are looked at.
TEST(MaxFlow, EqualsTheSmallestCut) {
    const std::uint64_t seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 300; ++i) {
        const auto nodes = static_cast<std::uint32_t>(2 + random() % 6);
        struct Arc {
            std::uint32_t from;
            std::uint32_t to;
            std::uint64_t capacity;
        };
        std::vector<Arc> arcs;
        FlowNetwork network(nodes);
        for (std::uint64_t k = random() % 16; k > 0; --k) {
            const Arc arc{static_cast<std::uint32_t>(random() % nodes), static_cast<std::uint32_t>(random() % nodes),
                          random() % 20};
            if (arc.from == arc.to) continue;
            network.set_capacity(network.add_arc(arc.from, arc.to), arc.capacity);
            arcs.push_back(arc);
        }
        std::uint64_t smallest = ~std::uint64_t{0};
        for (std::uint32_t side = 0; side < 1U << nodes; ++side) {
            if ((side & 1U) == 0 || (side & 2U) != 0) continue;  // 0 is the source, 1 the sink
            std::uint64_t cut = 0;
            for (const Arc& arc : arcs) {
                if ((side >> arc.from & 1U) != 0 && (side >> arc.to & 1U) == 0) cut += arc.capacity;
            }
            smallest = std::min(smallest, cut);
        }
        ASSERT_EQ(network.maximise(0, 1), smallest);
        std::vector<std::int64_t> balance(nodes);
        for (std::uint32_t k = 0; k < arcs.size(); ++k) {
            ASSERT_LE(network.flow(k), arcs[k].capacity);
            balance[arcs[k].from] -= static_cast<std::int64_t>(network.flow(k));
            balance[arcs[k].to] += static_cast<std::int64_t>(network.flow(k));
        }
        for (std::uint32_t node = 2; node < nodes; ++node) ASSERT_EQ(balance[node], 0);
    }
}

}  // namespace
}  // namespace chaos::plan
