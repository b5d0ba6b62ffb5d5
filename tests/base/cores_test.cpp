#include "base/cores.h"

#include "temporary_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace chaos {
namespace {

using test::TemporaryFolder;

std::optional<std::uint64_t> left(const std::string& own, const TemporaryFolder& groups) {
    std::istringstream lines(own);
    return memory_left_by_groups(lines, groups.path());
}

TEST(Cores, AreUsedByThreadsOfWhichNoneIsLess) {
    EXPECT_GE(threads_for_all_cores(), 1U);
    EXPECT_EQ(static_cast<double>(threads_for_all_cores()), std::max(1.0, std::ceil(cores_of_this_process())));
}

TEST(MemoryOfGroups, IsWhatTheNarrowestLeaves) {
    const TemporaryFolder groups;
    EXPECT_EQ(left("0::/a/b\n", groups), std::nullopt);
    groups.write("a/b/memory.max", "max\n");
    groups.write("a/b/memory.current", "500\n");
    EXPECT_EQ(left("0::/a/b\n", groups), std::nullopt);
    groups.write("a/memory.max", "2000\n");
    groups.write("a/memory.current", "900\n");
    EXPECT_EQ(left("0::/a/b\n", groups), 1100U);
    groups.write("a/memory.stat", "anon 500\nfile 400\ninactive_file 300\n");
    EXPECT_EQ(left("0::/a/b\n", groups), 1400U);
    groups.write("a/b/memory.max", "700\n");
    EXPECT_EQ(left("0::/a/b\n", groups), 200U);
    groups.write("a/b/memory.current", "800\n");
    EXPECT_EQ(left("0::/a/b\n", groups), 0U);
    EXPECT_EQ(left("0::/elsewhere\n", groups), std::nullopt);
}

TEST(MemoryOfGroups, MayBeOfTheFirstGeneration) {
    const TemporaryFolder groups;
    groups.write("memory/a/memory.limit_in_bytes", "1000\n");
    groups.write("memory/a/memory.usage_in_bytes", "600\n");
    groups.write("memory/a/memory.stat", "cache 300\ninactive_file 1\ntotal_inactive_file 200\n");
    groups.write("memory/memory.limit_in_bytes", "9223372036854771712\n");
    groups.write("memory/memory.usage_in_bytes", "600\n");
    const std::string own = "4:memory:/a\n3:cpuset:/\n2:cpu,cpuacct:/a\n0::/\n";
    EXPECT_EQ(left(own, groups), 600U);
    // As a container sees it: its group is the top.
    groups.write("memory/memory.limit_in_bytes", "800\n");
    EXPECT_EQ(left("4:memory:/of/the/machine\n", groups), 200U);
}

}  // namespace
}  // namespace chaos
