// A network in memory for tests: between two nodes several streams, each in order and with a small buffer, all of them
// interleaved at random. It does one thing at a time, chosen by its seed, so that a run can be repeated and a fault can
// strike between any two things.
#pragma once

#include "collective/engine.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace chaos::collective::test {

class Network {
public:
    struct Options {
        std::uint64_t seed = 1;
        std::uint32_t streams = 1;        // between two nodes
        std::size_t buffered_chunks = 2;  // per stream, after they left the sender
    };
    explicit Network(const Options& options) : options_(options), random_(options.seed) {}

    struct Node {
        std::unique_ptr<Transport> port;
        std::unique_ptr<Engine> engine;
        std::map<ExchangeId, Outcome> outcomes;
        std::vector<Refusal> refusals;
        bool alive = true;
    };

    Node& add(NodeId id) {
        Node& node = nodes_[id];
        node.port = std::make_unique<Port>(*this, id);
        node.engine = std::make_unique<Engine>(
            *node.port,
            Engine::Callbacks{.ended =
                                  [&node](ExchangeId exchange, const Outcome& outcome) {
                                      ASSERT_TRUE(node.outcomes.emplace(exchange, outcome).second) << "ended twice";
                                  },
                              .refused = [&node](const Refusal& refusal) { node.refusals.push_back(refusal); }});
        return node;
    }
    Node& at(NodeId id) { return nodes_.at(id); }

    // Does one thing. False: there is nothing to do.
    bool step() {
        std::vector<Stream*> able;
        for (auto& [name, stream] : streams_) {
            if (can_move(stream) || can_receive(stream)) able.push_back(&stream);
        }
        if (able.empty()) return false;
        Stream& stream = *able[random_() % able.size()];
        if (can_move(stream) && (!can_receive(stream) || random_() % 2 == 0)) {
            move(stream);
        } else {
            receive(stream);
        }
        return true;
    }
    void run() {
        while (step()) {
        }
    }

    // Both ends notice, one after the other.
    void cut(NodeId a, NodeId b) {
        cut_.insert({a, b});
        cut_.insert({b, a});
        for (auto& [name, stream] : streams_) {
            if (!((stream.from == a && stream.to == b) || (stream.from == b && stream.to == a))) continue;
            if (stream.place && nodes_.at(stream.to).alive)
                nodes_.at(stream.to).engine->dropped(stream.from, stream.buffer.front().header);
            stream.place.reset();
            stream.buffer.clear();
            stream.queue.clear();
            stream.waits = false;
        }
        if (nodes_.at(a).alive) nodes_.at(a).engine->peer_lost(b);
        if (nodes_.at(b).alive) nodes_.at(b).engine->peer_lost(a);
    }
    void kill(NodeId victim) {
        nodes_.at(victim).alive = false;
        for (auto& [id, node] : nodes_) {
            if (id != victim) cut(victim, id);
        }
    }

private:
    struct Message {
        ChunkHeader header;
        std::span<const std::byte> payload;
        std::shared_ptr<const void> owner;
        std::vector<std::byte> copy;  // once it has left
    };
    struct Stream {
        NodeId from;
        NodeId to;
        std::deque<Message> queue;   // at the sender
        std::deque<Message> buffer;  // on the way
        std::optional<std::span<std::byte>> place;
        bool waits = false;
    };
    class Port final : public Transport {
    public:
        Port(Network& network, NodeId self) : network_(network), self_(self) {}
        void send(NodeId to, const ChunkHeader& header, std::span<const std::byte> payload,
                  std::shared_ptr<const void> owner) override {
            ASSERT_EQ(header.bytes, payload.size());
            ASSERT_NE(to, self_);
            if (network_.cut_.contains({self_, to})) return;
            const std::uint64_t which = network_.random_() % network_.options_.streams;
            Stream& stream = network_.streams_[{self_, to, which}];
            stream.from = self_;
            stream.to = to;
            stream.queue.push_back({header, payload, std::move(owner), {}});
        }
        void resume(NodeId from) override {
            for (auto& [name, stream] : network_.streams_) {
                if (stream.from == from && stream.to == self_) stream.waits = false;
            }
        }

        void cancel(ExchangeId exchange) override {
            for (auto& [name, stream] : network_.streams_) {
                if (stream.from != self_) continue;
                std::erase_if(stream.queue,
                              [&](const Message& message) { return message.header.exchange == exchange; });
            }
        }

    private:
        Network& network_;
        NodeId self_;
    };

    [[nodiscard]] bool can_move(const Stream& stream) const {
        return !stream.queue.empty() && stream.buffer.size() < options_.buffered_chunks;
    }
    [[nodiscard]] static bool can_receive(const Stream& stream) { return !stream.buffer.empty() && !stream.waits; }

    static void move(Stream& stream) {
        Message& message = stream.queue.front();
        message.copy.assign(message.payload.begin(), message.payload.end());
        message.owner.reset();
        stream.buffer.push_back(std::move(message));
        stream.queue.pop_front();
    }
    void receive(Stream& stream) {
        Engine& engine = *nodes_.at(stream.to).engine;
        const ChunkHeader header = stream.buffer.front().header;
        if (!stream.place) {
            const Place place = engine.place_for(stream.from, header);
            if (place.verdict == Place::Verdict::wait) stream.waits = true;
            if (place.verdict == Place::Verdict::skip) stream.buffer.pop_front();
            if (place.verdict != Place::Verdict::take) return;
            ASSERT_EQ(place.bytes.size(), header.bytes);
            stream.place = place.bytes;
            std::memcpy(place.bytes.data(), stream.buffer.front().copy.data(), header.bytes / 2);
            return;
        }
        std::memcpy(stream.place->data(), stream.buffer.front().copy.data(), header.bytes);
        stream.place.reset();
        stream.buffer.pop_front();
        engine.arrived(stream.from, header);
    }

