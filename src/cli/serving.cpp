#include "cli/serving.h"

#include "base/file.h"
#include "net/address.h"

#include <algorithm>
#include <cstdio>

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
    for (const std::string& key : keys) {
        if (key.empty()) return Error{"an API key must not be empty"};
        // What a file of keys cannot hold, or a field of a request.
        const auto visible = [](char letter) { return letter > ' ' && letter <= '~'; };
        if (key.front() == '#' || !std::all_of(key.begin(), key.end(), visible))
            return Error{
                "an API key is made of ASCII letters, digits and signs, without spaces and without # in front"};
    }
    return keys;
}

}  // namespace

Result<OpenService> open_service(const ServeOptions& options) {
    CHAOS_TRY(const net::Address address, net::address_from_text(options.listen));
    serve::ServiceOptions how;
    CHAOS_TRY(how.keys, keys_of(options));
    OpenService open;
    CHAOS_TRY(open.service, serve::Service::open(address, how));
    open.host = address.host.empty() ? "127.0.0.1" : address.host;
    open.url = (open.host.find(':') == std::string::npos ? open.host : "[" + open.host + "]") + ":" +
               std::to_string(open.service->port());
    open.keys = std::move(how.keys);
    return open;
}

void announce_loading(const std::string& model) {
    std::printf("loading %s\n", model.c_str());
    std::fflush(stdout);
}

void announce(const OpenService& open, const serve::Facts& facts) {
    const std::string url = "http://" + open.url;
    std::printf("%s answers at %s/v1; chat with it at %s/\n", facts.model.c_str(), url.c_str(), url.c_str());
    std::fflush(stdout);
    if (!facts.chat_problem.empty())
        std::fprintf(stderr, "chaos: %s completes texts, but cannot chat: %s\n", facts.model.c_str(),
                     facts.chat_problem.c_str());
    const bool local = open.host == "localhost" || open.host == "::1" || open.host.starts_with("127.");
    if (!local && open.keys.empty())
        std::fprintf(stderr, "chaos: whoever reaches %s may use it: there is no --api-key\n", url.c_str());
}

Serving::Serving(serve::Service& service, std::function<void()> then)
    : service_(service), thread_([&service, then = std::move(then)] {
          service.run();
          if (then) then();
      }) {}

Serving::~Serving() {
    if (!thread_.joinable()) return;
    service_.stop_at_once();
    thread_.join();
}

}  // namespace chaos::cli
