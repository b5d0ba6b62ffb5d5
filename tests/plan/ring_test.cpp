#include "plan/ring.h"

#include "plan/seed.h"
#include "plan/sync_oracle.h"

#include <gtest/gtest.h>
#include <algorithm>

namespace chaos::plan {
namespace {

TEST(Ring, PathsAreRootedWhereTheyFillFastest) {
    std::mt19937_64 random(test::fresh_seed());
    for (int i = 0; i < 200; ++i) {
        const test::OverlayKind kind{.members = 3 + static_cast<std::uint32_t>(random() % 5),
                                     .extra = 12,
                                     .equal_rates = random() % 2 == 0,
                                     .caps = random() % 2 == 0,
                                     .delays = random() % 2 == 0};
        const auto overlay = read_overlay(test::random_sync_request(random, kind));
        ASSERT_TRUE(overlay.ok()) << overlay.error().message;
        const auto cycles = all_cycles(*overlay);
        if (cycles.empty()) continue;
        const auto& cycle = cycles[random() % cycles.size()];
        const std::uint64_t q = 1 + random() % overlay->chunk_bytes;
        for (const Tree& path : paths_of(*overlay, cycle, q)) {
            std::vector<std::uint32_t> links = path.link;
            std::erase(links, nobody);
            std::uint64_t least = unlimited;
            for (std::uint32_t root = 0; root < overlay->size(); ++root)
                least = std::min(least, fill_ns(*overlay, hang_tree(*overlay, links, root), q));
            EXPECT_EQ(fill_ns(*overlay, path, q), least) << kind.members << " members, caps " << kind.caps;
        }
    }
}

}  // namespace
}  // namespace chaos::plan
