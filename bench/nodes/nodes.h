// bench/nodes: real nodes for experiments: processes of the `chaos` program, on this machine or in the hosts of a
// testbed. What they print (--json) is read as it comes, and each line has the time at which the node printed it:
//
//   NodeStart start{.command = "up", .run_file = folder / "run.toml", .dir = folder / "a", .home = folder / "home"};
//   start.listen = *box.address("a") + ":7440";
//   start.place = *box.place("a");
//   CHAOS_TRY(NodeProcess a, NodeProcess::start(start));
//   CHAOS_TRY(const Line line, a.wait_for(is_kind("trained"), std::chrono::seconds(30)));
//
// A node that goes out of scope is killed.
#pragma once

#include "base/result.h"
#include "testbed/process.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace chaos::bench {

struct Line {
    double time = 0.0;  // seconds since 1970; now() compares
    nlohmann::json content;
};

// By the clock that nodes of this machine use, too.
[[nodiscard]] double now();

// The program that nodes are processes of.
[[nodiscard]] std::filesystem::path chaos_program();
[[nodiscard]] std::filesystem::path toy_plugin();

using Wanted = std::function<bool(const nlohmann::json&)>;
// The kind of an event, or "trained" (docs/control.md).
[[nodiscard]] Wanted is_kind(const std::string& kind);
// ... whose text contains this.
[[nodiscard]] Wanted tells(const std::string& kind, const std::string& part_of_text);
[[nodiscard]] Wanted trained_step(std::uint64_t step);  // this one, or one after it

struct NodeStart {
    std::string command = "up";        // or "join"
    std::filesystem::path run_file{};  // up
    std::filesystem::path dir{};
    std::filesystem::path home{};  // CHAOS_HOME: one for all nodes whose institution is the same
    std::string listen{};
    std::vector<std::string> join{};  // addresses
    bool toy = true;                  // compute with the toy engine instead of LibTorch
    testbed::Place place{};
    std::map<std::string, std::string> environment{};
    std::vector<std::string> more{};  // arguments
};

class NodeProcess {
public:
    static Result<NodeProcess> start(const NodeStart& start);

    [[nodiscard]] const std::filesystem::path& dir() const { return dir_; }
    [[nodiscard]] testbed::Process& process() { return process_; }
    void kill() { process_.kill(); }
    void freeze() { process_.freeze(); }
    void thaw() { process_.thaw(); }

    // All it has told so far.
    [[nodiscard]] const std::vector<Line>& lines();
    // The first such line from the line with this number on. An error: the node ended, or patience did.
    [[nodiscard]] Result<Line> wait_for(const Wanted& wanted, std::chrono::milliseconds patience, std::size_t from = 0);

    // Through its control socket.
    [[nodiscard]] Result<nlohmann::json> status() const;
    [[nodiscard]] Result<nlohmann::json> ask(const nlohmann::json& request) const;  // the last line of the answer

    // Of the process, by /proc.
    [[nodiscard]] double cpu_seconds() const;
    [[nodiscard]] std::uint64_t memory_bytes() const;
    [[nodiscard]] std::size_t descriptors() const;

    // What it printed last, for messages about failures.
    [[nodiscard]] std::string last_words();

private:
    NodeProcess(testbed::Process process, std::filesystem::path dir)
        : process_(std::move(process)), dir_(std::move(dir)) {}

    testbed::Process process_;
    std::filesystem::path dir_;
    std::size_t read_bytes_ = 0;
    std::string begun_;  // a line whose end has not been read
    std::vector<Line> lines_;
};

// Computes the run of nodes again, from the journals in their folders: how many steps there are, all with the same
// bits.
[[nodiscard]] Result<std::uint64_t> compute_again(const std::vector<std::filesystem::path>& dirs,
                                                  const std::filesystem::path& run_file, bool toy);

// A run for the toy engine (bench/toy_engine/plugin.cpp) whose state, optimizer included, has about so many bytes.
[[nodiscard]] std::string toy_run_text(std::uint64_t state_bytes, std::uint64_t batch, std::uint64_t steps);
// How many bytes it has exactly.
[[nodiscard]] std::uint64_t toy_state_bytes(std::uint64_t state_bytes);

}  // namespace chaos::bench
