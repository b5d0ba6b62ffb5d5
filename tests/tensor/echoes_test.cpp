#include "tensor/echoes.h"

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <utility>

namespace chaos::tensor {
namespace {

constexpr NodeId peer{.high = 1, .low = 2};

// A neighbour that answers at once, but for some messages, which are lost.
struct Neighbour {
    explicit Neighbour(std::size_t lost_first) : lost(lost_first) {}

    void hears(const wire::Echo& echo) {
        ++heard;
        if (lost > 0) {
            --lost;
            return;
        }
        wire::Echo back = echo;
        back.set_back(true);
        boost::asio::post(loop, [this, back] { echoes.received(peer, back); });
    }

    std::size_t lost;
    std::size_t heard = 0;
    bool known = false;
    boost::asio::io_context loop;
    Echoes echoes{
        loop,
        100,
        {.send = [this](NodeId, const wire::Echo& echo) { hears(echo); }, .measured = [this](NodeId) { known = true; }},
        std::chrono::milliseconds(20)};
};

TEST(Echoes, TimesAreKnownAfterSomeHaveComeBack) {
    Neighbour neighbour(0);
    EXPECT_FALSE(neighbour.echoes.times(peer));
    neighbour.echoes.link_up(peer);
    while (!neighbour.known) neighbour.loop.run_one();
    EXPECT_TRUE(neighbour.echoes.times(peer));
    neighbour.echoes.link_down(peer);
    EXPECT_FALSE(neighbour.echoes.times(peer));
}

TEST(Echoes, WhatIsLostIsSentAgain) {
    Neighbour whole(0);
    whole.echoes.link_up(peer);
    while (!whole.known) whole.loop.run_one();
    Neighbour neighbour(3);
    neighbour.echoes.link_up(peer);
    while (!neighbour.known) neighbour.loop.run_one();
    EXPECT_GE(neighbour.heard, whole.heard + 3);
}

}  // namespace
}  // namespace chaos::tensor
