#include "data/dataset.h"

#include "data/files.h"

#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <set>
#include <thread>

namespace chaos::data {
namespace {

using test::all_training;
using test::byte_pattern;
using test::open_error;
using test::open_or_throw;

TEST(Dataset, UnknownKindsAreNamed) {
    run::Data data;
    data.kind = "parquet";
    EXPECT_EQ(open_error(data), "data.kind is \"parquet\"; it can be text, idx, cifar10 or synthetic");
}

TEST(Dataset, TheSameFileAsAnotherKindHasAnotherHash) {
    const test::TemporaryFolder folder;
    run::Data data;
    data.files = {folder.write("zeros", std::string(3073 * 4, '\0'))};
    data.held_out = 0;
    std::set<Digest> hashes;
    for (const char* kind : {"text", "cifar10"}) {
        data.kind = kind;
        hashes.insert(open_or_throw(data)->content_hash());
    }
    EXPECT_EQ(hashes.size(), 2U);
}

TEST(Dataset, ManyThreadsMayFetch) {
    const test::TemporaryFolder folder;
    run::Data data;
    data.files = {folder.write("text", byte_pattern(100000))};
    const auto dataset = open_or_throw(data);
    const Batch expected = all_training(*dataset);
    std::vector<Batch> batches(4);
    std::vector<std::thread> threads;
    for (Batch& batch : batches) {
        threads.emplace_back([&] { batch = all_training(*dataset); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Batch& batch : batches) EXPECT_EQ(batch.tokens, expected.tokens);
}

TEST(DatasetDeathTest, FilesThatDoNotFitIntoMemoryAreAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers end the process where memory is refused";
#endif
    const test::TemporaryFolder folder;
    run::Data data;
    data.files = {folder.write("holes", "x")};
    std::filesystem::resize_file(data.files[0], std::uintmax_t{1} << 30);
    // In a process of its own, which can limit itself.
    const auto open_with_little_memory = [&] {
        constexpr rlim_t limit_bytes = rlim_t{256} << 20;
        const rlimit limit{limit_bytes, limit_bytes};
        if (setrlimit(RLIMIT_DATA, &limit) != 0) std::_Exit(2);
        std::cerr << open_error(data);
        std::_Exit(0);
    };
    EXPECT_EXIT(open_with_little_memory(), testing::ExitedWithCode(0), "not enough memory for the data");
}

}  // namespace
}  // namespace chaos::data
