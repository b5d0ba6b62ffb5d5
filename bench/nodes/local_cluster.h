// Nodes of one run on this machine, by name, over the loopback device: nobody needs root. Each has its folder,
// FOLDER/NAME; their institution lies in FOLDER/home. What was learnt of a node stays in its folder when its process
// ends.
#pragma once

#include "nodes/nodes.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace chaos::bench {

struct LocalClusterOptions {
    std::filesystem::path folder{};
    std::filesystem::path run_file{};
    std::filesystem::path data{};  // where newcomers find the run's data files; empty: there are none
    bool strict = false;           // the policy: only a side with a quorum goes on
    bool toy = true;               // compute with the toy engine instead of LibTorch
    std::map<std::string, std::string> environment{};
    std::vector<std::string> more{};  // arguments of every node
};

class LocalCluster {
public:
    explicit LocalCluster(LocalClusterOptions options) : options_(std::move(options)) {}

    // The first node. Returns when it trains.
    [[nodiscard]] Result<void> found(const std::string& name);
    // A newcomer, or one that was here before; by way of everybody who runs. Does not wait.
    [[nodiscard]] Result<void> join(const std::string& name);
    // One that was here before, when all were down: it goes on with the cluster that its folder knows.
    [[nodiscard]] Result<void> start_again(const std::string& name);
    // Since its process began: it takes part in steps.
    [[nodiscard]] Result<Line> until_it_trains(const std::string& name, std::chrono::milliseconds patience);

    [[nodiscard]] NodeProcess& node(const std::string& name) { return nodes_.at(name); }
    // Those whose processes have not been seen to end.
    [[nodiscard]] std::vector<std::string> running() const;
    // Its process has ended, or is to be killed now.
    void drop(const std::string& name) { nodes_.erase(name); }
    [[nodiscard]] std::filesystem::path dir(const std::string& name) const { return options_.folder / name; }

private:
    [[nodiscard]] NodeStart start_of(const std::string& name) const;
    [[nodiscard]] Result<void> start(const std::string& name, const NodeStart& start);
    [[nodiscard]] std::vector<std::string> addresses_without(const std::string& name) const;

    LocalClusterOptions options_;
    std::map<std::string, NodeProcess> nodes_;
};

}  // namespace chaos::bench
