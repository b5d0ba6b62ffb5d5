#include "cli/show_status.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <ctime>

namespace chaos::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string here = "4711ab0155aa55aa4711ab0155aa55aa";
const std::string there = "93aa017700ff00ff93aa017700ff00ff";
const std::string elsewhere = "e0e0e0e0000000000000000000000001";

json whole_status() {
    return {{"node", here},
            {"name", here.substr(0, 8)},
            {"incarnation", 1},
            {"role", "active"},
            {"run", "9f3c2101aa"},
            {"line", here},
            {"view", "81fe02aa77"},
            {"epoch", 12},
            {"step", 1240},
            {"stable", 1239},
            {"steps", 5000},
            {"batch", 64},
            {"loss", 2.34117},
            {"held_out", {{"step", 1200}, {"loss", 2.401}, {"accuracy", 0.412}}},
            {"state_hash", {{"step", 1239}, {"hash", "c0ffee0123456789"}}},
            {"members",
             {{{"node", here},
               {"standing", "active"},
               {"since_epoch", 1},
               {"first_step", 0},
               {"speed", 301},
               {"share", 40},
               {"address", "10.0.0.1:4400"},
               {"self", true}},
              {{"node", there},
               {"standing", "active"},
               {"since_epoch", 11},
               {"first_step", 900},
               {"speed", 0},
               {"share", 24},
               {"address", "[fd00::2]:4400"},
               {"self", false}},
              {{"node", elsewhere}, {"standing", "syncing"}, {"share", 0}, {"address", ""}, {"self", false}}}},
            {"links",
             {{{"a", there}, {"b", elsewhere}, {"rate_ab", 0}, {"rate_ba", 0}, {"delay_us", 90}},
              {{"a", here}, {"b", there}, {"rate_ab", 1250}, {"rate_ba", 118'000}, {"delay_us", 20'300}}}},
            {"connections",
             {{{"peer", there},
               {"round_trip_us", 41'250},
               {"sent_bytes", 1'234'000'000},
               {"received_bytes", 999},
               {"receive_bytes_per_s", 1'180'000},
               {"lost_segments_percent", 0.125}}}},
            {"counters", json::object()},
            {"why", "waits for 93aa0177 to finish step 1240"},
            {"step_seconds", 0.24},
            {"samples_per_s", 266.7},
            {"uptime_s", 7512.0},
            {"pid", 4242},
            {"listen", "10.0.0.1:4400"}};
}

TEST(ShowStatus, AWholeStatusIsAPageToRead) {
    EXPECT_EQ(status_text(whole_status()),
              "node 4711ab01: active in view 81fe02aa (epoch 12), 3 members; listens at 10.0.0.1:4400; up 2 h 05 min\n"
              "run 9f3c2101: step 1240 of 5000 (24.8 %); stable 1239; 15 min 02 s left\n"
              "loss 2.3412; held out 2.4010 at step 1200, accuracy 41.20 %\n"
              "266.7 samples/s; 0.24 s per step; state c0ffee01 at step 1239\n"
              "\n"
              "  member    standing  share of 64  samples/s  since epoch  from step  address\n"
              "* 4711ab01  active             40        301            1          0  10.0.0.1:4400\n"
              "  93aa0177  active             24          -           11        900  [fd00::2]:4400\n"
              "  e0e0e0e0  syncing             0          -            -          -\n"
              "\n"
              "  link                    there      back    delay\n"
              "* 4711ab01 - 93aa0177  1.2 MB/s  118 MB/s  20.3 ms\n"
              "  93aa0177 - e0e0e0e0         -         -    90 us\n"
              "\n"
              "  connection  round trip    sent  received  arriving    lost\n"
              "  93aa0177       41.2 ms  1.2 GB     999 B  1.2 MB/s  0.12 %\n"
              "\n"
              "waits for 93aa0177 to finish step 1240\n");
}

TEST(ShowStatus, ANodeOutsideHasLittleToShow) {
    const json status = {{"node", here},
                         {"role", "joining"},
                         {"run", "9f3c2101aa"},
                         {"view", nullptr},
                         {"step", 0},
                         {"steps", 5000},
                         {"loss", nullptr},
                         {"held_out", nullptr},
                         {"members", {}},
                         {"links", {}},
                         {"state_hash", nullptr},
                         {"step_seconds", nullptr},
                         {"uptime_s", 3.2},
                         {"why", "nobody answers at 10.0.0.2:4400"}};
    EXPECT_EQ(status_text(status),
              "node 4711ab01: joining; up 3 s\n"
              "run 9f3c2101: step 0 of 5000 (0.0 %)\n"
              "\n"
              "nobody answers at 10.0.0.2:4400\n");
}

// Whatever one field holds, the others are shown.
TEST(ShowStatus, FieldsOfTheWrongKindAreNotShown) {
    const json whole = whole_status();
    for (const auto& [name, value] : whole.items())
        for (const json& wrong : {json(), json("text"), json(-1.5), json(1e300), json::array({1, "x", nullptr}),
                                  json({{"step", "x"}, {"loss", true}, {"hash", 7}}), json(true)}) {
            json status = whole;
            status[name] = wrong;
            EXPECT_THAT(status_text(status), HasSubstr(name == "run" ? "node 4711ab01" : "run 9f3c2101")) << name;
        }
    for (const json& wrong : {json(), json(1), json("text"), json::array({1})}) {
        (void)status_text(wrong);
        (void)event_text(wrong);
        (void)why_text(wrong);
        EXPECT_EQ(text_line(wrong), "");
    }
}

TEST(ShowStatus, LargeClustersAreCutShort) {
    json status = whole_status();
    for (int number = 0; number < 998; ++number) status["links"].push_back(status["links"][0]);
    EXPECT_THAT(status_text(status), HasSubstr("\n  and 960 more, which --json lists\n"));
    EXPECT_THAT(status_text(status), HasSubstr("* 4711ab01 - 93aa0177"));
}

TEST(ShowStatus, NothingThatCommandsATerminalIsPrinted) {
    json status = whole_status();
    status["why"] =
        "grüße\033[2J\xc2\x9b"
        "2J\r\n\x7f";
    status["members"][1]["address"] = "\033]0;owned\a";
    const std::string text = status_text(status);
    EXPECT_THAT(text, HasSubstr("grüße?[2J?2J???\n"));
    EXPECT_THAT(text, HasSubstr("?]0;owned?"));
    for (const char* harmful : {"\033", "\x9b", "\r", "\a", "\x7f"}) EXPECT_THAT(text, Not(HasSubstr(harmful)));
    EXPECT_THAT(event_text({{"text", "\033[2J\n"}}), Not(HasSubstr("\033")));
    EXPECT_EQ(why_text({{"why", "a\nb"}, {"details", {"c\033"}}}), "a?b\n  c?\n");
    EXPECT_EQ(text_line({{"text", "left\033"}}), "left?\n");
}

TEST(ShowStatus, EventsHaveATimeAndAView) {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    EXPECT_EQ(event_text({{"time", 1'700'000'000.9}, {"kind", "joined"}, {"view", "81fe02aa77"}, {"text", "it came"}}),
              "22:13:20  81fe02aa  it came\n");
    EXPECT_EQ(event_text({{"time", -1e300}, {"text", "no"}}), "00:00:00            no\n");
    EXPECT_EQ(event_text({{"time", 1'700'000'000}, {"kind", "refused"}, {"text", "no"}}), "22:13:20            no\n");
}

TEST(ShowStatus, WhyHasDetails) {
    EXPECT_EQ(why_text({{"why", "waits for two members"}, {"details", {"4711ab01 computes", "93aa0177 is silent"}}}),
              "waits for two members\n  4711ab01 computes\n  93aa0177 is silent\n");
}

TEST(ShowStatus, RedrawingStaysOnTheScreen) {
    EXPECT_EQ(redrawn("one\ntwo\n", 24, 80), "\033[Hone\033[K\ntwo\033[K\n\033[J");
    EXPECT_EQ(redrawn("one\ntwo\nthree\nfour\n", 3, 80), "\033[Hone\033[K\ntwo\033[K\n\033[J");
    EXPECT_EQ(redrawn("grüße, alle", 24, 5), "\033[Hgrüße\033[K\n\033[J");
}

}  // namespace
}  // namespace chaos::cli
