#include "infer/gguf.h"

#include "base/random.h"
#include "temporary_folder.h"
#include "text/seed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace chaos::infer {
namespace {

using test::TemporaryFolder;
using ::testing::AnyOf;
using ::testing::HasSubstr;

GgufOutput floats(const std::string& name, std::vector<std::uint64_t> extents, std::vector<float> values) {
    return {name, StoredType::f32, std::move(extents),
            [values](const Sink& sink) { return sink(std::as_bytes(std::span(values))); }};
}

// A small file with metadata of every type we write.
std::string written(const TemporaryFolder& folder) {
    const GgufMetadata metadata = {
        {"general.architecture", GgufValue::of_text("llama")},
        {"a.count", GgufValue::of_u32(7)},
        {"a.real", GgufValue::of_f32(0.5)},
        {"a.flag", GgufValue::of_flag(true)},
        {"a.below", {GgufType::i16, {}, std::int64_t{-3}}},
        {"a.double", {GgufType::f64, {}, 0.1}},
        {"a.texts", GgufValue::of_texts({"one", "", "three"})},
        {"a.wholes", GgufValue::of_i32s({1, -2, 3})},
        {"a.reals", GgufValue::of_f32s({1.5, -2.0})},
    };
    const std::vector<GgufOutput> tensors = {floats("v", {3}, {1.0F, 2.0F, 3.0F}),
                                             floats("m", {2, 2}, {4.0F, 5.0F, 6.0F, 7.0F})};
    const auto done = write_gguf(folder / "a.gguf", metadata, tensors);
    EXPECT_TRUE(done) << done.error().message;
    return read_file(folder / "a.gguf").value();
}

std::string refusal(const TemporaryFolder& folder, const std::string& content) {
    const auto opened = Gguf::open(folder.write("b.gguf", content));
    return opened ? "accepted" : opened.error().message;
}

void put64(std::string& content, std::size_t at, std::uint64_t value) {
    std::memcpy(content.data() + at, &value, sizeof value);
}

void put32(std::string& content, std::size_t at, std::uint32_t value) {
    std::memcpy(content.data() + at, &value, sizeof value);
}

TEST(Gguf, IsReadAsWritten) {
    const TemporaryFolder folder;
    written(folder);
    const auto file = Gguf::open(folder / "a.gguf");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE(Gguf::is_one(folder / "a.gguf"));
    EXPECT_EQ(file->whole("a.count").value(), 7);
    EXPECT_EQ(file->whole("a.below").value(), -3);
    EXPECT_EQ(file->whole("a.flag").value(), 1);
    EXPECT_EQ(file->real("a.real").value(), 0.5);
    EXPECT_EQ(file->real("a.double").value(), 0.1);
    EXPECT_EQ(file->text("general.architecture").value(), "llama");
    EXPECT_EQ(file->text("missing").value(), std::nullopt);
    EXPECT_THAT(file->text("a.count").error().message, HasSubstr("a.count is not a text"));
    EXPECT_EQ(std::get<std::vector<std::string>>(file->metadata().at("a.texts").content),
              (std::vector<std::string>{"one", "", "three"}));
    EXPECT_EQ(std::get<std::vector<std::int64_t>>(file->metadata().at("a.wholes").content),
              (std::vector<std::int64_t>{1, -2, 3}));
    EXPECT_EQ(std::get<std::vector<double>>(file->metadata().at("a.reals").content), (std::vector<double>{1.5, -2.0}));
    const Gguf::Tensor& matrix = file->tensors().at("m");
    EXPECT_EQ(matrix.extents, (std::vector<std::uint64_t>{2, 2}));
    std::vector<float> values(4);
    decode_row(matrix.type, matrix.bytes, values);
    EXPECT_EQ(values, (std::vector<float>{4.0F, 5.0F, 6.0F, 7.0F}));
}

TEST(Gguf, EveryTruncationIsAnError) {
    const TemporaryFolder folder;
    const std::string content = written(folder);
    // Behind the last value there is only padding.
    for (std::size_t size = 0; size < content.size() - 16; ++size)
        EXPECT_NE(refusal(folder, content.substr(0, size)), "accepted") << "with " << size << " bytes";
}

TEST(Gguf, DamagedFilesAreNeverReadWildly) {
    const TemporaryFolder folder;
    const std::string content = written(folder);
    const std::uint64_t seed = test::random_seed();
    for (std::uint64_t i = 0; i < 400; ++i) {
        std::string damaged = content;
        for (std::uint64_t j = 0; j <= i % 3; ++j) {
            const std::uint64_t bits = random_bits(seed, i, j);
            damaged[bits % damaged.size()] = static_cast<char>(j == 0 ? 0xff : bits >> 40);
        }
        const auto opened = Gguf::open(folder.write("b.gguf", damaged));
        if (!opened) continue;
        for (const auto& [name, tensor] : opened->tensors()) {
            std::uint64_t elements = 1;
            for (const std::uint64_t extent : tensor.extents) elements *= extent;
            ASSERT_LE(elements, damaged.size() * 2);
            std::vector<float> values(elements);
            decode_row(tensor.type, tensor.bytes, values);
        }
    }
}

TEST(Gguf, LiesAreNamed) {
    const TemporaryFolder folder;
    const std::string content = written(folder);
    EXPECT_THAT(refusal(folder, "GGML" + content.substr(4)), HasSubstr("is not a GGUF file"));
    std::string lie = content;
    put32(lie, 4, 1);
    EXPECT_THAT(refusal(folder, lie), HasSubstr("version 1; 2 and 3 are supported"));
    put32(lie, 4, 0x03000000);
    EXPECT_THAT(refusal(folder, lie), HasSubstr("big-endian"));
    lie = content;
    put32(lie, 12, 0x7fffffff);
    EXPECT_THAT(refusal(folder, lie), HasSubstr("is damaged: it claims"));
    // The last tensor's information ends with its type and its offset.
    const std::size_t type_at = content.find("m", content.find("a.wholes")) + 1 + 4 + 16;
    lie = content;
    put32(lie, type_at, 23);
    EXPECT_THAT(refusal(folder, lie), HasSubstr("tensor m has type IQ4_XS, which is not supported"));
    put32(lie, type_at, 2);
    EXPECT_THAT(refusal(folder, lie), HasSubstr("no whole blocks of Q4_0"));
    lie = content;
    put32(lie, type_at + 4, 1U << 20);
    EXPECT_THAT(refusal(folder, lie), HasSubstr("tensor m lies outside the file"));
    put64(lie, type_at + 4, ~std::uint64_t{31});
    EXPECT_THAT(refusal(folder, lie), HasSubstr("tensor m lies outside the file"));
    put64(lie, type_at + 4, 0);
    EXPECT_THAT(refusal(folder, lie), HasSubstr("two of its tensors lie in the same place"));
}

TEST(Gguf, NoLengthIsBelieved) {
    const TemporaryFolder folder;
    const std::string content = written(folder);
    const std::size_t extents_at = content.find("m", content.find("a.wholes")) + 1 + 4;
    // A key's length, a text's, a list's, and those of texts in a list.
    const std::size_t key_at = content.find("a.count") - 8;
    const std::size_t text_at = content.find("general.architecture") + 20 + 4;
    const std::size_t list_at = content.find("a.wholes") + 8 + 4 + 4;
    const std::size_t texts_at = content.find("a.texts") + 7 + 4 + 4;
    for (const std::uint64_t length : {std::uint64_t{1} << 20, std::uint64_t{1} << 40, std::uint64_t{1} << 61,
                                       std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
        for (const std::size_t at : {key_at, text_at, list_at, texts_at, texts_at + 8}) {
            std::string lie = content;
            put64(lie, at, length);
            EXPECT_THAT(refusal(folder, lie), HasSubstr("ends too early")) << length << " at " << at;
        }
        for (const std::size_t at : {extents_at, extents_at + 8}) {
            std::string lie = content;
            put64(lie, at, length);
            EXPECT_THAT(refusal(folder, lie),
                        AnyOf(HasSubstr("tensor m has a bad shape"), HasSubstr("tensor m lies outside the file")));
            put64(lie, at, 0);
            EXPECT_THAT(refusal(folder, lie), HasSubstr("tensor m has a bad shape"));
        }
        for (const std::size_t at : {std::size_t{8}, std::size_t{16}}) {
            std::string lie = content;
            put64(lie, at, length);
            EXPECT_THAT(refusal(folder, lie), HasSubstr("is damaged: it claims"));
        }
    }
}

TEST(Gguf, ArraysAreNoLongerThanAModelNeeds) {
    const TemporaryFolder folder;
    const GgufValue bytes{GgufType::array, GgufType::u8, std::vector<std::int64_t>()};
    const std::string content = gguf_without_tensors({{"a.one", bytes}, {"a.two", bytes}});
    const auto lengths = [&](std::uint64_t one, std::uint64_t two) {
        std::string longer = content;
        for (const auto& [key, length] : {std::pair{"a.two", two}, {"a.one", one}}) {
            const std::size_t at = longer.find(key) + 5 + 4 + 4;
            put64(longer, at, length);
            longer.insert(at + 8, length, '\0');
        }
        return refusal(folder, longer);
    };
    EXPECT_EQ(lengths(1000, 1000), "accepted");
    EXPECT_THAT(lengths(max_gguf_elements + 1, 0), HasSubstr("metadata a.one: with its 16777217 elements"));
    EXPECT_THAT(lengths(max_gguf_elements - 1000, 1001), HasSubstr("metadata a.two: with its 1001 elements"));
}

TEST(Gguf, AlignmentsArePowersOfTwo) {
    const TemporaryFolder folder;
    for (const std::uint32_t alignment : {0U, 3U, 1U << 30}) {
        const GgufMetadata metadata = {{"general.alignment", GgufValue::of_u32(alignment)}};
        ASSERT_TRUE(write_gguf(folder / "a.gguf", metadata, {}));
        EXPECT_THAT(Gguf::open(folder / "a.gguf").error().message, HasSubstr("general.alignment is"));
    }
}

void write_part(const std::filesystem::path& path, GgufMetadata metadata, std::int64_t part, std::int64_t parts,
                const std::vector<GgufOutput>& tensors) {
    metadata["split.no"] = {GgufType::u16, {}, part};
    metadata["split.count"] = {GgufType::u16, {}, parts};
    metadata["split.tensors.count"] = {GgufType::i32, {}, std::int64_t{2}};
    ASSERT_TRUE(write_gguf(path, metadata, tensors));
}

TEST(Gguf, PartsAreOneFile) {
    const TemporaryFolder folder;
    const GgufMetadata metadata = {{"general.name", GgufValue::of_text("a")}};
    const GgufOutput one = floats("v", {2}, {1.0F, 2.0F});
    const GgufOutput other = floats("w", {2}, {3.0F, 4.0F});
    const std::filesystem::path first = folder / "a-00001-of-00003.gguf";
    const std::filesystem::path second = folder / "a-00002-of-00003.gguf";
    const std::filesystem::path third = folder / "a-00003-of-00003.gguf";
    const auto refused = [](const std::filesystem::path& path) {
        const auto opened = Gguf::open(path);
        return opened ? "accepted" : opened.error().message;
    };
    // gguf-split may leave the first part without tensors.
    write_part(first, metadata, 0, 3, {});
    write_part(second, {}, 1, 3, {one});
    EXPECT_THAT(refused(first), HasSubstr("cannot read " + third.string()));
    write_part(third, {}, 2, 3, {other});
    const auto file = Gguf::open(first);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->text("general.name").value(), "a");
    EXPECT_EQ(file->paths(), (std::vector{first, second, third}));
    std::vector<float> values(2);
    decode_row(StoredType::f32, file->tensors().at("w").bytes, values);
    EXPECT_EQ(values, (std::vector{3.0F, 4.0F}));

    EXPECT_THAT(refused(second), HasSubstr("name the first of them, which ends with -00001-of-00003.gguf"));
    std::filesystem::copy_file(first, folder / "b.gguf");
    EXPECT_THAT(refused(folder / "b.gguf"), HasSubstr("name the first of them"));
    write_part(third, {}, 1, 3, {other});
    EXPECT_THAT(refused(first), HasSubstr("does not say that it is part 3 of 3"));
    write_part(third, {}, 2, 3, {one});
    EXPECT_THAT(refused(first), HasSubstr("tensor v is in an earlier part, too"));
    write_part(third, {}, 2, 3, {});
    EXPECT_THAT(refused(first), HasSubstr("have 1 tensors, not 2"));
    for (const std::int64_t parts : {0, 65535}) {
        write_part(first, metadata, 0, parts, {});
        EXPECT_THAT(refused(first), HasSubstr("split.count must be from 1 to 1024"));
    }
}

}  // namespace
}  // namespace chaos::infer
