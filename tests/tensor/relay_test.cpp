// Nodes whose links are a queue: what is sent to whom goes the ways that there are.
#include "tensor/relay.h"

#include "net/signer.h"
#include "tensor/wire.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>

namespace chaos::tensor {
namespace {

using Heard = std::pair<NodeId, std::uint64_t>;  // the author of an ask, and its number

struct Node {
    net::SecretKey key = net::SecretKey::generate();
    NodeId id = net::node_id(key.public_key());
    net::KeySigner signer{key};
    std::unique_ptr<Relay> relay;
    std::vector<Heard> heard;
    std::vector<std::uint64_t> lost;
};

class Overlay : public testing::Test {
protected:
    void add(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            nodes_.push_back(std::make_unique<Node>());
            Node& node = *nodes_.back();
            node.relay = std::make_unique<Relay>(
                node.id, node.signer,
                Relay::Callbacks{
                    .send = [this, &node](NodeId to, const wire::Work& work) { return send(node.id, to, work); },
                    .linked = [this, &node] { return linked_with(node.id); },
                    .received = [&node](
                                    NodeId author,
                                    const wire::Work& work) { node.heard.emplace_back(author, work.ask().number()); },
                    .lost = [&node](std::uint64_t generation) { node.lost.push_back(generation); }});
        }
    }
    Node& node(std::size_t place) { return *nodes_[place]; }
    // In the view; and in fact, unless it is cut.
    void link(std::size_t a, std::size_t b) { links_.insert(cluster::link_between(node(a).id, node(b).id)); }
    void cut(std::size_t a, std::size_t b) { cut_.insert(cluster::link_between(node(a).id, node(b).id)); }
    void agree() {
        auto view = std::make_shared<cluster::View>();
        for (const auto& each : nodes_) {
            cluster::MemberInfo member;
            member.id.node = each->id;
            member.standing = cluster::Standing::active;
            view->members.push_back(member);
        }
        std::ranges::sort(view->members, {}, [](const cluster::MemberInfo& each) { return each.id.node; });
        for (const cluster::LinkId& id : links_) view->links.push_back({.id = id});
        cluster::complete(*view);
        for (const auto& each : nodes_) each->relay->adopted(view);
    }
    static wire::Work ask(std::uint64_t number, std::uint64_t generation = 7) {
        wire::Work work;
        work.mutable_ask()->set_generation(generation);
        work.mutable_ask()->set_number(number);
        return work;
    }
    [[nodiscard]] bool is_linked(NodeId a, NodeId b) const {
        const cluster::LinkId id = cluster::link_between(a, b);
        return a != b && links_.contains(id) && !cut_.contains(id);
    }
    [[nodiscard]] std::vector<NodeId> linked_with(NodeId id) const {
        std::vector<NodeId> result;
        for (const auto& each : nodes_)
            if (is_linked(id, each->id)) result.push_back(each->id);
        return result;
    }
    bool send(NodeId from, NodeId to, const wire::Work& work) {
        if (!is_linked(from, to)) return false;
        on_their_way_.push_back({from, to, work});
        return true;
    }
    void deliver() {
        for (; !on_their_way_.empty(); on_their_way_.pop_front()) {
            const auto [from, to, work] = on_their_way_.front();
            ++sent_;
            Node& there = **std::ranges::find(nodes_, to, &Node::id);
            if (work.has_relayed())
                there.relay->received(from, work.relayed());
            else
                there.heard.emplace_back(from, work.ask().number());
        }
    }

    struct OnItsWay {
        NodeId from;
        NodeId to;
        wire::Work work;
    };
    std::vector<std::unique_ptr<Node>> nodes_;
    std::set<cluster::LinkId> links_;
    std::set<cluster::LinkId> cut_;
    std::deque<OnItsWay> on_their_way_;
    std::size_t sent_ = 0;
};

TEST_F(Overlay, WhoHasNoLinkIsReachedByTheNearestWay) {
    add(5);
    for (const auto& [a, b] : {std::pair(0, 1), {1, 2}, {2, 3}, {0, 4}, {4, 3}}) link(a, b);
    agree();
    EXPECT_TRUE(node(0).relay->send(node(3).id, ask(1)));
    EXPECT_TRUE(node(0).relay->send(node(1).id, ask(2)));
    deliver();
    EXPECT_EQ(node(3).heard, (std::vector<Heard>{{node(0).id, 1}}));
    EXPECT_EQ(node(1).heard, (std::vector<Heard>{{node(0).id, 2}}));
    EXPECT_EQ(sent_, 3U);
    EXPECT_EQ(node(4).relay->carried(node(3).id), 7U);
    EXPECT_EQ(node(4).relay->carried(node(0).id), 7U);
    EXPECT_EQ(node(1).relay->carried(node(0).id), 0U);  // that was for it
}

// The view still has the link that the nearest way leads over.
TEST_F(Overlay, WhatIsCutIsGoneAround) {
    add(5);
    for (const auto& [a, b] : {std::pair(0, 1), {1, 2}, {1, 3}, {3, 4}, {4, 2}}) link(a, b);
    agree();
    cut(1, 2);
    EXPECT_TRUE(node(0).relay->send(node(2).id, ask(1)));
    deliver();
    EXPECT_EQ(node(2).heard, (std::vector<Heard>{{node(0).id, 1}}));
}

TEST_F(Overlay, WhoCannotPassSomethingOnSaysSo) {
    add(4);
    for (const auto& [a, b] : {std::pair(0, 1), {1, 2}, {2, 3}}) link(a, b);
    agree();
    cut(2, 3);
    EXPECT_TRUE(node(0).relay->send(node(3).id, ask(1)));
    wire::Work forecast;  // nothing depends on it
    forecast.mutable_forecast()->set_generation(7);
    EXPECT_TRUE(node(0).relay->send(node(3).id, forecast));
    deliver();
    EXPECT_EQ(node(2).lost, (std::vector<std::uint64_t>{7}));
    EXPECT_TRUE(node(3).heard.empty());
    EXPECT_FALSE(node(2).relay->send(node(3).id, ask(2)));
}

TEST_F(Overlay, WhatTheAuthorDidNotSayIsNotHeard) {
    add(3);
    link(0, 1);
    link(1, 2);
    agree();
    ASSERT_TRUE(node(0).relay->send(node(2).id, ask(1)));
    ASSERT_EQ(on_their_way_.size(), 1U);
    const wire::Relayed said = on_their_way_.front().work.relayed();
    wire::Relayed other = said;
    other.set_work(ask(2).SerializeAsString());
    node(2).relay->received(node(1).id, other);
    other = said;
    *other.mutable_author() = to_wire(node(1).id);
    node(2).relay->received(node(1).id, other);
    other = said;
    other.set_generation(8);
    node(2).relay->received(node(1).id, other);
    other = said;
    other.clear_signature();
    node(2).relay->received(node(1).id, other);
    EXPECT_TRUE(node(2).heard.empty());
    node(2).relay->received(NodeId{1, 1}, said);  // no member
    EXPECT_TRUE(node(2).heard.empty());
    node(2).relay->received(node(1).id, said);
    EXPECT_EQ(node(2).heard.size(), 1U);
}

}  // namespace
}  // namespace chaos::tensor
