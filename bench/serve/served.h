// Processes of `chaos serve`: alone, or a node among others, on this machine or in a host of a testbed.
//
//   CHAOS_TRY(auto first, ServedNode::start({.model = model, .folder = folder, .name = "a"}));
//   CHAOS_TRY(auto second, ServedNode::start({.model = model, .folder = folder, .name = "b", .join = {...}}));
//   CHAOS_CHECK(first.wait_until_with(1));
//   CHAOS_TRY(auto stream, first.ask(some_text(1, 8, 64)));
//
// A process that goes out of scope is killed.
#pragma once

#include "base/result.h"
#include "infer/slice.h"
#include "stream.h"
#include "testbed/process.h"
#include "testbed/testbed.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace chaos::bench {

struct NodeStart {
    std::filesystem::path model{};   // empty: it gets its slice from the others
    std::filesystem::path folder{};  // of the experiment: keys, and a folder for each node
    std::string name{};              // empty: it serves alone, without a cluster
    std::vector<std::string> join{};
    std::vector<std::string> more{};        // arguments
    const testbed::Testbed* box = nullptr;  // with `host`: there, else on this machine
    std::string host{};
};

class ServedNode {
public:
    // It answers.
    static Result<ServedNode> start(const NodeStart& start);
    // It has just begun, and has no address before it answers.
    static Result<ServedNode> launch(const NodeStart& start);
    [[nodiscard]] Result<void> wait_until_it_answers();

    [[nodiscard]] const std::string& address() const { return address_; }
    [[nodiscard]] testbed::Process& process() { return process_; }
    [[nodiscard]] Result<Stream> ask(const nlohmann::json& request) const;
    // A text, read to its end.
    [[nodiscard]] Result<Stream> write(const nlohmann::json& request) const;

    // Whether it computes with so many others, as the last that it said of that.
    [[nodiscard]] bool is_with(std::size_t others) const;
    [[nodiscard]] Result<void> wait_until_with(std::size_t others) const;
    // What it has of the model, as the last that it said of that; nothing: all of it.
    [[nodiscard]] std::optional<infer::Slice> slice() const;
    // What `chaos status --json` tells.
    [[nodiscard]] Result<nlohmann::json> status() const;
    // Until it is so; asked with pauses between. `what` it is that does not come, for an error.
    [[nodiscard]] Result<void> wait_for(const std::function<bool()>& condition, const std::string& what,
                                        std::chrono::milliseconds pause = std::chrono::milliseconds(5)) const;

    // Resident memory, by /proc.
    struct Memory {
        std::uint64_t peak_bytes = 0;       // of all there is
        std::uint64_t anonymous_bytes = 0;  // now
        std::uint64_t file_bytes = 0;       // now: the program, and what it has mapped of files
    };
    [[nodiscard]] Result<Memory> memory() const;
    // From now on the peak is of what comes.
    void forget_peak() const;

private:
    ServedNode(testbed::Process process, NodeStart start) : process_(std::move(process)), start_(std::move(start)) {}
    [[nodiscard]] std::string last_division() const;

    testbed::Process process_;
    NodeStart start_;
    std::string address_;
};

}  // namespace chaos::bench
