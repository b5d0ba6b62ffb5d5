// The delay is measured in the same run, by messages of the size of one token's sums between the two hosts; computing,
// by two engines with half of the model each and nobody to wait for. The links are so fast that only their delay
// counts.
#include "clock.h"
#include "infer/engine.h"
#include "linked.h"
#include "sections.h"
#include "served.h"
#include "slices.h"
#include "synthetic_model.h"
#include "temporary_folder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using testbed::Descriptor;
using testbed::Testbed;

constexpr SyntheticModel small{.width = 512,
                               .layers = 16,
                               .heads = 8,
                               .kv_heads = 4,
                               .ffn = 2048,
                               .vocabulary = 8000,
                               .context = 1024,
                               .tokenizer = true};
constexpr double delay_ms = 1.0;
constexpr double rate_mbit = 10'000;
constexpr std::size_t prompt_tokens = 32;

Result<Testbed> two_hosts() {
    testbed::Spec spec{.hosts = {{"a"}, {"b"}}};
    testbed::link_all(spec, {.rate_mbit = rate_mbit, .delay_ms = delay_ms});
    return Testbed::start(spec);
}

// ---- delay

bool receive_all(int socket, std::span<char> bytes) {
    return ::recv(socket, bytes.data(), bytes.size(), MSG_WAITALL) == static_cast<ssize_t>(bytes.size());
}
bool send_all(int socket, std::span<const char> bytes) {
    return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// A connection from a to b: both ends.
Result<std::pair<Descriptor, Descriptor>> connection_of(const Testbed& box) {
    CHAOS_TRY(const std::string address, box.address("b"));
    Descriptor listening;
    std::uint16_t port = 0;
    CHAOS_CHECK(box.inside("b", [&]() -> Result<void> {
        listening = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in where{};
        where.sin_family = AF_INET;
        ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
        socklen_t size = sizeof where;
        if (::bind(listening.get(), reinterpret_cast<const sockaddr*>(&where), size) != 0 ||
            ::listen(listening.get(), 1) != 0 ||
            ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&where), &size) != 0)
            return testbed::system_error("cannot listen in b");
        port = ntohs(where.sin_port);
        return {};
    }));
    Descriptor near;
    CHAOS_CHECK(box.inside("a", [&]() -> Result<void> {
        CHAOS_TRY(near, connect_to(address + ":" + std::to_string(port)));
        return {};
    }));
    Descriptor far(::accept(listening.get(), nullptr, nullptr));
    if (far.get() < 0) return testbed::system_error("cannot accept in b");
    const int at_once = 1;
    ::setsockopt(far.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    return std::pair(std::move(near), std::move(far));
}

// Half of a round trip of so many bytes, the median.
Result<double> one_way_s(const Testbed& box, std::size_t bytes, std::size_t times) {
    CHAOS_TRY(const auto ends, connection_of(box));
    std::jthread echo([&, socket = ends.second.get()] {
        std::vector<char> message(bytes);
        while (receive_all(socket, message) && send_all(socket, message)) {
        }
    });
    std::vector<char> message(bytes);
    std::vector<double> halves;
    for (std::size_t i = 0; i < times; ++i) {
        const double start = seconds_now();
        if (!send_all(ends.first.get(), message) || !receive_all(ends.first.get(), message)) {
            ::shutdown(ends.first.get(), SHUT_RDWR);
            return Error{"a message between the hosts was lost"};
        }
        halves.push_back((seconds_now() - start) / 2.0);
    }
    ::shutdown(ends.first.get(), SHUT_RDWR);
    return median(halves);
}

// One exchange of so many bytes by the nodes' own links, without anything to compute: both send, both wait.
Result<double> exchange_s(const Testbed& box, std::size_t bytes, std::size_t times) {
    std::vector<LinkedMembers::Home> homes;
    for (const char* host : {"a", "b"}) {
        CHAOS_TRY(const std::string address, box.address(host));
        CHAOS_TRY(const testbed::Place place, box.place(host));
        homes.push_back({address, place});
    }
    CHAOS_TRY(const auto members, LinkedMembers::start(homes));
    std::vector<double> all;
    const auto exchange_often = [&](std::size_t place, tensor::LinkExchange& exchange) -> Result<void> {
        std::vector<std::int64_t> sums(bytes / sizeof(std::int64_t));
        for (std::size_t i = 0; i < times; ++i) {
            const double start = seconds_now();
            CHAOS_CHECK(exchange.begin_sum(sums, false));
            CHAOS_CHECK(exchange.end_sum());
            if (place == 0) all.push_back(seconds_now() - start);
        }
        return {};
    };
    CHAOS_CHECK(members->together({}, exchange_often));
    return median(all);
}

// ---- computing

// Of somebody whose others are always there, and have nothing to add.
class NobodyElse final : public infer::Exchange {
public:
    Result<void> begin_sum(std::span<std::int64_t>, bool) override { return {}; }
    Result<void> end_sum() override { return {}; }
    Result<std::span<const std::vector<std::byte>>> collect(std::vector<std::byte> ours) override {
        told_ = std::move(ours);
        return std::span<const std::vector<std::byte>>(&told_, 1);
    }

private:
    std::vector<std::byte> told_;
};

