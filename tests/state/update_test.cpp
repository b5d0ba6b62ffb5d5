#include "state/update.h"

#include "base/random.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstring>

namespace chaos::state {
namespace {

constexpr std::uint64_t seed = 20;

Manifest some_manifest() {
    Manifest manifest;
    manifest.add_parameter("matrix", {333, 101}, true);
    manifest.add_parameter("bias", {77}, false);
    manifest.add_buffer("mean", {5});
    return manifest;
}

std::vector<float> some_result(const Manifest& manifest, std::uint64_t step) {
    std::vector<float> result(manifest.parameter_elements() + manifest.buffer_elements());
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = random_normal(seed, step, i);
    return result;
}

run::Run some_run(const std::string& kind) {
    run::Run run;
    run.optimizer.kind = kind;
    run.optimizer.weight_decay = 0.1;
    run.optimizer.clip_norm = 3.0;
    return run;
}

// Ten steps from the same start along one path.
Arena after_ten_steps(const std::string& kind, Path path) {
    const Manifest manifest = some_manifest();
    const run::Run run = some_run(kind);
    Arena arena(manifest, slots_of(run.optimizer));
    for (std::size_t i = 0; i < arena.parameters().size(); ++i) arena.parameters()[i] = random_normal(seed, 999, i);
    for (std::uint64_t step = 0; step < 10; ++step) {
        const std::vector<float> result = some_result(manifest, step);
        const ResultDigest digest = digest_result(result, manifest.parameter_elements());
        apply_update(run.optimizer, manifest, update_scalars(run, step, digest.norm), result, arena, path);
    }
    return arena;
}

class UpdatePaths : public ::testing::TestWithParam<std::tuple<std::string, Path>> {};

TEST_P(UpdatePaths, GiveTheBitsOfTheScalarPath) {
    const auto [kind, path] = GetParam();
    if (!path_available(path)) GTEST_SKIP() << "this processor lacks that instruction set";
    const Arena expected = after_ten_steps(kind, Path::scalar);
    const Arena found = after_ten_steps(kind, path);
    ASSERT_EQ(expected.all().size(), found.all().size());
    EXPECT_EQ(std::memcmp(expected.all().data(), found.all().data(), found.all().size_bytes()), 0);
}

INSTANTIATE_TEST_SUITE_P(All, UpdatePaths,
                         ::testing::Combine(::testing::Values("adamw", "sgd"),
                                            ::testing::Values(Path::best, Path::avx2, Path::avx512)));

TEST(Update, BitsAreTheSameOnEveryMachine) {
    // Hashes written down once. Another value means that another machine's members would diverge.
    EXPECT_EQ(xxh3(std::as_bytes(after_ten_steps("adamw", Path::best).all())), 0x5ddfb9647d51fabU);
    EXPECT_EQ(xxh3(std::as_bytes(after_ten_steps("sgd", Path::best).all())), 0x835bfbb1a1c06a98U);
}

TEST(Update, AdamwFollowsItsFormula) {
    Manifest manifest;
    manifest.add_parameter("w", {1, 1}, true);
    run::Run run;
    run.optimizer.weight_decay = 0.1;
    run.optimizer.learning_rate = 0.01;
    Arena arena(manifest, 2);
    arena.parameters()[0] = 2.0F;
    double p = 2.0;
    double m = 0.0;
    double v = 0.0;
    for (std::uint64_t step = 0; step < 20; ++step) {
        const double g = 0.3 * static_cast<double>(step) - 1.0;
        const std::vector<float> result = {static_cast<float>(g)};
        apply_update(run.optimizer, manifest, update_scalars(run, step, std::abs(g)), result, arena);
        const auto t = static_cast<double>(step + 1);
        p -= 0.01 * 0.1 * p;
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        p -= 0.01 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    }
    EXPECT_NEAR(arena.parameters()[0], p, 1e-5);
}

TEST(Update, SgdFollowsItsFormula) {
    Manifest manifest;
    manifest.add_parameter("w", {1, 1}, true);
    run::Run run;
    run.optimizer.kind = "sgd";
    run.optimizer.learning_rate = 0.1;
    run.optimizer.weight_decay = 0.5;
    Arena arena(manifest, 1);
    arena.parameters()[0] = 1.0F;
    double p = 1.0;
    double velocity = 0.0;
    for (std::uint64_t step = 0; step < 5; ++step) {
        const std::vector<float> result = {0.2F};
        apply_update(run.optimizer, manifest, update_scalars(run, step, 0.2), result, arena);
        velocity = 0.9 * velocity + 0.2 + 0.5 * p;
        p -= 0.1 * velocity;
    }
    EXPECT_NEAR(arena.parameters()[0], p, 1e-6);
}

TEST(Update, DecayLeavesBiasesAlone) {
    const Manifest manifest = some_manifest();
    run::Run run = some_run("adamw");
    run.optimizer.weight_decay = 1.0;
    Arena arena(manifest, 2);
    for (float& value : arena.parameters()) value = 1.0F;
    const std::vector<float> nothing(manifest.parameter_elements() + manifest.buffer_elements(), 0.0F);
    apply_update(run.optimizer, manifest, update_scalars(run, 0, 0.0), nothing, arena);
    EXPECT_LT(arena.parameters().front(), 1.0F);
    EXPECT_EQ(arena.parameters().back(), 1.0F);
}

TEST(Update, BuffersOfTheResultReplaceTheArenas) {
    const Manifest manifest = some_manifest();
    const run::Run run = some_run("sgd");
    Arena arena(manifest, 1);
    const std::vector<float> result = some_result(manifest, 3);
    apply_update(run.optimizer, manifest, UpdateScalars{}, result, arena);
    EXPECT_TRUE(std::equal(arena.buffers().begin(), arena.buffers().end(), result.end() - 5));
}

TEST(Update, ClippingScalesTheNormDownToItsLimit) {
    run::Run run;
    run.optimizer.clip_norm = 2.0;
    EXPECT_NEAR(update_scalars(run, 0, 8.0).clip_scale, 0.25, 1e-6);
    EXPECT_EQ(update_scalars(run, 0, 1.0).clip_scale, 1.0);
}

TEST(Update, DigestCountsTheGradientOnlyButHashesAll) {
    std::vector<float> result(100000, 0.0F);
    result[0] = 3.0F;
    result[70000] = 4.0F;
    result[99999] = 100.0F;  // a buffer
    const ResultDigest digest = digest_result(result, 99990);
    EXPECT_DOUBLE_EQ(digest.norm, 5.0);
    result[99999] = 101.0F;
    EXPECT_NE(digest_result(result, 99990).hash, digest.hash);
    EXPECT_DOUBLE_EQ(digest_result(result, 99990).norm, 5.0);
}

TEST(Update, AResultReadPieceByPieceHasTheSameDigest) {
    std::vector<float> whole(100'003);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = random_unit(random_bits(seed, 1, i)) - 0.5F;
    const ResultDigest expected = digest_result(whole, 99'990);
    for (const std::size_t piece : {1U, 5'000U, 16'384U, 40'000U, 100'003U}) {
        std::vector<float> arriving(whole.size(), std::nanf(""));
        ResultDigester digester(arriving, 99'990);
        // From the back, as gradients come about.
        for (std::size_t end = whole.size(); end > 0;) {
            const std::size_t begin = end > piece ? end - piece : 0;
            std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(begin), end - begin,
                        arriving.begin() + static_cast<std::ptrdiff_t>(begin));
            if (piece > 1) digester.read(begin, end);
            end = begin;
        }
        const ResultDigest digest = digester.finish();
        EXPECT_EQ(digest.hash, expected.hash) << piece;
        EXPECT_EQ(digest.norm, expected.norm) << piece;
        EXPECT_TRUE(digest.finite_buffers);
    }
}

TEST(Update, DigestShowsWhatIsNotFinite) {
    std::vector<float> result(1000, 1.0F);
    result[500] = std::nanf("");
    EXPECT_FALSE(std::isfinite(digest_result(result, 1000).norm));
}

}  // namespace
}  // namespace chaos::state
