#include "state/manifest.h"

#include "state/arena.h"

#include <gtest/gtest.h>

namespace chaos::state {
namespace {

TEST(Manifest, PacksTensorsWithoutGaps) {
    Manifest manifest;
    manifest.add_parameter("a", {3, 5}, true);
    manifest.add_parameter("b", {7}, false);
    manifest.add_buffer("c", {2});
    EXPECT_EQ(manifest.parameters[1].begin, 15U);
    EXPECT_EQ(manifest.parameter_elements(), 22U);
    EXPECT_EQ(manifest.buffers[0].begin, 0U);

    Arena arena(manifest, 2);
    EXPECT_EQ(arena.all().size(), 22U * 3 + 2);
    EXPECT_EQ(arena.slot(0).data(), arena.parameters().data() + 22);
    EXPECT_EQ(arena.buffers().data(), arena.all().data() + 66);
    for (const float value : arena.all()) EXPECT_EQ(value, 0.0F);
}

TEST(Manifest, HashFollowsNamesShapesAndDecay) {
    const auto hash_of = [](const char* name, std::vector<std::int64_t> shape, bool decay) {
        Manifest manifest;
        manifest.add_parameter(name, std::move(shape), decay);
        return manifest.hash();
    };
    EXPECT_EQ(hash_of("a", {2, 3}, true), hash_of("a", {2, 3}, true));
    EXPECT_NE(hash_of("a", {2, 3}, true), hash_of("b", {2, 3}, true));
    EXPECT_NE(hash_of("a", {2, 3}, true), hash_of("a", {3, 2}, true));
    EXPECT_NE(hash_of("a", {2, 3}, true), hash_of("a", {2, 3}, false));
}

}  // namespace
}  // namespace chaos::state