// One token of a slice by one thread, behind as many others as in the texts below.
Result<double> compute_s(const fs::path& path, std::size_t place, std::size_t tokens) {
    CHAOS_TRY(auto file, infer::ModelFile::open(path));
    infer::Pool pool(1);
    const auto slices = even_slices(file.config(), 2);
    CHAOS_TRY(const infer::Model model, infer::Model::load(std::move(file), slices[place], pool, {}));
    NobodyElse exchange;
    infer::Engine engine(model, pool, &exchange);
    CHAOS_TRY(infer::KvCache cache, infer::KvCache::make(engine.part(), tokens, infer::KvType::f16));
    std::vector<double> times;
    for (std::size_t i = 0; i < tokens; ++i) {
        const auto token = static_cast<infer::TokenId>(i);
        const infer::Piece piece{.cache = &cache, .tokens = {&token, 1}, .logits = 1};
        const double start = seconds_now();
        CHAOS_CHECK(engine.forward({&piece, 1}));
        times.push_back(seconds_now() - start);
    }
    return median(times);
}

// Of both halves at once, as they share this machine's memory: the slower one.
Result<double> compute_both_s(const fs::path& path, std::size_t tokens) {
    std::array<Result<double>, 2> halves = {0.0, 0.0};
    {
        const std::jthread first([&] { halves[0] = compute_s(path, 0, tokens); });
        const std::jthread second([&] { halves[1] = compute_s(path, 1, tokens); });
    }
    for (const Result<double>& each : halves) CHAOS_CHECK(each);
    return std::max(*halves[0], *halves[1]);
}

}  // namespace

Result<void> measure_delay(const Wish& wish, Findings& findings) {
    const test::TemporaryFolder folder;
    const fs::path model = folder.path() / "model.gguf";
    CHAOS_CHECK(write_synthetic_model(model, small));
    CHAOS_TRY(const Testbed box, two_hosts());
    const auto more = std::vector<std::string>{"--parallel", "1", "--context", "512", "--threads", "1", "--everyone"};
    CHAOS_TRY(const ServedNode first,
              ServedNode::start(
                  {.model = model, .folder = folder.path(), .name = "first", .more = more, .box = &box, .host = "a"}));
    CHAOS_TRY(const ServedNode second, ServedNode::start({.model = model,
                                                          .folder = folder.path(),
                                                          .name = "second",
                                                          .join = {first.address()},
                                                          .more = more,
                                                          .box = &box,
                                                          .host = "b"}));
    CHAOS_CHECK(first.wait_until_with(1));
    CHAOS_CHECK(second.wait_until_with(1));
    const std::size_t tokens = 64;
    const std::size_t rounds = wish.quick ? 3 : 9;
    std::vector<double> one_ways;
    std::vector<double> exchanges;
    std::vector<double> computed;
    std::vector<double> per_token;
    std::vector<double> prompts;
    std::vector<double> of_one;
    for (std::size_t round = 0; round < rounds; ++round) {
        CHAOS_TRY(const double one_way, one_way_s(box, static_cast<std::size_t>(small.width) * 8, 50));
        CHAOS_TRY(const double exchange, exchange_s(box, static_cast<std::size_t>(small.width) * 8, 200));
        CHAOS_TRY(const double compute, compute_both_s(model, tokens));
        CHAOS_TRY(const Stream text, first.write(some_text(3 * round, 8, tokens)));
        CHAOS_TRY(const Stream prompt, first.write(some_text(3 * round + 1, prompt_tokens, 2)));
        CHAOS_TRY(const Stream one, first.write(some_text(3 * round + 2, 1, 2)));
        one_ways.push_back(one_way);
        exchanges.push_back(exchange);
        computed.push_back(compute);
        per_token.push_back(text.median_token_s());
        prompts.push_back(prompt.first_token_s());
        of_one.push_back(one.first_token_s());
        std::fprintf(stderr,
                     "  round %zu: one way %.3f ms, an exchange %.3f ms, computing half %.2f ms, a token %.2f ms; to "
                     "the first token after "
                     "%zu %.2f ms, after one %.2f ms\n",
                     round + 1, one_way * 1e3, exchange * 1e3, compute * 1e3, text.median_token_s() * 1e3,
                     prompt_tokens, prompt.first_token_s() * 1e3, one.first_token_s() * 1e3);
    }
    const double limit = 2.0 * static_cast<double>(small.layers) * median(one_ways) + median(computed);
    findings.add("delay_one_way_ms", median(one_ways) * 1e3, 3);
    findings.add("delay_exchange_ms", median(exchanges) * 1e3, 3);
    findings.add("delay_compute_ms", median(computed) * 1e3, 3);
    findings.add("delay_token_ms", median(per_token) * 1e3, 2);
    findings.add("delay_decode_ratio", median(per_token) / limit, 3, "<= 1.1");
    findings.add("delay_prompt_ms", median(prompts) * 1e3, 2);
    findings.add("delay_prefill_ratio", median(prompts) / median(of_one), 3, "<= 1.5");
    findings.add("delay_prompt_of_token", median(prompts) / median(per_token), 3);
    return {};
}

}  // namespace chaos::bench
