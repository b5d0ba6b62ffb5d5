// A node whose learner is a toy, for tests and benches: key, links, core, steps and all-reduce are the real ones, but
// what is learned is a sum of small whole numbers. So every result has exactly one right value, whoever computed which
// samples and in whatever order they were added; the learner checks each one that it applies.
//
// Nodes of one toy cluster know each other's numbers, keys and addresses beforehand, and begin as a cluster that was
// founded before and went down (a prepared vote on disk): nobody has to join.
#pragma once

#include "elastic/steps.h"
#include "live/member.h"
#include "numbered_nodes.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace chaos::toy {

using cluster::NodeId;

struct ToyCluster {
    std::vector<std::string> addresses;  // by number: where each listens; empty: nowhere, as behind NAT
    std::uint32_t batch = 64;
    std::size_t floats = 1 << 20;
    std::uint32_t speed = 100'000;  // samples per second that a node computes
    cluster::Nanoseconds detect = cluster::second;
    std::uint32_t bulk_connections = 2;
};

using bench::id_of;

class ToyLearner final : public elastic::Learner {
public:
    explicit ToyLearner(const ToyCluster& cluster) : cluster_(cluster) {}
    [[nodiscard]] Result<std::chrono::nanoseconds> compute(const Task& task, std::span<float> into) override;
    [[nodiscard]] cluster::Name apply(std::uint64_t step, const cluster::View& view, std::span<const float> result,
                                      const state::ResultDigest& digest) override;
    void restore(const cluster::Name& lineage) { lineage_ = lineage; }
    // Results that were not what they must be.
    [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

private:
    const ToyCluster& cluster_;
    cluster::Name lineage_{};
    std::uint64_t wrong_ = 0;
};

struct ToyEvents {
    std::function<void(std::uint64_t step, const cluster::Name& lineage)> applied;
    std::function<void(const std::string& text)> note;
    std::function<void(NodeId peer)> link_down;
    std::function<void(const cluster::ViewPtr& view)> adopted;
};

class ToyNode final : private live::Worker {
public:
    // `folder` is this node's own.
    ToyNode(net::asio::io_context& loop, const ToyCluster& cluster, unsigned number,
            const std::filesystem::path& folder, ToyEvents events);

    // Listens and begins; the first step starts once a quorum is there.
    [[nodiscard]] Result<void> start();
    void stop() { member_.stop(); }
    [[nodiscard]] live::Member& member() { return member_; }
    [[nodiscard]] const ToyLearner& learner() const { return learner_; }

private:
    void adopted(const cluster::ViewPtr& view) override;
    void start_step(std::uint64_t step, const cluster::ViewPtr& view) override;
    void stop_step() override;
    void take_result(std::uint64_t step, const std::vector<NodeId>& holders) override;
    void restore(std::uint64_t applied, const cluster::Name& lineage) override;
    void begin_sync(const cluster::ViewPtr& view) override;
    void activated(std::uint64_t first_step, const cluster::ViewPtr& view) override;
    void excluded(const std::string& why, bool final) override;
    void left() override;
    void stable(std::uint64_t steps) override;
    void link_up(NodeId peer) override;
    void link_down(NodeId peer) override;
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void note(const std::string& text) override;
    void failed(const Error& why) override;

    ToyEvents events_;
    ToyLearner learner_;
    elastic::ComputeThread thread_;
    elastic::Steps steps_;
    live::Member member_;
};

}  // namespace chaos::toy
