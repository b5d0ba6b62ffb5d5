#include "base/file.h"
#include "cli/chat_model.h"
#include "cli/commands.h"
#include "net/address.h"
#include "serve/service.h"

#include <cstdio>
#include <thread>

namespace chaos::cli {
namespace {

// One key in each line; empty lines and those that begin with # do not count.
Result<std::vector<std::string>> keys_of(const ServeOptions& options) {
    std::vector<std::string> keys = options.api_keys;
    if (!options.api_key_file.empty()) {
        CHAOS_TRY(const std::string text, read_file(options.api_key_file));
        for (std::size_t from = 0; from < text.size();) {
            const std::size_t end = std::min(text.find('\n', from), text.size());
            std::string line = text.substr(from, end - from);
            from = end + 1;
            while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
            if (!line.empty() && line.front() != '#') keys.push_back(std::move(line));
        }
        if (keys.empty()) return Error{options.api_key_file.string() + " has no key in it"};
    }
    for (const std::string& key : keys)
        if (key.empty()) return Error{"an API key must not be empty"};
    return keys;
}

// Runs the service beside what else is to be done.
class Serving {
public:
    explicit Serving(serve::Service& service) : service_(service), thread_([&service] { service.run(); }) {}
    ~Serving() {
        if (!thread_.joinable()) return;
        service_.stop();
        thread_.join();
    }
    Serving(const Serving&) = delete;
    Serving& operator=(const Serving&) = delete;
    void wait() { thread_.join(); }

private:
    serve::Service& service_;
    std::thread thread_;
};

}  // namespace

Result<void> serve(const ServeOptions& options) {
    CHAOS_TRY(const net::Address address, net::address_from_text(options.listen));
    serve::ServiceOptions how;
    CHAOS_TRY(how.keys, keys_of(options));
    CHAOS_TRY(auto file, infer::ModelFile::open(options.model));
    CHAOS_TRY(const auto service, serve::Service::open(address, how));
    const std::string host = address.host.empty() ? "127.0.0.1" : address.host;
    const std::string url = "http://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" +
                            std::to_string(service->port());
    Serving serving(*service);
    CHAOS_TRY(const auto model, ChatModel::load(std::move(file), options.model, options.compute));
    service->set_generator(model->generator());
    // While the model is being loaded, Ctrl-C ends the program as usual.
    service->stop_on_signals();
    std::printf("%s answers at %s/v1; chat with it at %s/\n", model->generator().facts().model.c_str(), url.c_str(),
                url.c_str());
    std::fflush(stdout);
    const bool local = host == "localhost" || host == "::1" || host.starts_with("127.");
    if (!local && how.keys.empty())
        std::fprintf(stderr, "chaos: whoever reaches %s may use it: there is no --api-key\n", url.c_str());
    serving.wait();
    return {};
}

}  // namespace chaos::cli
