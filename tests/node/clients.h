// Commands that reach a node through its control socket.
#pragma once

#include "node/ask.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace chaos::test {

using nlohmann::json;

// All lines of an answer.
inline Result<std::vector<json>> ask_all(const std::filesystem::path& dir, const json& request) {
    std::vector<json> lines;
    CHAOS_CHECK(node::ask(dir, request, [&lines](const json& line) -> Result<void> {
        lines.push_back(line);
        return {};
    }));
    return lines;
}

inline std::string error_of(const std::filesystem::path& dir, const json& request) {
    const auto answer = ask_all(dir, request);
    return answer ? "no error" : answer.error().message;
}

// A client in a thread, and what it has heard.
class Listener {
public:
    Listener(const std::filesystem::path& dir, const json& request)
        : thread_([this, dir, request] {
              const auto done = node::ask(dir, request, [this](const json& line) -> Result<void> {
                  last_ = line.value("number", -1);
                  ++lines_;
                  return {};
              });
              error_ = done ? "" : done.error().message;
          }) {}
    ~Listener() {
        if (thread_.joinable()) thread_.join();
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    void wait_for_lines(int count) const {
        while (lines_ < count) std::this_thread::yield();
    }
    [[nodiscard]] int last() const { return last_; }
    // At the answer's end; empty: it was complete.
    std::string wait() {
        thread_.join();
        return error_;
    }

private:
    std::atomic<int> lines_ = 0;
    std::atomic<int> last_ = -1;
    std::string error_;
    std::thread thread_;
};

}  // namespace chaos::test
