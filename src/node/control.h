// node/ wires everything into one process: a node. Only the command line stands above it.
//
// The control socket of a running node is how commands of the same machine and user reach it:
//
//   chaos status ──► DIR/control.sock ──► ControlHandler::answer(request, reply)
//                ◄─────────────────────── reply.send(line)..., or whatever is published on a topic, until reply.end()
//
// A connection carries one request: one line of JSON, {"command": "status", ...}. The answer is lines of JSON, then an
// empty line, then the end of the connection; what ends without the empty line was cut short. {"error": "sentence"} is
// the answer to what cannot be done. docs/control.md lists the commands and what they answer; ask.h is the other end.
//
// Nobody who connects can hold the node up: all is bounded (ControlLimits), and who exceeds a bound is dropped. Only
// the node's user may connect. Everything here is called, and calls back, in the loop's thread.
#pragma once

#include "base/result.h"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace boost::asio {
class io_context;
}

namespace chaos::node {

struct ControlLimits {
    std::size_t max_connections = 16;
    std::size_t max_request_bytes = 64 << 10;
    std::chrono::milliseconds request_limit{5'000};  // for all of a request to arrive
    // A line for a client that has yet to read more than this drops it; so one line may be of any size.
    std::size_t max_unread_bytes = 4 << 20;
    std::chrono::milliseconds unread_limit{5'000};    // for a client to read anything of what waits for it
    std::chrono::milliseconds refresh_interval{250};  // the shortest time between two lines of refresh()
};

// The answer to one request, in the handler's hands. It may be kept and completed later: copies are the same answer. If
// the client has gone, what is sent goes nowhere. When the last copy is gone, the answer ends.
//
// As much as the system takes leaves at once: what was sent arrives although the loop ends right afterwards.
class Reply {
public:
    class Answer;  // what all copies share
    explicit Reply(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}

    void send(const nlohmann::json& line) const;
    // From now on the client also gets what is published on this topic; the topic keeps the reply.
    void subscribe(const std::string& topic) const;
    void end() const;

    void answer(const nlohmann::json& line) const;   // the only line
    void refuse(const std::string& sentence) const;  // likewise: {"error": sentence}

    // Whether the client is there and the answer has not ended.
    [[nodiscard]] bool open() const;

private:
    std::shared_ptr<Answer> answer_;
};

// What the node knows and does. A request is an object whose "command" is a string; nothing else of it is checked yet.
// Exceptions of nlohmann::json (a field of the wrong type) are answered as an error.
class ControlHandler {
public:
    virtual ~ControlHandler() = default;
    virtual void answer(const nlohmann::json& request, const Reply& reply) = 0;
};

class ControlSocket {
public:
    // Listens at DIR/control.sock. Whoever calls holds DIR's lock, so a socket that lies there is of a dead process.
    static Result<std::unique_ptr<ControlSocket>> open(boost::asio::io_context& loop, const std::filesystem::path& dir,
                                                       ControlHandler& handler, const ControlLimits& limits = {});
    ~ControlSocket();
    ControlSocket(const ControlSocket&) = delete;
    ControlSocket& operator=(const ControlSocket&) = delete;

    // One line to all who listen to the topic.
    void publish(const std::string& topic, const nlohmann::json& line);
    // For what changes often, and where only the newest counts: soon, and not too often, publishes what `make` gives
    // then. `make` is called from the loop, and only if somebody listens.
    void refresh(const std::string& topic, std::function<nlohmann::json()> make);
    [[nodiscard]] bool has_listeners(const std::string& topic) const;

    // Removes the socket and ends all answers; those that have not begun say that the node stopped. The handler is not
    // called any more.
    void stop();

    struct State;  // what connections share with it

private:
    explicit ControlSocket(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

}  // namespace chaos::node
