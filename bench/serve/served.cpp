#include "served.h"

#include <unistd.h>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace chaos::bench {
namespace {

using nlohmann::json;
using testbed::Process;

constexpr std::chrono::seconds patience{60};

// The number behind a word, from where the last search ended on.
std::int64_t number_after(const std::string& text, const std::string& word, std::size_t& from) {
    from = text.find(word, from);
    if (from == std::string::npos) return 0;
    from += word.size();
    return std::atoll(text.c_str() + from);
}

}  // namespace

Result<ServedNode> ServedNode::start(const NodeStart& start) {
    CHAOS_TRY(ServedNode node, launch(start));
    CHAOS_CHECK(node.wait_until_it_answers());
    return node;
}

Result<ServedNode> ServedNode::launch(const NodeStart& start) {
    // Whatever ends the experiment ends its nodes.
    std::vector<std::string> arguments{
        "setpriv",     "--pdeathsig", "KILL", "env", "CHAOS_HOME=" + (start.folder / "home").string(),
        CHAOS_PROGRAM, "serve"};
    if (!start.model.empty()) arguments.push_back(start.model.string());
    std::string host = "127.0.0.1";
    testbed::Place place;
    if (start.box != nullptr) {
        CHAOS_TRY(host, start.box->address(start.host));
        CHAOS_TRY(place, start.box->place(start.host));
    }
    arguments.insert(arguments.end(), {"--listen", host + ":0"});
    if (!start.name.empty()) arguments.insert(arguments.end(), {"--dir", (start.folder / start.name).string()});
    for (const std::string& address : start.join) arguments.insert(arguments.end(), {"--join", address});
    arguments.insert(arguments.end(), start.more.begin(), start.more.end());
    CHAOS_TRY(Process process, Process::start(arguments, place));
    return ServedNode(std::move(process), start);
}

// "... answers at http://127.0.0.1:34567/v1; ..."
Result<void> ServedNode::wait_until_it_answers() {
    CHAOS_CHECK(wait_for([this] { return process_.out().find("/v1") != std::string::npos; }, "to answer"));
    const std::string out = process_.out();
    const std::string before = "http://";
    const std::size_t at = out.find(before);
    const std::size_t end = out.find("/v1", at);
    if (at == std::string::npos || end == std::string::npos)
        return Error{"chaos serve does not say where it answers: " + out};
    address_ = out.substr(at + before.size(), end - at - before.size());
    return {};
}

Result<Stream> ServedNode::ask(const json& request) const {
    testbed::Descriptor connection;
    if (start_.box != nullptr) {
        CHAOS_CHECK(start_.box->inside(start_.host, [&]() -> Result<void> {
            CHAOS_TRY(connection, connect_to(address_));
            return {};
        }));
    } else {
        CHAOS_TRY(connection, connect_to(address_));
    }
    return Stream::ask(std::move(connection), request);
}

Result<Stream> ServedNode::write(const json& request) const {
    CHAOS_TRY(Stream stream, ask(request));
    CHAOS_CHECK(stream.receive_all());
    const auto wanted = request.at("max_tokens").get<std::size_t>();
    if (stream.tokens().size() != wanted)
        return Error{std::to_string(stream.tokens().size()) + " of " + std::to_string(wanted) + " tokens came"};
    return stream;
}

std::string ServedNode::last_division() const {
    const std::string out = process_.out();
    const std::size_t at = out.rfind("computes ");
    if (at == std::string::npos) return {};
    const std::size_t end = out.find('\n', at);
    return end == std::string::npos ? std::string() : out.substr(at, end - at);
}

bool ServedNode::is_with(std::size_t others) const {
    return last_division().starts_with(others == 0 ? "computes alone"
                                                   : "computes with " + std::to_string(others) + " other");
}

Result<void> ServedNode::wait_until_with(std::size_t others) const {
    return wait_for([&] { return is_with(others); }, "to compute with " + std::to_string(others) + " others");
}

Result<void> ServedNode::wait_for(const std::function<bool()>& condition, const std::string& what,
                                  std::chrono::milliseconds pause) const {
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (process_.ended()) return Error{"chaos serve ended: " + process_.out() + process_.err()};
        if (std::chrono::steady_clock::now() > limit)
            return Error{"a node does not get " + what + ": " + process_.out() + process_.err()};
        std::this_thread::sleep_for(pause);
    }
    return {};
}

std::optional<infer::Slice> ServedNode::slice() const {
    const std::string division = last_division();
    if (division.find("heads ") == std::string::npos) return std::nullopt;
    std::size_t from = 0;
    const auto extent = [&](const std::string& what) {
        const std::int64_t first = number_after(division, what, from);
        return infer::Extent{first, number_after(division, " to ", from) - first};
    };
    infer::Slice slice;
    slice.heads = extent("heads ");
    slice.ffn = extent("FFN columns ");
    slice.vocab = extent("tokens ");
    return slice;
}

Result<json> ServedNode::status() const {
    CHAOS_TRY(const std::string told, testbed::run_program({CHAOS_PROGRAM, "status", "--dir",
                                                            (start_.folder / start_.name).string(), "--json"}));
    json status = json::parse(told, nullptr, false);
    if (!status.is_object()) return Error{"chaos status tells no object: " + told};
    return status;
}

Result<ServedNode::Memory> ServedNode::memory() const {
    std::ifstream file("/proc/" + std::to_string(process_.pid()) + "/status");
    Memory memory;
    std::string word;
    std::uint64_t kibibytes = 0;
    while (file >> word) {
        if (word == "VmHWM:" && file >> kibibytes) memory.peak_bytes = kibibytes * 1024;
        if (word == "RssAnon:" && file >> kibibytes) memory.anonymous_bytes = kibibytes * 1024;
        if (word == "RssFile:" && file >> kibibytes) memory.file_bytes = kibibytes * 1024;
    }
    if (memory.peak_bytes == 0) return Error{"/proc does not tell a node's memory"};
    return memory;
}

void ServedNode::forget_peak() const {
    std::ofstream("/proc/" + std::to_string(process_.pid()) + "/clear_refs") << "5";
}

}  // namespace chaos::bench
