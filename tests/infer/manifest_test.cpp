#include "infer/manifest.h"

#include "infer/images.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace chaos::infer {
namespace {

using chaos::test::TemporaryFolder;

TEST(Manifest, IsWhatItWasAfterEncoding) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder cache;
    for (const char* name : {"llama3-shakespeare-q4_k_m", "qwen3-tiny", "qwen2-tiny", "llama2-tiny-q4_0"}) {
        const test::Holder holder(test::model_path(name), cache.path());
        const std::string bytes = encode(holder.manifest);
        const Manifest again = decode_manifest(bytes, "it").value();
        EXPECT_EQ(encode(again), bytes);
        EXPECT_EQ(identity_of(again), identity_of(holder.manifest));
        EXPECT_EQ(again.hashes, holder.manifest.hashes);
    }
}

TEST(Manifest, AModelIsKnownByWhatItIs) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder cache;
    const Manifest manifest = test::Holder(test::model_path("llama2-tiny-q4_0"), cache.path()).manifest;
    const auto other = [&](auto change) {
        Manifest changed = manifest;
        change(changed);
        return identity_of(changed) != identity_of(manifest);
    };
    EXPECT_TRUE(other([](Manifest& one) { one.hashes.back()[31] ^= 1; }));
    EXPECT_TRUE(other([](Manifest& one) { one.outline.config.rope.theta += 1.0; }));
    EXPECT_TRUE(other([](Manifest& one) { one.outline.config.eos_tokens.push_back(1); }));
    EXPECT_TRUE(other([](Manifest& one) { one.outline.paired = !one.outline.paired; }));
    EXPECT_TRUE(other([](Manifest& one) { one.outline.types.back() = StoredType::f16; }));
    EXPECT_TRUE(other([](Manifest& one) { one.outline.texts[0].bytes += 1; }));
    EXPECT_TRUE(other([](Manifest& one) { one.outline.unit_bytes *= 2; }));
}

TEST(Manifest, IsMadeOnce) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    const auto path = folder / "model.gguf";
    std::filesystem::copy_file(test::gguf("llama2-tiny-q4_0"), path);
    Pool pool(2);
    bool made = false;
    std::uint64_t of_bytes = 0;
    const auto manifest = [&] {
        made = false;
        const auto file = ModelFile::open(path).value();
        const auto units = FileUnits::open(file, test::small_units).value();
        const auto result =
            manifest_of(file, units, folder / "cache", pool, [&](std::uint64_t bytes, std::uint64_t all) {
                made = true;
                of_bytes = all;
                EXPECT_LE(bytes, all);
            });
        EXPECT_TRUE(result) << result.error().message;
        return identity_of(*result);
    };
    const Digest first = manifest();
    EXPECT_TRUE(made);
    EXPECT_GT(of_bytes, 500'000U);
    EXPECT_EQ(manifest(), first);
    EXPECT_FALSE(made);

    // A bit of it flips.
    const auto kept = *std::filesystem::directory_iterator(folder / "cache");
    std::string content = read_file(kept).value();
    content[content.size() - 5] = static_cast<char>(content[content.size() - 5] ^ 4);
    ASSERT_TRUE(write_file_atomically(kept, content));
    EXPECT_EQ(manifest(), first);
    EXPECT_TRUE(made);

    // The model changes.
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
    EXPECT_EQ(manifest(), first);
    EXPECT_TRUE(made);
}

TEST(Manifest, FromOthersMayBeAnything) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder cache;
    const std::string bytes = encode(test::Holder(test::model_path("qwen3-tiny-q8_0"), cache.path()).manifest);
    const unsigned seed = std::random_device()();
    std::mt19937 random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (int i = 0; i < 2000; ++i) {
        std::string wrong = bytes;
        for (unsigned change = random() % 4 + 1; change > 0; --change)
            wrong[random() % std::min<std::size_t>(wrong.size(), 400)] = static_cast<char>(random());
        if (random() % 4 == 0) wrong.resize(random() % wrong.size());
        const auto manifest = decode_manifest(wrong, "it");
        if (!manifest) continue;
        EXPECT_EQ(manifest->hashes.size(), layout_of(manifest->outline).value().units.size());
    }
}

}  // namespace
}  // namespace chaos::infer
