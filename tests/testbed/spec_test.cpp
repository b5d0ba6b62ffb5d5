#include "testbed/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::testbed {
namespace {

using testing::HasSubstr;

const std::string two_hosts = "name = \"t\"\nhost = [{name = \"a\"}, {name = \"b\"}]\n";

std::string complaint(const std::string& text) {
    const auto spec = parse_spec(text, "t.toml");
    return spec.ok() ? "no complaint" : spec.error().message;
}

TEST(Spec, LinksThatAreNamedTakeWhatTheyDoNotSayFromTheDefaults) {
    const auto spec = parse_spec(R"(
name = "three-rooms"
queue_ms = 20
[defaults]
rate_mbit = 10
delay_ms = 5
[[host]]
name = "a"
cpus = 0.5
[[host]]
name = "b"
[[host]]
name = "c"
[[link]]
between = ["c", "a"]
rate_mbit = [100, 20]
jitter_ms = 1.5
loss_percent = 0.1
)",
                                 "t.toml");
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    const Spec wanted{
        .name = "three-rooms",
        .hosts = {{"a", 0.5}, {"b"}, {"c"}},
        .links = {{"c", "a", 100.0, 20.0, 5.0, 1.5, 0.1}, {"a", "b", 10.0, 0.0, 5.0}, {"b", "c", 10.0, 0.0, 5.0}},
        .queue_ms = 20.0};
    EXPECT_EQ(*spec, wanted);
    EXPECT_EQ(*parse_spec(to_toml(*spec), "again"), wanted);
}

TEST(Spec, WithoutDefaultsOnlyNamedPairsAreLinked) {
    EXPECT_TRUE(parse_spec(two_hosts, "t.toml")->links.empty());
    EXPECT_EQ(parse_spec(two_hosts + "[defaults]", "t.toml")->links.size(), 1U);
}

TEST(Spec, ComplaintsNameThePlaceAndTheMistake) {
    EXPECT_EQ(complaint(two_hosts + "[[link]]\nbetween = [\"a\", \"b\"]\ndelay_s = 3"),
              "t.toml:5: unknown key \"delay_s\"; did you mean \"delay_ms\"?");
    EXPECT_EQ(complaint(two_hosts + "[[link]]\nbetween = [\"a\", \"x\"]"),
              "t.toml: the link between \"a\" and \"x\": no host is called \"x\"");
    EXPECT_THAT(complaint(two_hosts + "[[link]]\nbetween = \"a\""), HasSubstr("t.toml:4: between must be the names"));
    EXPECT_THAT(complaint(two_hosts + "[[link]]\nrate_mbit = 3"), HasSubstr("needs between"));
    EXPECT_THAT(complaint(two_hosts + "[defaults]\nrate_mbit = \"fast\""), HasSubstr("rate_mbit must be a number"));
    EXPECT_THAT(complaint(two_hosts + "[defaults]\nrate_mbit = [1, 2, 3]"), HasSubstr("one number or two"));
    EXPECT_THAT(complaint(two_hosts + "[defaults]\nloss_percent = 101"), HasSubstr("from 0 to 100, not 101"));
    EXPECT_THAT(complaint(two_hosts + "[defaults]\nrate_mbit = nan"), HasSubstr("rate_mbit must be from"));
    EXPECT_THAT(complaint("name = \"t\"\nhost = [{name = \"a\"}, {name = \"a\"}]"), HasSubstr("two hosts are called"));
    EXPECT_THAT(complaint("name = \"t\"\nhost = [{name = \"A b\"}]"), HasSubstr("small letters"));
    EXPECT_THAT(complaint("name = \"t\"\nhost = [{name = \"a\", cpus = 0.01}]"), HasSubstr("cpus must be from 0.1"));
    EXPECT_THAT(complaint("name = \"../t\"\nhost = [{name = \"a\"}]"), HasSubstr("small letters"));
    EXPECT_THAT(complaint("name = \"t\"\nhost = 3"), HasSubstr("write [[host]]"));
    EXPECT_THAT(complaint("name = \"t\""), HasSubstr("1 to 64 hosts"));
    EXPECT_THAT(complaint("name = "), HasSubstr("t.toml:1: "));
}

}  // namespace
}  // namespace chaos::testbed
