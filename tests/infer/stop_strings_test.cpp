#include "infer/stop_strings.h"

#include <gtest/gtest.h>

namespace chaos::infer {
namespace {

TEST(StopStrings, EndTheTextWhereverItIsCut) {
    const std::string text = "one END two";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        StopStrings stop({"END", ""});
        std::string shown = stop.push(text.substr(0, cut));
        shown += stop.push(text.substr(cut));
        shown += stop.finish();
        EXPECT_EQ(shown, "one ") << "cut at " << cut;
        EXPECT_TRUE(stop.stopped());
    }
}

TEST(StopStrings, ShowWhatCannotBecomeOne) {
    StopStrings stop({"abcabd", "xy"});
    EXPECT_EQ(stop.push("1abc"), "1");
    EXPECT_EQ(stop.push("abc"), "abc");
    EXPECT_EQ(stop.push("z"), "abcz");
    EXPECT_EQ(stop.push("x"), "");
    EXPECT_FALSE(stop.stopped());
    EXPECT_EQ(stop.finish(), "x");
}

TEST(StopStrings, TheFirstOfSeveralCounts) {
    StopStrings stop({"two", "one"});
    EXPECT_EQ(stop.push("zero one two"), "zero ");
    EXPECT_EQ(stop.push("more"), "");
}

TEST(StopStrings, NoneHoldNothingBack) {
    StopStrings stop({});
    EXPECT_EQ(stop.push("text"), "text");
}

}  // namespace
}  // namespace chaos::infer
