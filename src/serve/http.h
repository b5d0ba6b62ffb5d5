// A small HTTP/1.1 server: one loop in one thread, everything bounded (HttpLimits).
//
// A connection carries one request after the other; an answer is a whole body, or a stream that is written piece by
// piece. While an answer is under way the server goes on reading: who closes its connection, or only its own half of
// it, has gone, and the handler knows at once. Requests sent ahead wait for their turn, but no more than 64 kB of them.
//
// Nobody who connects can hold the server up: who sends too slowly, too much or nonsense, or does not read what was
// written, is dropped. Everything here is called, and calls back, in the loop's thread, unless it says otherwise.
#pragma once

#include "base/result.h"
#include "net/address.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chaos::serve {

struct HttpLimits {
    std::size_t max_connections = 512;
    std::size_t max_header_bytes = 16 << 10;
    std::size_t max_body_bytes = 8 << 20;
    std::size_t max_bodies_bytes = 64 << 20;          // of all requests together that have not been answered
    std::chrono::milliseconds idle_limit{75'000};     // for the next request to begin
    std::chrono::milliseconds request_limit{30'000};  // for all of it to arrive
    // What is written for a client that has yet to read more than this drops it; so one write may be of any size.
    std::size_t max_unread_bytes = 1 << 20;
    std::chrono::milliseconds unread_limit{30'000};  // for a client to read anything of what waits for it
};

struct HttpRequest {
    std::string method;
    std::string path;    // without what follows a '?'
    std::string client;  // its address, without the port
    std::vector<std::pair<std::string, std::string>> fields;
    std::string body;

    // The first field of that name, whatever its case; empty: there is none.
    [[nodiscard]] std::string_view field(std::string_view name) const;
};

struct HttpAnswer {
    unsigned status = 200;
    std::string content_type = "application/json";
    std::string body;
    std::vector<std::pair<std::string, std::string>> fields;
};

// The answer to one request, in the handler's hands. It may be kept and completed later: copies are the same answer. If
// the client has gone, what is written goes nowhere. When the last copy is gone, the answer ends; with status 500, if
// it has not begun.
class HttpReply {
public:
    class Exchange;  // what all copies share
    explicit HttpReply(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

    void answer(const HttpAnswer& answer) const;
    // Or: a stream. The body of `answer` is its beginning.
    void begin(const HttpAnswer& answer) const;
    void write(std::string_view bytes) const;
    void end() const;

    // Whether the client is there and the answer has not ended; and has begun.
    [[nodiscard]] bool open() const;
    [[nodiscard]] bool begun() const;
    // Called once if the client goes before the answer's end, which includes being dropped, maybe inside write().
    void on_gone(std::function<void()> call) const;

private:
    std::shared_ptr<Exchange> exchange_;
};

class HttpHandler {
public:
    virtual ~HttpHandler() = default;
    // Called when a request's header is there and its body may not be. An answer to that alone is the only one, and
    // what comes of the body is thrown away: so strangers are refused before they have cost anything.
    [[nodiscard]] virtual std::optional<HttpAnswer> answer_head(const HttpRequest& head) = 0;
    // All of a request that answer_head() left open.
    virtual void answer(HttpRequest request, const HttpReply& reply) = 0;
    // What never became a request: 400, 413, 431 or 503. `sentence` says why.
    [[nodiscard]] virtual HttpAnswer refuse(unsigned status, const std::string& sentence) = 0;
};

class HttpServer {
public:
    // Listens from now on; run() answers.
    static Result<std::unique_ptr<HttpServer>> open(const net::Address& address, HttpHandler& handler,
                                                    const HttpLimits& limits = {});
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    [[nodiscard]] std::uint16_t port() const;

    // Connections that begin with a TLS greeting are not for this server: they are given to `taker`, as descriptors
    // that it then owns, in the loop. Before run().
    void pass_on_tls(std::function<void(int descriptor)> taker);

    // The loop: returns when stop() has done its work.
    void run();

    // These may be called from any thread.
    //
    // Calls it in the loop; not any more once run() has returned.
    void post(std::function<void()> call);
    // No more connections and requests; answers under way may go on for so long. A second call ends them at once.
    void stop(std::chrono::milliseconds grace);
    // Does that at SIGINT and SIGTERM.
    void stop_on_signals(std::chrono::milliseconds grace);

private:
    struct Loop;
    struct State;
    HttpServer(std::unique_ptr<Loop> loop, std::shared_ptr<State> state);
    std::unique_ptr<Loop> loop_;
    std::shared_ptr<State> state_;
};

}  // namespace chaos::serve
