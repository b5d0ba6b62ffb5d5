// The server as clients see it:
//
//   GET  /                      a page to chat with the model
//   GET  /v1/models             POST /v1/chat/completions     POST /v1/completions       OpenAI's API (api.h)
//   GET  /metrics               for Prometheus
//   GET  /livez                 200: the process answers
//   GET  /readyz                200: the model is loaded, and texts can be written; else 503
//
// With keys, everything but the page, /livez and /readyz needs one of them (Authorization: Bearer KEY). Pages of other
// sites may not use the server of whoever looks at them: a request with a foreign Origin is refused; and, without keys,
// one that calls a loopback server by a name other than localhost, which is how a foreign page could pretend to be
// ours.
#pragma once

#include "base/result.h"
#include "serve/generator.h"
#include "serve/http.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace chaos::serve {

struct ServiceOptions {
    std::vector<std::string> keys;
    HttpLimits limits;
    std::chrono::milliseconds grace{30'000};  // that running answers get when the server is to stop
    // So long requests are taken while no texts can be written: those who compute together usually go on by then.
    std::chrono::milliseconds patience{10'000};
};

class Service {
public:
    // Listens from now on; until set_generator(), answers say that the model is being loaded.
    static Result<std::unique_ptr<Service>> open(const net::Address& address, const ServiceOptions& options);
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    [[nodiscard]] std::uint16_t port() const;
    // Connections that are not HTTP's (HttpServer::pass_on_tls). Before run().
    void pass_on_tls(std::function<void(int descriptor)> taker);
    // Answers until it is stopped, by stop() or by a signal.
    void run();

    // These may be called from any thread.
    //
    // It must outlive run(), and must be gone before this object is.
    void set_generator(Generator& generator);
    // Whether the generator can write now; it can until it is said that it cannot. Requests wait for some time, and
    // then answers say so.
    void set_writes(bool writes);
    void stop();
    // Nobody writes any more what is under way.
    void stop_at_once();
    void stop_on_signals();

private:
    class Routes;
    explicit Service(std::unique_ptr<Routes> routes);
    std::unique_ptr<Routes> routes_;
};

}  // namespace chaos::serve
