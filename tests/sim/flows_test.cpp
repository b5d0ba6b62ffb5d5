#include "sim/flows.h"

#include "base/random.h"

#include <gtest/gtest.h>

namespace chaos::sim {
namespace {

constexpr std::uint64_t mega = 1'000'000;
constexpr Time rounding = 100;  // nanoseconds

Wiring mesh(Host hosts, std::uint64_t card, std::uint64_t rate) {
    Wiring wiring;
    wiring.cards.assign(hosts, {card, card});
    wiring.rates.assign(std::size_t{hosts} * hosts, rate);
    wiring.delays.assign(std::size_t{hosts} * hosts, 0);
    return wiring;
}

TEST(Flows, ALoneFlowRunsAtTheSlowestOfLinkAndCards) {
    Wiring wiring = mesh(2, 100 * mega, 40 * mega);
    EXPECT_EQ(run_flows(wiring, {{0, 1, 80 * mega}}), 2 * second);
    wiring.cards[1].ingress_bytes_per_s = 10 * mega;
    EXPECT_EQ(run_flows(wiring, {{0, 1, 80 * mega}}), 8 * second);
    EXPECT_EQ(run_flows(wiring, {{1, 0, 80 * mega}}), 2 * second);
}

// Into a card of 100: a link of 20 holds one flow back, the other gets 80. The slow one ends after 5 s; the fast one
// has 400 of its 600 through by then and goes on at its link's 90.
TEST(Flows, WhatASlowLinkLeavesGoesToOthers) {
    Wiring wiring = mesh(3, 100 * mega, 90 * mega);
    wiring.rates[wiring.pair(0, 2)] = 20 * mega;
    std::vector<Time> ends;
    EXPECT_EQ(run_flows(wiring, {{0, 2, 100 * mega}, {1, 2, 580 * mega}}, &ends), 7 * second);
    EXPECT_EQ(ends, (std::vector<Time>{5 * second, 7 * second}));
}

TEST(Flows, ShareByWeight) {
    const Wiring wiring = mesh(3, 100 * mega, 100 * mega);
    std::vector<Time> ends;
    // 75 and 25 until the heavier one ends after 2 s; then 100 for the 50 that are left.
    static_cast<void>(run_flows(wiring, {{0, 2, 150 * mega, 3}, {1, 2, 100 * mega, 1}}, &ends));
    EXPECT_EQ(ends, (std::vector<Time>{2 * second, 2 * second + second / 2}));
}

TEST(Flows, DirectionsAreIndependent) {
    const Wiring wiring = mesh(2, 100 * mega, 50 * mega);
    EXPECT_EQ(run_flows(wiring, {{0, 1, 100 * mega}, {1, 0, 100 * mega}}), 2 * second);
}

TEST(Flows, StoppedFlowsKeepWhatTheySent) {
    const Wiring wiring = mesh(3, 100 * mega, 100 * mega);
    Flows flows(wiring);
    const FlowId first = flows.start(Flow{0, 2, 100 * mega});
    const FlowId second_flow = flows.start(Flow{1, 2, 100 * mega});
    flows.advance(second);
    flows.stop(first);
    EXPECT_EQ(flows.sent(first), 50 * mega);
    EXPECT_FALSE(flows.running(first));
    EXPECT_EQ(flows.next_end(), second + second / 2);
    flows.advance(flows.next_end());
    EXPECT_EQ(flows.take_ended(), std::vector<FlowId>{second_flow});
    EXPECT_EQ(flows.next_end(), never);
}

// Host 0 sends 200 in all and is the busiest; the links of 80 allow it 160 per second, its card 100.
TEST(Flows, ABundleAdvancesInProportionAndSharesCards) {
    const Wiring wiring = mesh(3, 100 * mega, 80 * mega);
    const std::vector<Flow> parts = {{0, 1, 100 * mega}, {0, 2, 100 * mega}, {1, 2, 50 * mega}};
    const Bundle bundle = bundle_of(wiring, parts, 3);
    EXPECT_EQ(bundle.bytes, 200 * mega);
    EXPECT_EQ(bundle.bytes_per_s, 160 * mega);
    EXPECT_EQ(busiest(wiring, parts), 2 * second);
    Flows flows(wiring);
    flows.start(bundle);
    EXPECT_NEAR(flows.next_end(), 2 * second, rounding);
    // Against a flow of weight 1 out of the same card it gets three quarters.
    const FlowId other = flows.start(Flow{0, 1, 25 * mega, 1});
    flows.advance(flows.next_end());
    EXPECT_EQ(flows.now(), second);
    EXPECT_EQ(flows.take_ended(), std::vector<FlowId>{other});
    EXPECT_NEAR(flows.next_end(), second + second * 125 / 100, rounding);
}

// Nothing passes faster than any card or link lets it, and somebody is always held back by something that is full.
TEST(Flows, NeverBeatTheBusiestLinkOrCard) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const auto draw = [&](std::uint64_t stream, std::uint64_t index, std::uint64_t below) {
            return random_bits(seed, stream, index) % below;
        };
        const auto hosts = static_cast<Host>(2 + draw(0, 0, 6));
        Wiring wiring = mesh(hosts, 0, 0);
        for (Host host = 0; host < hosts; ++host)
            wiring.cards[host] = {mega * (1 + draw(1, host, 1000)), mega * (1 + draw(2, host, 1000))};
        for (std::size_t pair = 0; pair < wiring.rates.size(); ++pair)
            wiring.rates[pair] = mega * (1 + draw(3, pair, 1000));
        std::vector<Flow> flows;
        Time one_by_one = 0;
        for (std::uint64_t i = 0; i < 1 + draw(4, 0, 20); ++i) {
            const auto from = static_cast<Host>(draw(5, i, hosts));
            const auto to = static_cast<Host>((from + 1 + draw(6, i, hosts - 1)) % hosts);
            flows.push_back({from, to, 1 + draw(7, i, 1000 * mega), static_cast<std::uint32_t>(1 + draw(8, i, 9))});
            one_by_one += run_flows(wiring, {flows.back()});
        }
        const Time took = run_flows(wiring, flows);
        EXPECT_GE(took, busiest(wiring, flows)) << "seed " << seed;
        EXPECT_LE(took, one_by_one + microsecond) << "seed " << seed;
    }
}

}  // namespace
}  // namespace chaos::sim
