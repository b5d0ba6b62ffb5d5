#include "tensor/beginning.h"

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace chaos::tensor {
namespace {

namespace asio = boost::asio;

// Nodes that begin again, and what would become of them.
class Nodes : public testing::Test {
protected:
    struct Node {
        std::unique_ptr<Beginning> beginning;
        bool is_in = false;
        bool founded = false;
        bool joined = false;
        bool joins = false;  // somebody, who never lets it in
    };
    static std::string address_of(NodeId node) { return "node-" + std::to_string(node.high) + ":1"; }
    void begin(NodeId node, const std::set<NodeId>& others, std::chrono::milliseconds patience) {
        std::vector<std::string> addresses;
        for (const NodeId other : others) addresses.push_back(address_of(other));
        Node& mine = nodes_[node];
        mine.beginning = std::make_unique<Beginning>(
            loop_, node, address_of(node), addresses,
            Beginning::Callbacks{
                .dial =
                    [this, node](const std::string& address) {
                        for (const auto& [other, _] : nodes_)
                            if (address_of(other) == address) links_.insert({node, other});
                    },
                .linked = [this, node] { return linked(node); },
                .send = [this, node](NodeId to, const wire::Beginning& message) { send(node, to, message); },
                .join =
                    [&mine](NodeId, const std::string&) {
                        mine.joined = true;
                        mine.is_in = true;
                    },
                .found =
                    [&mine] {
                        mine.founded = true;
                        mine.is_in = true;
                    }},
            patience);
    }
    [[nodiscard]] std::vector<NodeId> linked(NodeId node) const {
        std::vector<NodeId> peers;
        for (const auto& [a, b] : links_) {
            if (a == node) peers.push_back(b);
            if (b == node) peers.push_back(a);
        }
        return peers;
    }
    void send(NodeId from, NodeId to, const wire::Beginning& message) {
        asio::post(loop_, [this, from, to, message] {
            Node& there = nodes_.at(to);
            if (message.asks()) {
                wire::Beginning answer;
                answer.set_is_in(there.is_in);
                answer.set_founds(there.beginning && !there.beginning->over());
                answer.set_joins(there.joins);
                answer.set_address(address_of(to));
                send(to, from, answer);
            }
            if (there.beginning) there.beginning->received(from, message);
        });
    }
    template <class Condition>
    void run_until(const Condition& condition) {
        while (!condition()) loop_.run_one();
    }

    asio::io_context loop_;
    std::map<NodeId, Node> nodes_;
    std::set<std::pair<NodeId, NodeId>> links_;
};

TEST_F(Nodes, WhoFindsNobodyFounds) {
    const NodeId self{1, 0};
    begin(self, {{2, 0}}, std::chrono::milliseconds(10));
    EXPECT_FALSE(nodes_[self].founded);
    run_until([&] { return nodes_[self].founded; });
}

TEST_F(Nodes, WhoFindsAClusterJoinsIt) {
    const NodeId self{1, 0};
    const NodeId member{2, 0};
    nodes_[member].is_in = true;
    begin(self, {member}, std::chrono::seconds(60));
    run_until([&] { return nodes_[self].is_in; });
    EXPECT_TRUE(nodes_[self].joined);
}

TEST_F(Nodes, WhoeverIsNeverLetInIsNotWaitedForWithoutEnd) {
    const NodeId self{1, 0};
    const NodeId other{2, 0};
    nodes_[other].joins = true;
    begin(self, {other}, std::chrono::milliseconds(20));
    run_until([&] { return nodes_[self].founded; });
}

TEST_F(Nodes, OfSeveralOnlyOneFounds) {
    const std::set<NodeId> all{{1, 0}, {2, 0}, {3, 0}};
    for (const NodeId node : all) nodes_[node];
    // The one that founds is the last to lose patience.
    for (const NodeId node : all) begin(node, all, std::chrono::milliseconds(node.high == 1 ? 600 : 300));
    run_until([&] { return std::ranges::all_of(nodes_, [](const auto& each) { return each.second.is_in; }); });
    EXPECT_TRUE(nodes_[(NodeId{1, 0})].founded);
    EXPECT_TRUE(nodes_[(NodeId{2, 0})].joined);
    EXPECT_TRUE(nodes_[(NodeId{3, 0})].joined);
}

}  // namespace
}  // namespace chaos::tensor
