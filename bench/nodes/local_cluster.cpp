#include "nodes/local_cluster.h"

#include "base/file.h"

namespace chaos::bench {
namespace {

constexpr std::chrono::seconds patience_to_found{60};

}  // namespace

NodeStart LocalCluster::start_of(const std::string& name) const {
    NodeStart start;
    start.run_file = options_.run_file;
    start.dir = dir(name);
    start.home = options_.folder / "home";
    start.toy = options_.toy;
    start.environment = options_.environment;
    start.more = options_.more;
    return start;
}

Result<void> LocalCluster::start(const std::string& name, const NodeStart& start) {
    CHAOS_TRY(NodeProcess node, NodeProcess::start(start));
    nodes_.insert_or_assign(name, std::move(node));
    return {};
}

Result<void> LocalCluster::found(const std::string& name) {
    NodeStart founder = start_of(name);
    if (options_.strict) founder.more.emplace_back("--strict");
    CHAOS_CHECK(start(name, founder));
    CHAOS_CHECK(node(name).wait_for(is_kind("trained"), patience_to_found));
    return {};
}

Result<void> LocalCluster::join(const std::string& name) {
    NodeStart start_now = start_of(name);
    start_now.join = addresses_without(name);
    if (!std::filesystem::exists(dir(name))) {
        start_now.command = "join";
        if (!options_.data.empty()) start_now.more.insert(start_now.more.end(), {"--data", options_.data.string()});
    }
    return start(name, start_now);
}

Result<void> LocalCluster::start_again(const std::string& name) {
    return start(name, start_of(name));
}

Result<Line> LocalCluster::until_it_trains(const std::string& name, std::chrono::milliseconds patience) {
    return node(name).wait_for(is_kind("trained"), patience);
}

std::vector<std::string> LocalCluster::running() const {
    std::vector<std::string> names;
    for (const auto& [name, node] : nodes_) names.push_back(name);
    return names;
}

// A node writes down where it listens before it does anything else.
std::vector<std::string> LocalCluster::addresses_without(const std::string& name) const {
    std::vector<std::string> addresses;
    for (const auto& [other, node] : nodes_) {
        if (other == name) continue;
        if (const Result<std::string> address = read_file(dir(other) / "address")) addresses.push_back(*address);
    }
    return addresses;
}

}  // namespace chaos::bench
