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
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chaos::bench {
namespace {

using nlohmann::json;
using testbed::Process;

constexpr std::size_t most_clients = 32;

struct Served {
    double tokens_per_second = 0.0;  // of all clients together
    double fairness = 0.0;           // the slowest client's tokens of the fastest one's, when that one is done
};

Result<Served> serve(std::uint16_t port, std::size_t count, std::size_t tokens) {
    const double start = seconds_now();
    std::vector<Stream> clients;
    for (std::size_t i = 0; i < count; ++i) {
        // Different texts that do not repeat themselves, so that nothing can be guessed or taken from another one.
        const json request = {{"prompt", {i + 1, i + 2, i + 3, i + 4}},
                              {"max_tokens", tokens},
                              {"temperature", 1.0},
                              {"seed", i},
                              {"ignore_eos", true},
                              {"stream", true}};
        CHAOS_TRY(auto connection, connect_to("127.0.0.1:" + std::to_string(port)));
        CHAOS_TRY(auto client, Stream::ask(std::move(connection), request));
        clients.push_back(std::move(client));
    }
    Served served;
    const auto tokens_of = [](const Stream& each) { return each.tokens().size(); };
    const auto open = [&] { return std::ranges::count_if(clients, [](const Stream& each) { return !each.done(); }); };
    while (open() > 0) {
        std::vector<pollfd> waited;
        for (const Stream& each : clients) waited.push_back({each.done() ? -1 : each.socket(), POLLIN, 0});
        if (::poll(waited.data(), waited.size(), -1) < 0) return testbed::system_error("cannot wait for answers");
        for (std::size_t i = 0; i < count; ++i)
            if (waited[i].revents != 0) CHAOS_CHECK(clients[i].receive());
        if (served.fairness == 0.0 && open() < static_cast<std::ptrdiff_t>(count))
            served.fairness = static_cast<double>(std::ranges::min(clients | std::views::transform(tokens_of))) /
                              static_cast<double>(tokens);
    }
    served.tokens_per_second = static_cast<double>(count * tokens) / (seconds_now() - start);
    for (const Stream& each : clients)
        if (tokens_of(each) != tokens)
            return Error{"a client got " + std::to_string(tokens_of(each)) + " of " + std::to_string(tokens) +
                         " tokens"};
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
