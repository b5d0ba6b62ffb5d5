#include "cluster/line.h"

#include <gtest/gtest.h>

namespace chaos::cluster {
namespace {

ViewPtr view(const std::string& name, const std::string& parent, std::uint64_t epoch, std::uint64_t first_step,
             bool fork = false) {
    auto made = std::make_shared<View>();
    made->name = sha256(name);
    made->parent = sha256(parent);
    made->founder = sha256("founder");
    made->epoch = epoch;
    made->first_step = first_step;
    made->fork = fork ? Fork::waited : Fork::none;
    return made;
}

LineSummary summary_of(const Line& line) {
    LineSummary summary;
    summary.founder = line.tip()->founder;
    summary.ancestors = line.ancestors();
    summary.meetings = line.tip()->meetings;
    return summary;
}

Line trunk() {
    Line line;
    line.begin(view("v0", "", 0, 0), {});
    line.append(view("v1", "v0", 1, 10), std::make_shared<Decide>(), 0);
    return line;
}

TEST(Line, TheYoungestViewThatHasBegunGoverns) {
    Line line = trunk();
    line.append(view("v2", "v1", 2, 20), std::make_shared<Decide>(), 0);  // planned
    line.append(view("v3", "v2", 3, 15), std::make_shared<Decide>(), 0);  // a settlement that came first
    EXPECT_EQ(line.governing(5)->epoch, 0U);
    EXPECT_EQ(line.governing(14)->epoch, 1U);
    EXPECT_EQ(line.governing(15)->epoch, 3U);
    EXPECT_EQ(line.governing(30)->epoch, 3U);
}

TEST(Line, WhatAPeerMissed) {
    Line line = trunk();
    line.append(view("v2", "v1", 2, 20), std::make_shared<Decide>(), 0);
    EXPECT_EQ(line.since(sha256("v0"), 0, 10)->size(), 2U);
    EXPECT_EQ(line.since(sha256("v0"), 0, 1)->size(), 1U);
    EXPECT_TRUE(line.since(sha256("v2"), 2, 10)->empty());
    EXPECT_FALSE(line.since(sha256("other"), 1, 10).has_value());
}

TEST(Line, AQuorumWinsAgainstAFork) {
    Line main = trunk();
    Line fork = trunk();
    main.append(view("v2", "v1", 2, 20), std::make_shared<Decide>(), 0);
    fork.append(view("f2", "v1", 2, 20, true), std::make_shared<Decide>(), 0);
    fork.append(view("f3", "f2", 3, 40), std::make_shared<Decide>(), 0);
    EXPECT_EQ(main.meet(summary_of(fork)).outcome, Meet::win);
    EXPECT_EQ(fork.meet(summary_of(main)).outcome, Meet::lose);
}

TEST(Line, AStretchIsNoFork) {
    const Line behind = trunk();
    Line ahead = trunk();
    ahead.append(view("v2", "v1", 2, 20), std::make_shared<Decide>(), 0);
    EXPECT_EQ(behind.meet(summary_of(ahead)).outcome, Meet::behind);
    EXPECT_EQ(ahead.meet(summary_of(behind)).outcome, Meet::same);
}

TEST(Line, TwoForksCompareWhatBothFroze) {
    Line a = trunk();
    Line b = trunk();
    a.append(view("a2", "v1", 2, 20, true), std::make_shared<Decide>(), 0);
    b.append(view("b2", "v1", 2, 20, true), std::make_shared<Decide>(), 0);
    EXPECT_EQ(a.meet(summary_of(b)).outcome, Meet::must_freeze);
    const auto freeze = [](Line& line, const std::string& name, const std::string& parent, const std::string& other,
                           std::uint64_t samples) {
        auto next = std::make_shared<View>(*view(name, parent, 3, 30));
        next->meetings = {{.other = sha256(other), .samples = samples}};
        line.append(next, std::make_shared<Decide>(), 0);
    };
    freeze(a, "a3", "a2", "b2", 100);
    EXPECT_EQ(a.meet(summary_of(b)).outcome, Meet::other_freezes);
    freeze(b, "b3", "b2", "a2", 200);
    EXPECT_EQ(a.meet(summary_of(b)).outcome, Meet::lose);
    EXPECT_EQ(b.meet(summary_of(a)).outcome, Meet::win);
}

TEST(Line, DifferentFoundersNeverMerge) {
    const Line line = trunk();
    LineSummary other = summary_of(line);
    other.founder = sha256("somebody else");
    EXPECT_EQ(line.meet(other).outcome, Meet::strangers);
}

}  // namespace
}  // namespace chaos::cluster
