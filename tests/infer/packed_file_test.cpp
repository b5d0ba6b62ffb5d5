#include "infer/packed_file.h"

#include "base/file.h"
#include "infer/models.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace chaos::infer {
namespace {

using chaos::test::TemporaryFolder;

struct Packing {
    Result<std::filesystem::path> operator()(const std::filesystem::path& model) {
        made = false;
        const auto file = ModelFile::open(model);
        EXPECT_TRUE(file) << file.error().message;
        return packed_file(*file, packed_tensors(*file), folder / "cache", pool,
                           [&](std::uint64_t, std::uint64_t) { made = true; });
    }
    TemporaryFolder folder;
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
