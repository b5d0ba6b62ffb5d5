#include "infer/units.h"

#include "infer/images.h"
#include "temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace chaos::infer {
namespace {

Outline outline_of(StoredType type) {
    Config config;
    config.kind = "llama";
    config.vocab = 1000;
    config.width = 512;
    config.layers = 2;
    config.heads = 8;
    config.kv_heads = 2;
    config.head_width = 64;
    config.ffn = 1536;
    config.max_context = 128;
    Outline outline{.config = config, .paired = false, .types = {}, .texts = {{"tokenizer.json", 5000}}};
    for (const TensorShape& shape : tensors_of(config)) outline.types.push_back(shape.vector ? StoredType::f32 : type);
    outline.unit_bytes = 64 << 10;
    return outline;
}

TEST(Units, LieOneBehindTheOtherAndCoverEverything) {
    for (const StoredType type : {StoredType::f32, StoredType::q4_0, StoredType::q6_k}) {
        const Layout layout = layout_of(outline_of(type)).value();
        std::uint64_t at = 0;
        std::uint64_t bytes = 0;
        for (const Unit& unit : layout.units) {
            EXPECT_GE(unit.offset, at);
            EXPECT_GT(unit.bytes, 0U);
            EXPECT_LE(unit.bytes, 64U << 10);
            at = unit.end();
            bytes += unit.bytes;
        }
        EXPECT_EQ(at, layout.bytes);
        std::uint64_t wanted = 5000;
        for (const PlacedTensor& tensor : layout.tensors) wanted += tensor.bytes;
        EXPECT_EQ(bytes, wanted);
        const auto all = units_of_slice(layout, whole(layout.outline.config));
        EXPECT_EQ(std::ranges::count(all, true), std::ssize(layout.units));
    }
}

TEST(Units, AreNeededByThoseWhoComputeWithThem) {
    const Layout layout = layout_of(outline_of(StoredType::f16)).value();
    const auto needed = [&](const Slice& slice) { return bytes_of(layout, units_of_slice(layout, slice)); };
    const std::uint64_t everybody = needed({});
    const std::uint64_t width = 512 * 2;  // bytes of a row
    // Vectors, embedding and texts.
    EXPECT_EQ(everybody, (4 + 1) * 512 * 4 + 1000 * width + 5000);
    // Heads are not merged here: one has 64 rows of 1 KiB. Its KV head comes along.
    EXPECT_EQ(needed({.heads = {3, 1}, .ffn = {}, .vocab = {}}) - everybody, 2 * 4 * 64 * width);
    EXPECT_EQ(needed({.heads = {3, 2}, .ffn = {}, .vocab = {}}) - everybody, 2 * (2 * 2 + 2 * 2) * 64 * width);
    EXPECT_EQ(ffn_unit(layout.outline.config), 256);
    EXPECT_EQ(needed({.heads = {}, .ffn = {256, 512}, .vocab = {}}) - everybody, 2 * 3 * 512 * width);
    // 64 rows of the head are a unit.
    EXPECT_EQ(needed({.heads = {}, .ffn = {}, .vocab = {63, 2}}) - everybody, 2 * 64 * width);
}

// Columns of a block of Q6_K belong to four heads.
TEST(Units, KeepWholeBlocksOfQuantizedColumns) {
    const Layout layout = layout_of(outline_of(StoredType::q6_k)).value();
    const auto needed = [&](std::int64_t first, std::int64_t count) {
        return units_of_slice(layout, {.heads = {first, count}, .ffn = {}, .vocab = {}});
    };
    const auto of_outputs = [&](const std::vector<bool>& units) {
        std::uint64_t bytes = 0;
        for (const PlacedTensor& tensor : layout.tensors)
            for (std::size_t unit = 0; unit < units.size(); ++unit)
                if (tensor.shape.name.ends_with("o_proj.weight") && layout.units[unit].offset >= tensor.offset &&
                    layout.units[unit].end() <= tensor.offset + tensor.bytes && units[unit])
                    bytes += layout.units[unit].bytes;
        return bytes;
    };
    EXPECT_EQ(of_outputs(needed(0, 1)), 2 * 512 * 210U);
    EXPECT_EQ(of_outputs(needed(0, 4)), 2 * 512 * 210U);
    EXPECT_EQ(of_outputs(needed(3, 2)), 2 * 2 * 512 * 210U);
}

TEST(Units, OutlinesThatMakeNoSenseAreRefused) {
    const auto refused = [](auto change) {
        Outline outline = outline_of(StoredType::q4_0);
        change(outline);
        return !layout_of(outline);
    };
    EXPECT_FALSE(refused([](Outline&) {}));
    EXPECT_TRUE(refused([](Outline& outline) { outline.types.pop_back(); }));
    EXPECT_TRUE(refused([](Outline& outline) { outline.config.layers = 3; }));
    EXPECT_TRUE(refused([](Outline& outline) { outline.config.width = 520; }));
    EXPECT_TRUE(refused([](Outline& outline) { outline.unit_bytes = 0; }));
    EXPECT_TRUE(refused([](Outline& outline) { outline.unit_bytes = UINT64_MAX; }));
    EXPECT_TRUE(refused([](Outline& outline) { outline.texts.push_back({"tokenizer.json", 1}); }));
    EXPECT_TRUE(refused([](Outline& outline) { outline.texts = {{"../tokenizer.json", 1}}; }));
    EXPECT_TRUE(refused([](Outline& outline) { outline.texts = {{"tokenizer.json", UINT64_MAX}}; }));
    EXPECT_TRUE(refused([](Outline& outline) {
        outline.unit_bytes = 1024;
        outline.config.vocab = 1 << 22;
        outline.config.width = 65536;
    }));
}

}  // namespace
}  // namespace chaos::infer
