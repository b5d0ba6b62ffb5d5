#include "net/address.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace chaos::net {
namespace {

TEST(Address, IsReadAsPeopleWriteIt) {
    EXPECT_EQ(address_from_text("[::1]:4545")->host, "::1");
    EXPECT_EQ(address_from_text(":4545")->host, "");
    EXPECT_FALSE(address_from_text("example.org"));
    EXPECT_FALSE(address_from_text("example.org:65536"));
}

TEST(Address, ThatOthersDialIsNeverThatOfEveryMachine) {
    const std::vector<std::string> nobody;
    for (const std::string listens : {"0.0.0.0:7440", "[::]:7440"}) {
        const std::string dialled = address_for_others(listens, nobody);
        EXPECT_TRUE(dialled.ends_with(":7440")) << dialled;
        EXPECT_FALSE(dialled.starts_with("0.0.0.0:") || dialled.starts_with("[::]:")) << dialled;
    }
}

TEST(Address, ThatOthersDialIsWhereTheWayToAContactBegins) {
    const std::vector<std::string> contacts = {"nonsense", "127.0.0.1:4545"};
    EXPECT_EQ(address_for_others("0.0.0.0:7440", contacts), "127.0.0.1:7440");
}

TEST(Address, ThatANodeListensAtIsDialled) {
    const std::vector<std::string> contacts = {"127.0.0.1:4545"};
    for (const std::string listens : {"10.1.2.3:7440", "127.77.0.1:7440", "example.org:7440", "[::1]:7440"})
        EXPECT_EQ(address_for_others(listens, contacts), listens);
}

}  // namespace
}  // namespace chaos::net
