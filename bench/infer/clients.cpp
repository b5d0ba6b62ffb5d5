#include "clients.h"

#include "machine.h"
#include "synthetic_model.h"
#include "temporary_folder.h"
#include "testbed/process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chaos::bench {
namespace {

using nlohmann::json;
using testbed::Descriptor;
using testbed::Process;

constexpr std::size_t most_clients = 32;

// One request, and how many tokens have come for it.
class Client {
public:
    static Result<Client> ask(std::uint16_t port, const json& request) {
        Client client;
        client.socket_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(client.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
            return testbed::system_error("cannot reach the server");
        const std::string body = request.dump();
        const std::string text =
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body;
        if (::send(client.socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
            return testbed::system_error("cannot ask the server");
        return client;
    }

    [[nodiscard]] int socket() const { return socket_.get(); }
    [[nodiscard]] std::size_t tokens() const { return tokens_; }
    [[nodiscard]] bool done() const { return done_; }

    // Takes what has come. An answer that ends without an end is an error.
    Result<void> receive() {
        std::array<char, 65536> buffer{};
        const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (got <= 0) return Error{"the server ended an answer early: " + received_};
        received_.append(buffer.data(), static_cast<std::size_t>(got));
        // Every token has a text, so that each comes as a piece of its own; what ends them has a reason.
        constexpr std::string_view piece = "\"finish_reason\":null";
        for (std::size_t at = received_.find(piece, counted_); at != std::string::npos;
             at = received_.find(piece, counted_)) {
            ++tokens_;
            counted_ = at + piece.size();
        }
        done_ = received_.find("[DONE]", counted_) != std::string::npos;
        return {};
    }

private:
    Descriptor socket_;
    std::string received_;
    std::size_t counted_ = 0;
    std::size_t tokens_ = 0;
    bool done_ = false;
};

struct Served {
    double tokens_per_second = 0.0;  // of all clients together
    double fairness = 0.0;           // the slowest client's tokens of the fastest one's, when that one is done
};

Result<Served> serve(std::uint16_t port, std::size_t count, std::size_t tokens) {
    const double start = seconds_now();
    std::vector<Client> clients;
    for (std::size_t i = 0; i < count; ++i) {
        // Different texts that do not repeat themselves, so that nothing can be guessed or taken from another one.
        const json request = {{"prompt", {i + 1, i + 2, i + 3, i + 4}},
                              {"max_tokens", tokens},
                              {"temperature", 1.0},
                              {"seed", i},
                              {"ignore_eos", true},
                              {"stream", true}};
        CHAOS_TRY(auto client, Client::ask(port, request));
        clients.push_back(std::move(client));
    }
    Served served;
    const auto open = [&] { return std::ranges::count_if(clients, [](const Client& each) { return !each.done(); }); };
    while (open() > 0) {
        std::vector<pollfd> waited;
        for (const Client& each : clients) waited.push_back({each.done() ? -1 : each.socket(), POLLIN, 0});
        if (::poll(waited.data(), waited.size(), -1) < 0) return testbed::system_error("cannot wait for answers");
        for (std::size_t i = 0; i < count; ++i)
            if (waited[i].revents != 0) CHAOS_CHECK(clients[i].receive());
        if (served.fairness == 0.0 && open() < static_cast<std::ptrdiff_t>(count))
            served.fairness = static_cast<double>(std::ranges::min_element(clients, {}, &Client::tokens)->tokens()) /
                              static_cast<double>(tokens);
    }
    served.tokens_per_second = static_cast<double>(count * tokens) / (seconds_now() - start);
    for (const Client& each : clients)
        if (each.tokens() != tokens)
            return Error{"a client got " + std::to_string(each.tokens()) + " of " + std::to_string(tokens) + " tokens"};
    return served;
}

// From "... answers at http://127.0.0.1:34567/v1; ..."
Result<std::uint16_t> port_of(const Process& server) {
    constexpr std::string_view before = "http://127.0.0.1:";
    if (!server.wait_for_output("/v1")) return Error{"chaos serve ended: " + server.err()};
    const std::string out = server.out();
    const std::size_t at = out.find(before) + before.size();
    std::uint16_t port = 0;
    if (std::from_chars(out.data() + at, out.data() + out.size(), port).ec != std::errc())
        return Error{"chaos serve does not say where it listens: " + out};
    return port;
}

}  // namespace

Result<void> measure_clients(bool quick, Findings& findings) {
    const test::TemporaryFolder folder;
    const std::filesystem::path model = folder.path() / "model.gguf";
    CHAOS_CHECK(write_synthetic_model(model, {.tokenizer = true}));
    CHAOS_TRY(auto server, Process::start({CHAOS_PROGRAM, "serve", model.string(), "--listen", "127.0.0.1:0",
                                           "--context", "128", "--parallel", std::to_string(most_clients)}));
    CHAOS_TRY(const std::uint16_t port, port_of(server));
    const std::size_t tokens = quick ? 16 : 32;
    std::vector<double> four_of_one;
    std::vector<double> all_of_one;
    std::vector<double> fairness;
    double alone = 0.0;
    for (int round = 0; round < (quick ? 1 : 3); ++round) {
        CHAOS_TRY(const Served one, serve(port, 1, tokens));
        CHAOS_TRY(const Served four, serve(port, 4, tokens));
        CHAOS_TRY(const Served all, serve(port, most_clients, tokens));
        alone = std::max(alone, one.tokens_per_second);
        four_of_one.push_back(four.tokens_per_second / one.tokens_per_second);
        all_of_one.push_back(all.tokens_per_second / one.tokens_per_second);
        fairness.push_back(all.fairness);
    }
    findings.add("clients1_tokens_per_s", alone, 1);
    findings.add("clients4_speedup", median(four_of_one), 2, ">= 2.5");
    findings.add("clients32_speedup", median(all_of_one), 2);
    findings.add("clients32_fairness", *std::ranges::min_element(fairness), 3, ">= 0.8");
    server.signal(SIGTERM);
    if (server.wait() != 0) return Error{"chaos serve failed: " + server.err()};
    return {};
}

}  // namespace chaos::bench
