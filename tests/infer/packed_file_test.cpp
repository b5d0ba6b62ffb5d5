#include "infer/packed_file.h"

#include "base/file.h"
#include "infer/models.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <chrono>
#include <cstring>

namespace chaos::infer {
namespace {

using chaos::test::TemporaryFolder;

struct Packing {
    Result<std::filesystem::path> operator()(const std::filesystem::path& model) {
        made = false;
        const auto file = ModelFile::open(model);
        EXPECT_TRUE(file) << file.error().message;
        return packed_file(*file, packed_tensors(*file), {folder / "cache", limit_bytes}, pool,
                           [&](std::uint64_t, std::uint64_t) { made = true; });
    }
    TemporaryFolder folder;
    std::uint64_t limit_bytes = PackedFolder{}.limit_bytes;
    Pool pool{2};
    bool made = false;
};

TEST(PackedFile, HoldsThePanelsAndIsMadeOnce) {
    CHAOS_NEED_SHARED("models");
    Packing pack;
    for (const char* name : {"llama2-tiny-q4_0", "llama3-shakespeare-q4_k_m", "qwen3-tiny-f16"}) {
        const auto path = pack(test::gguf(name));
        ASSERT_TRUE(path) << path.error().message;
        EXPECT_TRUE(pack.made);
        const std::string content = read_file(*path).value();
        EXPECT_EQ(content.size() % direct_read_bytes, 0U);
        const test::Loaded loaded(test::gguf(name));
        const std::byte* first = loaded.model->layers()[0].query.matrix.packed;
        EXPECT_EQ(std::memcmp(content.data() + packed_file_header_bytes, first, packed_bytes(loaded.model->tensors())),
                  0);
        EXPECT_EQ(pack(test::gguf(name)).value(), *path);
        EXPECT_FALSE(pack.made);
    }
}

TEST(PackedFile, AFileThatIsNotWholeIsMadeAnew) {
    CHAOS_NEED_SHARED("models");
    Packing pack;
    const auto model = test::gguf("llama2-tiny-q4_0");
    const auto path = pack(model).value();
    const std::string content = read_file(path).value();
    std::string other = content;
    other[9] = static_cast<char>(other[9] + 1);
    for (const std::string& wrong : {content.substr(0, content.size() - 4096), std::string(), other}) {
        ASSERT_TRUE(write_file_atomically(path, wrong));
        EXPECT_EQ(pack(model).value(), path);
        EXPECT_TRUE(pack.made);
        EXPECT_EQ(read_file(path).value(), content);
    }
}

TEST(PackedFile, AChangedModelHasAnother) {
    CHAOS_NEED_SHARED("models");
    Packing pack;
    const auto model = pack.folder / "model.gguf";
    std::filesystem::copy_file(test::gguf("llama2-tiny-q4_0"), model);
    const auto before = pack(model).value();
    std::filesystem::last_write_time(model, std::filesystem::last_write_time(model) + std::chrono::seconds(1));
    EXPECT_NE(pack(model).value(), before);
    EXPECT_TRUE(pack.made);
}

TEST(PackedFile, WhatWasUsedLongestAgoMakesRoom) {
    CHAOS_NEED_SHARED("models");
    Packing pack;
    const auto first = pack(test::gguf("llama2-tiny-q4_0")).value();
    const auto second = pack(test::gguf("llama2-tiny-q8_0")).value();
    const auto third = pack(test::gguf("qwen3-tiny-q8_0")).value();
    const auto now = std::filesystem::last_write_time(third);
    std::filesystem::last_write_time(first, now - std::chrono::hours(3));
    std::filesystem::last_write_time(second, now - std::chrono::hours(2));
    std::filesystem::last_write_time(third, now - std::chrono::hours(1));
    // Somebody who was killed, and somebody who is at work.
    pack.folder.write("cache/half.packed.tmp-999999999-0", "half");
    pack.folder.write("cache/half.packed.tmp-" + std::to_string(::getpid()) + "-0", "half");
    pack.folder.write("cache/notes", "not ours");
    EXPECT_EQ(pack(test::gguf("llama2-tiny-q4_0")).value(), first);  // used just now
    const char* const name = "qwen3-tiny-q4_0";
    pack.limit_bytes = std::filesystem::file_size(first) + std::filesystem::file_size(third) +
                       std::filesystem::file_size(Packing()(test::gguf(name)).value());
    const auto fourth = pack(test::gguf(name)).value();
    EXPECT_FALSE(std::filesystem::exists(second));
    for (const auto& kept : {first, third, fourth}) EXPECT_TRUE(std::filesystem::exists(kept));
    EXPECT_FALSE(std::filesystem::exists(pack.folder / "cache/half.packed.tmp-999999999-0"));
    EXPECT_TRUE(std::filesystem::exists(pack.folder / ("cache/half.packed.tmp-" + std::to_string(::getpid()) + "-0")));
    // One that is larger than the limit has the folder for itself.
    pack.limit_bytes = 1;
    const auto last = pack(test::gguf("qwen3-tiny-f16")).value();
    for (const auto& gone : {first, second, third, fourth}) EXPECT_FALSE(std::filesystem::exists(gone));
    EXPECT_TRUE(std::filesystem::exists(last));
    EXPECT_TRUE(std::filesystem::exists(pack.folder / "cache/notes"));
}

TEST(PackedFile, SaysWhereItCannotBeKept) {
    CHAOS_NEED_SHARED("models");
    Packing pack;
    pack.folder.write("cache");
    const auto refused = pack(test::gguf("llama2-tiny-q4_0"));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("cannot make the folder"));
}

}  // namespace
}  // namespace chaos::infer