    Options options_;
    std::mt19937_64 random_;
    std::map<NodeId, Node> nodes_;
    std::map<std::tuple<NodeId, NodeId, std::uint64_t>, Stream> streams_;
    std::set<std::pair<NodeId, NodeId>> cut_;
};

// What an exchange must give, computed without any of the engine: the sums of each tree in the documented order,
// encoded once per hop and once at the root.
class Reference {
public:
    Reference(const plan::SyncPlan& plan, std::vector<NodeId> members, const ScheduleOptions& options,
              std::vector<std::vector<float>> inputs)
        : members_(std::move(members)), encoding_(options.encoding), inputs_(std::move(inputs)) {
        result_.resize(inputs_.front().size());
        const std::vector<std::vector<Range>> ranges = ranges_of(plan, options.parts);
        for (std::size_t i = 0; i < plan.trees.size(); ++i) {
            const plan::SyncTree& tree = plan.trees[i];
            std::uint32_t root = 0;
            while (tree.parent[root] != root) ++root;
            for (const Range& range : ranges[i]) {
                const std::vector<float> sum = said_by(tree, root, range);
                std::copy(sum.begin(), sum.end(), result_.begin() + static_cast<std::ptrdiff_t>(range.first));
            }
        }
    }
    [[nodiscard]] const std::vector<float>& result() const { return result_; }

private:
    // NOLINTNEXTLINE(misc-no-recursion)
    [[nodiscard]] std::vector<float> said_by(const plan::SyncTree& tree, std::uint32_t member,
                                             const Range& range) const {
        const auto first = static_cast<std::ptrdiff_t>(range.first);
        const auto count = static_cast<std::ptrdiff_t>(range.count);
        std::vector<float> sum(inputs_[member].begin() + first, inputs_[member].begin() + first + count);
        std::vector<std::uint32_t> children;
        for (std::uint32_t i = 0; i < members_.size(); ++i) {
            if (i != member && tree.parent[i] == member) children.push_back(i);
        }
        std::sort(children.begin(), children.end(),
                  [&](std::uint32_t a, std::uint32_t b) { return members_[a] < members_[b]; });
        for (const std::uint32_t child : children) {
            const std::vector<float> theirs = said_by(tree, child, range);
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + theirs[i];
        }
        std::vector<std::byte> bytes(encoded_bytes(encoding_, sum.size()));
        encode(encoding_, sum, bytes, Path::scalar);
        decode(encoding_, bytes, sum, Path::scalar);
        return sum;
    }

    std::vector<NodeId> members_;
    Encoding encoding_;
    std::vector<std::vector<float>> inputs_;
    std::vector<float> result_;
};

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// The vectors of one member in one exchange.
struct Holder {
    std::vector<float> input;
    std::vector<float> output;
    std::vector<float> residual;
};
inline std::shared_ptr<Holder> hold(const std::vector<float>& input, bool with_residual = false) {
    return std::make_shared<Holder>(Holder{input, std::vector<float>(input.size(), -1.0F),
                                           std::vector<float>(with_residual ? input.size() : 0, -1.0F)});
}
inline Vectors vectors_of(const std::shared_ptr<Holder>& holder) {
    return {.input = holder->input, .output = holder->output, .residual = holder->residual, .owner = holder};
}

// Nodes whose order is not the order of their indexes.
inline std::vector<NodeId> some_nodes(std::uint32_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<NodeId> nodes;
    for (std::uint32_t i = 0; i < count; ++i) nodes.push_back({.high = random(), .low = i});
    return nodes;
}

// Trees of any shape over ranges of any length.
inline plan::SyncPlan random_plan(std::mt19937_64& random, std::uint32_t members, std::uint64_t floats) {
    plan::SyncPlan plan;
    plan.hash = random();
    for (std::uint64_t at = 0; at < floats;) {
        plan::SyncTree& tree = plan.trees.emplace_back();
        const std::uint64_t left = floats - at;
        const std::uint64_t count = plan.trees.size() == 5 ? left : 1 + random() % left;
        tree.first_byte = at * 4;
        tree.bytes = count * 4;
        at += count;
        std::vector<std::uint32_t> order(members);
        for (std::uint32_t i = 0; i < members; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        tree.parent.resize(members);
        tree.parent[order[0]] = order[0];
        for (std::uint32_t i = 1; i < members; ++i) tree.parent[order[i]] = order[random() % i];
    }
    return plan;
}

// A vector of so many floats in up to five parts, in any order.
inline std::vector<Range> random_parts(std::mt19937_64& random, std::uint64_t floats) {
    std::vector<Range> parts;
    for (std::uint64_t at = 0; at < floats;) {
        const std::uint64_t count = parts.size() == 4 ? floats - at : 1 + random() % (floats - at);
        parts.push_back({at, count});
        at += count;
    }
    std::shuffle(parts.begin(), parts.end(), random);
    return parts;
}

// One tree: everybody sends to members[root].
inline plan::SyncPlan star_plan(std::uint32_t members, std::uint64_t floats, std::uint32_t root = 0) {
    plan::SyncPlan plan;
    plan.hash = 77;
    if (floats > 0) plan.trees.push_back({0, floats * 4, std::vector<std::uint32_t>(members, root)});
    return plan;
}

inline std::shared_ptr<const Schedule> schedule_for(const plan::SyncPlan& plan, const std::vector<NodeId>& members,
                                                    NodeId self, const ScheduleOptions& options) {
    auto schedule = make_schedule(plan, members, self, options);
    EXPECT_TRUE(schedule.ok()) << schedule.error().message;
    return std::make_shared<const Schedule>(std::move(*schedule));
}

}  // namespace chaos::collective::test
