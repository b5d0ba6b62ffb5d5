// Lines of views for tests, made by the cluster's own rules.
#pragma once

#include "cluster/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace chaos::elastic::test {

using cluster::Delta;
using cluster::NodeId;
using cluster::View;
using cluster::ViewPtr;

inline NodeId node(std::uint64_t number) {
    return {.high = number * 0x9e3779b97f4a7c15U, .low = number};
}

inline cluster::Name name(std::uint8_t number) {
    return cluster::Name{number, 0xaa};
}

inline cluster::MemberInfo info(std::uint64_t number) {
    cluster::MemberInfo made;
    made.id = {.node = node(number), .incarnation = 1};
    made.institution = name(1);
    made.speed = static_cast<std::uint32_t>(100 + 37 * number);
    return made;
}

// Node 1 alone.
inline ViewPtr founded(std::uint32_t batch, bool strict = false) {
    cluster::Founding founding;
    founding.run = name(9);
    founding.batch = batch;
    founding.strict = strict;
    founding.founder = info(1);
    founding.institutions = {{.root = name(1)}};
    return cluster::found(founding);
}

// The delta of a change from `first_step` on.
inline Delta change(const View& parent, std::uint64_t first_step) {
    Delta delta;
    delta.parent = parent.name;
    delta.epoch = parent.epoch + 1;
    delta.first_step = first_step;
    return delta;
}

inline ViewPtr follow(const ViewPtr& parent, const Delta& delta, const ViewPtr& governing = nullptr) {
    auto next = cluster::apply(*parent, governing ? governing.get() : parent.get(), delta);
    EXPECT_TRUE(next.ok()) << next.error().message;
    return *next;
}

// Node `number` joins, linked to those in `peers`, and is active from `first_step` on: two views.
inline std::vector<ViewPtr> join(const ViewPtr& parent, std::uint64_t number,
                                 std::initializer_list<std::uint64_t> peers, std::uint64_t first_step) {
    Delta adding = change(*parent, parent->first_step);
    adding.additions.push_back({.info = info(number), .credential = {}, .token = {}});
    for (const std::uint64_t peer : peers)
        adding.link_additions.push_back(
            {.id = cluster::link_between(node(number), node(peer)),
             .figures = {.rate_ab = static_cast<std::uint32_t>(1000 + 100 * number), .rate_ba = 900, .delay_us = 50}});
    const ViewPtr syncing = follow(parent, adding);
    Delta activating = change(*syncing, first_step);
    activating.activations = {info(number).id};
    return {syncing, follow(syncing, activating)};
}

// Nodes `numbers` are gone; everybody who stays has applied `applied` steps, and step `applied` is redone.
inline ViewPtr lose(const ViewPtr& parent, std::initializer_list<std::uint64_t> numbers, std::uint64_t applied,
                    bool fork = false) {
    Delta delta = change(*parent, applied);
    delta.fork = fork ? cluster::Fork::waited : cluster::Fork::none;
    delta.settlement.emplace();
    delta.settlement->applied = applied;
    for (const std::uint64_t number : numbers)
        delta.removals.push_back({.node = node(number), .reason = cluster::Reason::failed});
    return follow(parent, delta);
}

}  // namespace chaos::elastic::test
