#include "clients.h"

#include "clock.h"
#include "stream.h"
#include "synthetic_model.h"
#include "temporary_folder.h"
#include "testbed/process.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chaos::bench {
namespace {

using testbed::Process;

constexpr std::size_t most_clients = 32;

// So many short texts one after the other: a server that has fewer places than clients lets them take turns.
constexpr std::size_t turns = 6;

struct Served {
    double tokens_per_second = 0.0;  // of all clients together
    double fairness = 0.0;           // the slowest client's tokens of the fastest one's, when that one is done
};

// A client that asks for texts, the next one as soon as it has the one before.
class Client {
public:
    Client(std::uint16_t port, std::size_t number, std::size_t texts, std::size_t tokens)
        : address_("127.0.0.1:" + std::to_string(port)), next_(number * turns), end_(next_ + texts), tokens_(tokens) {}

    [[nodiscard]] bool done() const { return !stream_; }
    [[nodiscard]] int socket() const { return done() ? -1 : stream_->socket(); }
    [[nodiscard]] std::size_t taken() const { return taken_ + (done() ? 0 : stream_->tokens().size()); }

    Result<void> ask() {
        CHAOS_TRY(auto connection, connect_to(address_));
        CHAOS_TRY(stream_, Stream::ask(std::move(connection), some_text(next_++, prompt_tokens, tokens_)));
        return {};
    }
    Result<void> receive() {
        CHAOS_CHECK(stream_->receive());
        if (!stream_->done()) return {};
        const std::size_t got = stream_->tokens().size();
        if (got != tokens_)
            return Error{"a client got " + std::to_string(got) + " of " + std::to_string(tokens_) + " tokens"};
        taken_ += got;
        stream_.reset();
        return next_ < end_ ? ask() : Result<void>();
    }

private:
    static constexpr std::size_t prompt_tokens = 4;

    std::string address_;
    std::size_t next_;
    std::size_t end_;
    std::size_t tokens_;
    std::size_t taken_ = 0;  // of texts that are complete
    std::optional<Stream> stream_;
};

Result<Served> serve(std::uint16_t port, std::size_t count, std::size_t texts, std::size_t tokens) {
    const double start = seconds_now();
    std::vector<Client> clients;
    for (std::size_t i = 0; i < count; ++i) {
        clients.emplace_back(port, i, texts, tokens);
        CHAOS_CHECK(clients.back().ask());
    }
    Served served;
    const auto open = [&] { return std::ranges::count_if(clients, [](const Client& each) { return !each.done(); }); };
    while (open() > 0) {
        std::vector<pollfd> waited;
        for (const Client& each : clients) waited.push_back({each.socket(), POLLIN, 0});
        if (::poll(waited.data(), waited.size(), -1) < 0) return testbed::system_error("cannot wait for answers");
        for (std::size_t i = 0; i < count; ++i)
            if (waited[i].revents != 0) CHAOS_CHECK(clients[i].receive());
        if (served.fairness == 0.0 && open() < static_cast<std::ptrdiff_t>(count))
            served.fairness = static_cast<double>(std::ranges::min(clients | std::views::transform(&Client::taken))) /
                              static_cast<double>(texts * tokens);
    }
    served.tokens_per_second = static_cast<double>(count * texts * tokens) / (seconds_now() - start);
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
    CHAOS_TRY(auto server,
              Process::start({CHAOS_PROGRAM, "serve", model.string(), "--listen", "127.0.0.1:0", "--context", "128"}));
    CHAOS_TRY(const std::uint16_t port, port_of(server));
    const std::size_t tokens = quick ? 16 : 32;
    std::vector<double> four_of_one;
    std::vector<double> all_of_one;
    std::vector<double> fairness;
    double alone = 0.0;
    for (int round = 0; round < (quick ? 1 : 3); ++round) {
        CHAOS_TRY(const Served one, serve(port, 1, 1, tokens));
        CHAOS_TRY(const Served four, serve(port, 4, 1, tokens));
        CHAOS_TRY(const Served all, serve(port, most_clients, turns, tokens / 4));
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
