#include "state/shards.h"

#include "base/random.h"

#include <gtest/gtest.h>
#include <cstring>

namespace chaos::state {
namespace {

constexpr std::uint64_t seed = 21;
constexpr std::uint64_t per_shard = 1000;

Manifest some_manifest(bool buffers) {
    Manifest manifest;
    manifest.add_parameter("matrix", {33, 101}, true);
    manifest.add_parameter("bias", {770}, false);
    if (buffers) manifest.add_buffer("mean", {5});
    return manifest;
}

run::Optimizer some_optimizer(const std::string& kind) {
    run::Optimizer optimizer;
    optimizer.kind = kind;
    optimizer.weight_decay = 0.1;
    return optimizer;
}

Arena some_arena(const Manifest& manifest, unsigned slots) {
    Arena arena(manifest, slots);
    for (std::size_t i = 0; i < arena.all().size(); ++i) {
        const float value = random_normal(seed, 0, i);
        arena.all()[i] = value * value;  // second moments are not negative
    }
    return arena;
}

bool equal(const Arena& a, const Arena& b) {
    return std::memcmp(a.all().data(), b.all().data(), a.all().size_bytes()) == 0;
}

struct Case {
    std::string optimizer;
    bool buffers;
};

class Sharded : public ::testing::TestWithParam<Case> {
protected:
    Manifest manifest = some_manifest(GetParam().buffers);
    run::Optimizer optimizer = some_optimizer(GetParam().optimizer);
    Shards shards{manifest, slots_of(optimizer), per_shard};
};

TEST_P(Sharded, CoversTheStateOnceEach) {
    std::uint64_t floats = 0;
    std::uint64_t result = 0;
    for (std::uint32_t i = 0; i < shards.count(); ++i) {
        floats += shards.floats({i, 1});
        EXPECT_EQ(shards.in_result({i, 1}).begin, result);
        result = shards.in_result({i, 1}).end;
    }
    EXPECT_EQ(floats, Arena(manifest, slots_of(optimizer)).all().size());
    EXPECT_EQ(result, manifest.parameter_elements() + manifest.buffer_elements());
    EXPECT_EQ(shards.floats({0, shards.count()}), floats);
    EXPECT_FALSE(shards.fits({0, shards.count() + 1}));
    EXPECT_FALSE(shards.fits({shards.count(), 1}));
    EXPECT_FALSE(shards.fits({0, 0}));
}

TEST_P(Sharded, TravelsInPartsOfAnySize) {
    const Arena from = some_arena(manifest, slots_of(optimizer));
    Arena to(manifest, slots_of(optimizer));
    for (std::uint32_t first = 0, size = 1; first < shards.count(); first += size, ++size) {
        const ShardSpan span{first, std::min(size, shards.count() - first)};
        std::vector<float> wire(shards.floats(span));
        shards.copy_out(from, span, wire);
        shards.copy_in(wire, span, to);
    }
    EXPECT_TRUE(equal(from, to));
    EXPECT_EQ(shards.hashes(from), shards.hashes(to));
}

TEST_P(Sharded, AppliesPartByPartWithTheBitsOfTheWhole) {
    const unsigned slots = slots_of(optimizer);
    Arena whole = some_arena(manifest, slots);
    Arena parts = some_arena(manifest, slots);
    std::vector<float> result(manifest.parameter_elements() + manifest.buffer_elements());
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = random_normal(seed, 1, i);
    const UpdateScalars scalars{
        .learning_rate = 0.01, .clip_scale = 0.7, .bias_correction1 = 0.1, .bias_correction2 = 0.01};
    apply_update(optimizer, manifest, scalars, result, whole);
    for (std::uint32_t first = 0, size = 1; first < shards.count(); first += size, ++size) {
        const ShardSpan span{first, std::min(size, shards.count() - first)};
        const FloatRange range = shards.in_result(span);
        shards.apply(optimizer, manifest, scalars, span, std::span(result).subspan(range.begin, range.count()), parts);
    }
    EXPECT_TRUE(equal(whole, parts));
}

TEST_P(Sharded, HashesShowWhichShardDiffers) {
    const Arena one = some_arena(manifest, slots_of(optimizer));
    Arena other = some_arena(manifest, slots_of(optimizer));
    other.slot(0)[per_shard + 3] += 1.0F;
    const auto hashes = shards.hashes(one);
    const auto others = shards.hashes(other);
    for (std::uint32_t i = 0; i < shards.count(); ++i) EXPECT_EQ(hashes[i] == others[i], i != 1) << i;
    EXPECT_NE(root_of(hashes), root_of(others));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Sharded,
                         ::testing::Values(Case{"adamw", true}, Case{"adamw", false}, Case{"sgd", true}),
                         [](const auto& kind) {
                             return kind.param.optimizer + (kind.param.buffers ? "_buffers" : "");
                         });

}  // namespace
}  // namespace chaos::state
