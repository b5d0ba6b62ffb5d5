// What both ways to serve share: alone (serve.cpp) and with other nodes (serve_together.cpp).
#pragma once

#include "base/result.h"
#include "cli/commands.h"
#include "serve/service.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace chaos::cli {

// A service that listens, and the words for where.
struct OpenService {
    std::unique_ptr<serve::Service> service;
    std::string host;
    std::string url;
    std::vector<std::string> keys;  // of those who may ask; none: everybody
};
[[nodiscard]] Result<OpenService> open_service(const ServeOptions& options);

// Says that there is a model to be loaded, which may take long.
void announce_loading(const std::string& model);
// Says where the model answers, and warns where anybody may ask, or nobody may chat.
void announce(const OpenService& open, const serve::Facts& facts);

// Runs the service beside what else is to be done.
class Serving {
public:
    // `then` is called when it has ended, by its thread.
    explicit Serving(serve::Service& service, std::function<void()> then = {});
    // At once, if it is not over: whoever wrote the answers does not any more.
    ~Serving();
    Serving(const Serving&) = delete;
    Serving& operator=(const Serving&) = delete;
    void wait() { thread_.join(); }

private:
    serve::Service& service_;
    std::thread thread_;
};

[[nodiscard]] Result<void> serve_together(const ServeOptions& options);

}  // namespace chaos::cli
