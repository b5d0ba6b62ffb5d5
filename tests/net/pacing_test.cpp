#include "net/pacing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace chaos::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;

// A bottleneck with a queue in front of it, and connections whose congestion control keeps `greed` of queue if it may.
struct Bottleneck {
    double bytes_per_s = 12.5e6;
    nanoseconds path{200'000};
    nanoseconds greed{12'000'000};  // and as much as the path
    nanoseconds others{0};          // queue that somebody else keeps there

    double queue_bytes = 0.0;
    double sent_bytes = 0.0;
    double longest_queue_ms = 0.0;
    std::uint64_t rate = no_limit;
    std::deque<nanoseconds> on_its_way = {};  // round trips that the sender will hear of
    double smoothed_ns = 0.0;

    // Sends through the pacer, a sample every 20 ms.
    void run(Pacer& pacer, milliseconds duration) {
        constexpr milliseconds tick{1};
        constexpr int ticks_per_sample = 20;
        sent_bytes = longest_queue_ms = 0.0;
        double delivered = 0.0;
        for (int i = 1; i <= duration / tick; ++i) {
            const double carries = bytes_per_s * 1e-3;
            const double wanted =
                std::max(0.0, bytes_per_s * static_cast<double>((greed + path).count()) * 1e-9 + carries - queue_bytes);
            queue_bytes += rate == no_limit ? wanted : std::min(wanted, static_cast<double>(rate) * 1e-3);
            const double leaves = std::min(queue_bytes, carries);
            queue_bytes -= leaves;
            sent_bytes += leaves;
            delivered += leaves;
            longest_queue_ms = std::max(longest_queue_ms, queue_bytes / carries);
            on_its_way.push_back(path + others +
                                 nanoseconds(static_cast<std::int64_t>(queue_bytes / bytes_per_s * 1e9)));
            const auto late = static_cast<std::size_t>(path / tick) + 1;
            while (on_its_way.size() > late) on_its_way.pop_front();
            smoothed_ns += (static_cast<double>(on_its_way.front().count()) - smoothed_ns) / 8;
            if (i % ticks_per_sample != 0) continue;
            rate = pacer.step({.elapsed = ticks_per_sample * tick,
                               .delivered_bytes = static_cast<std::uint64_t>(delivered),
                               .round_trip = nanoseconds(static_cast<std::int64_t>(smoothed_ns))});
            delivered = 0.0;
        }
        used = sent_bytes / (bytes_per_s * std::chrono::duration<double>(duration).count());
    }
    double used = 0.0;  // share of what it carries
};

// The path is known before the link is full, as it is from greetings.
Pacer acquainted(const Bottleneck& link) {
    Pacer pacer;
    pacer.know_path(link.path);
    return pacer;
}

TEST(Pacer, KeepsTheQueueShortAndTheLinkFull) {
    for (const double mbit : {10.0, 100.0, 500.0}) {
        for (const int path_ms : {1, 20, 100}) {
            Bottleneck link{.bytes_per_s = mbit / 8 * 1e6, .path = milliseconds(path_ms)};
            Pacer pacer = acquainted(link);
            link.run(pacer, milliseconds(3000));
            link.run(pacer, milliseconds(5000));
            EXPECT_GT(link.used, 0.99) << mbit << " Mbit/s, " << path_ms << " ms";
            EXPECT_LT(link.longest_queue_ms, std::max(6.0, path_ms / 4.0)) << mbit << " Mbit/s, " << path_ms << " ms";
        }
    }
}

TEST(Pacer, FollowsALinkThatSlowsDownAndSpeedsUp) {
    Bottleneck link;
    Pacer pacer = acquainted(link);
    link.run(pacer, milliseconds(3000));
    link.bytes_per_s /= 4;
    link.run(pacer, milliseconds(3000));
    link.run(pacer, milliseconds(3000));
    EXPECT_GT(link.used, 0.99);
    EXPECT_LT(link.longest_queue_ms, 6.0);
    link.bytes_per_s *= 8;
    link.run(pacer, milliseconds(1000));
    link.run(pacer, milliseconds(3000));
    EXPECT_GT(link.used, 0.99);
    EXPECT_LT(link.longest_queue_ms, 13.0);
}

TEST(Pacer, DoesNotGiveWayForeverToAQueueThatIsNotItsOwn) {
    for (const int others_ms : {4, 5, 10, 40}) {
        Bottleneck link;
        Pacer pacer = acquainted(link);
        link.run(pacer, milliseconds(3000));
        link.others = milliseconds(others_ms);
        link.run(pacer, milliseconds(60'000));
        EXPECT_GT(link.used, 0.95) << others_ms << " ms of others' queue";
        link.run(pacer, milliseconds(3000));
        EXPECT_GT(link.used, 0.95) << others_ms << " ms of others' queue";
    }
}

TEST(Pacer, IsNoLimitWhereThereIsNoQueue) {
    Bottleneck link{.greed = nanoseconds(1'000'000)};
    Pacer pacer = acquainted(link);
    link.run(pacer, milliseconds(2000));
    EXPECT_EQ(link.rate, no_limit);
}

TEST(ShareOut, GivesNobodyMoreThanItWishesAndLeavesNothingOver) {
    EXPECT_THAT(share_out(90, std::vector<std::uint64_t>{no_limit, no_limit, no_limit}), ElementsAre(30, 30, 30));
    EXPECT_THAT(share_out(90, std::vector<std::uint64_t>{no_limit, 10, 20}), ElementsAre(60, 10, 20));
    EXPECT_THAT(share_out(90, std::vector<std::uint64_t>{10, 20}), ElementsAre(10, 20));
    EXPECT_THAT(share_out(90, std::vector<std::uint64_t>{}), ElementsAre());
}

}  // namespace
}  // namespace chaos::net
