#include "infer/image.h"

#include "infer/images.h"
#include "infer/model_text.h"
#include "infer/packed_file.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <algorithm>
#include <chrono>
#include <fstream>

namespace chaos::infer {
namespace {

using chaos::test::TemporaryFolder;
using testing::HasSubstr;

// Whatever lies where units are not: it must not matter.
void spoil(const std::filesystem::path& path) {
    const std::string noise(std::filesystem::file_size(path), '\x5a');
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
        .write(noise.data(), static_cast<std::streamsize>(noise.size()));
}

std::uint64_t disk_bytes(const std::filesystem::path& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

void expect_same(const Model& ours, const Model& theirs) {
    ASSERT_EQ(packed_bytes(ours.tensors()), packed_bytes(theirs.tensors()));
    const auto same = [](const Linear& a, const Linear& b) {
        const std::size_t bytes =
            a.matrix.columns == 0 ? 0 : packed_bytes(a.matrix.format, a.matrix.rows, a.matrix.columns);
        return a.matrix.format == b.matrix.format && a.bias == b.bias &&
               std::equal(a.matrix.packed, a.matrix.packed + bytes, b.matrix.packed);
    };
    for (std::size_t i = 0; i < ours.layers().size(); ++i) {
        const LayerWeights& a = ours.layers()[i];
        const LayerWeights& b = theirs.layers()[i];
        EXPECT_TRUE(same(a.query, b.query) && same(a.key, b.key) && same(a.value, b.value) &&
                    same(a.output, b.output) && same(a.gate, b.gate) && same(a.up, b.up) && same(a.down, b.down));
        EXPECT_TRUE(a.attention_norm == b.attention_norm && a.query_norm == b.query_norm && a.key_norm == b.key_norm &&
                    a.ffn_norm == b.ffn_norm);
    }
    EXPECT_EQ(ours.final_norm(), theirs.final_norm());
    EXPECT_TRUE(same(ours.head(), theirs.head()));
    std::vector<float> mine(static_cast<std::size_t>(ours.config().width));
    std::vector<float> others(mine.size());
    for (std::int64_t token = 0; token < ours.config().vocab; ++token) {
        ours.embed(token, mine);
        theirs.embed(token, others);
        ASSERT_EQ(mine, others) << token;
    }
}

TEST(Image, GivesTheModelOfTheFileBitByBit) {
    CHAOS_NEED_SHARED("models");
    std::mt19937 random(3);
    for (const std::string name :
         {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny", "llama2-tiny-f32", "llama2-tiny-q4_0",
          "llama2-tiny-q8_0", "llama3-shakespeare-f16", "llama3-shakespeare-q4_k_m", "llama3-shakespeare-q5_k_m",
          "qwen3-tiny-f16", "qwen3-tiny-q4_0", "qwen3-tiny-q8_0"}) {
        SCOPED_TRACE(name);
        const TemporaryFolder folder;
        const test::Holder holder(test::model_path(name), folder / "cache");
        const Config& config = holder.file.config();
        Pool pool(2);
        for (const Slice& slice :
             {whole(config), test::random_slice(config, random), test::random_slice(config, random), Slice{}}) {
            const auto image = Image::open(folder / "images", holder.manifest).value();
            const auto wanted = units_of_slice(image->layout(), slice);
            const auto path = folder / "images" / hex(image->identity()) / "image";
            spoil(path);
            test::fill(*image, holder, wanted);
            const Model ours = Model::load(image->open_model().value(), slice, pool, {}).value();
            const Model theirs = Model::load(ModelFile::open(test::model_path(name)).value(), slice, pool, {}).value();
            expect_same(ours, theirs);
            if (packed_bytes(ours.tensors()) == 0) continue;
            // What a window streams.
            const auto packed = [&](const Model& model) {
                return read_file(
                           packed_file(model.file(), model.tensors(), {.path = folder / "packed"}, pool, {}).value())
                    .value()
                    .substr(packed_file_header_bytes);
            };
            EXPECT_EQ(packed(ours), packed(theirs));
        }
    }
}

TEST(Image, HasTheTextOfTheModel) {
    CHAOS_NEED_SHARED("models");
    for (const std::string name : {"llama2-tiny", "qwen3-tiny-q4_0", "llama3-shakespeare-q4_k_m", "qwen2-tiny"}) {
        const TemporaryFolder folder;
        const test::Holder holder(test::model_path(name), folder / "cache");
        const auto image = Image::open(folder / "images", holder.manifest).value();
        test::fill(*image, holder, units_of_slice(image->layout(), {}));
        const ModelFile model = image->open_model().value();
        const std::string text = "Now is the winter of our discontent, said he; <s>\n\n";
        const auto ours = tokenizer_of(model);
        ASSERT_TRUE(ours) << ours.error().message;
        EXPECT_EQ(ours->encode(text), tokenizer_of(holder.file)->encode(text));
        const auto format = chat_format_of(model);
        ASSERT_TRUE(format) << format.error().message;
        EXPECT_EQ(format->has_value(), chat_format_of(holder.file)->has_value());
    }
}

struct Kept {
    explicit Kept(const std::string& name = "qwen3-tiny-q4_0")
        : holder(test::model_path(name), folder / "cache"), layout(holder.units.layout()) {}

    std::unique_ptr<Image> open(std::uint64_t limit = no_limit_bytes) {
        auto image = Image::open(folder / "images", holder.manifest, limit);
        EXPECT_TRUE(image) << image.error().message;
        return std::move(*image);
    }
    [[nodiscard]] std::filesystem::path path() const {
        return folder / "images" / hex(identity_of(holder.manifest)) / "image";
    }
    TemporaryFolder folder;
    test::Holder holder;
    const Layout& layout;
};

TEST(Image, KeepsWhatIsRightAndNothingElse) {
    CHAOS_NEED_SHARED("models");
    Kept kept;
    const auto image = kept.open();
    auto bytes = kept.holder.unit(7);
    EXPECT_FALSE(image->keep(8, bytes).value());
    EXPECT_FALSE(image->keep(7, std::span(bytes).first(bytes.size() - 1)).value());
    bytes[3] ^= std::byte{16};
    EXPECT_FALSE(image->keep(7, bytes).value());
    EXPECT_FALSE(image->has(7));
    std::vector<std::byte> got(bytes.size());
    EXPECT_FALSE(image->read(7, got));
    bytes[3] ^= std::byte{16};
    EXPECT_TRUE(image->keep(7, bytes).value());
    EXPECT_TRUE(image->has(7));
    EXPECT_TRUE(image->read(7, got));
    EXPECT_EQ(got, bytes);
}

TEST(Image, IsThereTheNextTime) {
    CHAOS_NEED_SHARED("models");
    Kept kept;
    const auto wanted = units_of_slice(kept.layout, {.heads = {0, 2}, .ffn = {}, .vocab = {}});
    EXPECT_FALSE(Image::kept_manifest(kept.folder / "images", identity_of(kept.holder.manifest)).value());
    test::fill(*kept.open(), kept.holder, wanted);
    const auto manifest = Image::kept_manifest(kept.folder / "images", identity_of(kept.holder.manifest)).value();
    ASSERT_TRUE(manifest);
    const auto image = Image::open(kept.folder / "images", *manifest).value();
    EXPECT_EQ(bytes_of(image->layout(), image->missing(wanted)), 0U);
    EXPECT_GT(bytes_of(image->layout(), image->missing(units_of_slice(kept.layout, whole(kept.layout.outline.config)))),
              0U);
    Pool pool(2);
    std::uint64_t checked = 0;
    EXPECT_EQ(image->check(wanted, pool, [&](std::uint64_t bytes, std::uint64_t) { checked = bytes; }).value(), 0U);
    EXPECT_EQ(checked, bytes_of(kept.layout, wanted));
}

TEST(Image, AFlippedBitIsFoundBeforeItIsUsed) {
    CHAOS_NEED_SHARED("models");
    Kept kept;
    const auto wanted = units_of_slice(kept.layout, whole(kept.layout.outline.config));
    test::fill(*kept.open(), kept.holder, wanted);
    const Unit& unit = kept.layout.units[11];
    {
        std::fstream file(kept.path(), std::ios::binary | std::ios::in | std::ios::out);
        file.seekg(static_cast<std::streamoff>(unit.offset + 5));
        const char byte = static_cast<char>(file.get() ^ 1);
        file.seekp(static_cast<std::streamoff>(unit.offset + 5));
        file.put(byte);
    }
    Pool pool(2);
    {
        const auto image = kept.open();
        EXPECT_EQ(image->check(wanted, pool, {}).value(), 1U);
        EXPECT_FALSE(image->has(11));
    }
    const auto image = kept.open();
    EXPECT_EQ(bytes_of(kept.layout, image->missing(wanted)), unit.bytes);
    test::fill(*image, kept.holder, image->missing(wanted));
    EXPECT_EQ(image->check(wanted, pool, {}).value(), 0U);
    EXPECT_TRUE(image->has(11));
}

TEST(Image, ACutFileIsFoundToo) {
    CHAOS_NEED_SHARED("models");
    Kept kept;
    const auto wanted = units_of_slice(kept.layout, whole(kept.layout.outline.config));
    test::fill(*kept.open(), kept.holder, wanted);
    std::filesystem::resize_file(kept.path(), kept.layout.bytes / 2);
    std::filesystem::resize_file(kept.folder / "images" / hex(identity_of(kept.holder.manifest)) / "here", 20);
    Pool pool(2);
    const auto image = kept.open();
    EXPECT_EQ(image->check(wanted, pool, {}).value(), 0U);  // of the twenty that it knows of
    EXPECT_GT(bytes_of(kept.layout, image->missing(wanted)), kept.layout.bytes / 2);
    test::fill(*image, kept.holder, image->missing(wanted));
    EXPECT_EQ(image->check(wanted, pool, {}).value(), 0U);
}

TEST(Image, BelongsToOneProcess) {
    CHAOS_NEED_SHARED("models");
    Kept kept;
    const auto image = kept.open();
    const auto second = Image::open(kept.folder / "images", kept.holder.manifest);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("in use by another process"));
}

TEST(Image, WhatIsNotWantedGoesFirst) {
    CHAOS_NEED_SHARED("models");
    Kept kept("llama3-shakespeare-f16");
    const Config& config = kept.layout.outline.config;
    const auto first = units_of_slice(kept.layout, {.heads = {0, config.heads}, .ffn = {}, .vocab = {}});
    const auto second = units_of_slice(kept.layout, {.heads = {}, .ffn = {0, config.ffn}, .vocab = {}});
    const std::uint64_t room = bytes_of(kept.layout, second) + (256 << 10);
    const auto image = kept.open(room);
    ASSERT_TRUE(image->make_room(first));
    test::fill(*image, kept.holder, first);
    EXPECT_TRUE(image->make_room(first));
    EXPECT_EQ(bytes_of(kept.layout, image->missing(first)), 0U);
    const auto made = image->make_room(second);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(bytes_of(kept.layout, image->missing(second)),
              bytes_of(kept.layout, second) - bytes_of(kept.layout, units_of_slice(kept.layout, {})));
    test::fill(*image, kept.holder, image->missing(second));
    EXPECT_LE(disk_bytes(kept.path()), room);
    Pool pool(2);
    EXPECT_EQ(image->check(second, pool, {}).value(), 0U);

    const auto refused = image->make_room(units_of_slice(kept.layout, whole(config)));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("may be kept in"));
}

TEST(Image, ThenModelsThatWereNotUsedForLong) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    std::vector<std::filesystem::path> folders;
    std::uint64_t used = 0;
    auto time = std::filesystem::file_time_type::clock::now() - std::chrono::hours(10);
    for (const char* name : {"llama2-tiny-q4_0", "qwen3-tiny-q4_0", "llama2-tiny-q8_0"}) {
        const test::Holder holder(test::model_path(name), folder / "cache");
        const auto image = Image::open(folder / "images", holder.manifest).value();
        test::fill(*image, holder, units_of_slice(image->layout(), whole(holder.file.config())));
        folders.push_back(folder / "images" / hex(image->identity()));
        used += disk_bytes(folders.back() / "image");
        std::filesystem::last_write_time(folders.back() / "manifest", time += std::chrono::hours(1));
    }
    // The oldest is in use, though not by this image: it stays.
    const test::Holder oldest(test::model_path("llama2-tiny-q4_0"), folder / "cache");
    const auto open = Image::open(folder / "images", oldest.manifest).value();
    std::filesystem::last_write_time(folders[0] / "manifest", time - std::chrono::hours(9));
    const test::Holder holder(test::model_path("qwen2-tiny"), folder / "cache");
    const auto image = Image::open(folder / "images", holder.manifest, used + (64 << 10)).value();
    const auto made = image->make_room(units_of_slice(image->layout(), {}));
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_TRUE(std::filesystem::exists(folders[0]));
    EXPECT_FALSE(std::filesystem::exists(folders[1]));
    EXPECT_TRUE(std::filesystem::exists(folders[2]));
}

}  // namespace
}  // namespace chaos::infer
