#include "cli/node_folder.h"

#include "node/fake_node.h"
#include "temporary_folder.h"

namespace chaos::cli {
namespace {

using test::FakeNode;
using test::TemporaryFolder;

TEST(NodeFolder, WhatIsGivenComesFirst) {
    const TemporaryFolder folder;
    const FakeNode node(folder.path());
    EXPECT_EQ(*node_folder("given", "preset", folder.path()), "given");
    EXPECT_EQ(*node_folder("", "preset", folder.path()), "preset");
    EXPECT_EQ(*node_folder("", "", folder.path()), folder.path());
}

TEST(NodeFolder, TheOnlyOneBelowIsFound) {
    const TemporaryFolder folder;
    for (const char* name : {"a", "b", "c"}) std::filesystem::create_directories(folder / name);
    folder.write("control.sock", "not a socket");
    const auto none = node_folder("", "", folder.path());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message, "no node runs here; say where it does with --dir DIR or in $CHAOS_DIR");
    const FakeNode b(folder / "b");
    EXPECT_EQ(*node_folder("", "", folder.path()), folder / "b");
    const FakeNode c(folder / "c");
    const auto several = node_folder("", "", folder.path());
    ASSERT_FALSE(several);
    EXPECT_EQ(several.error().message, "several nodes run here; say which with --dir b or c");
}

}  // namespace
}  // namespace chaos::cli
