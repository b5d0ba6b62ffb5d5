#include "peer.h"

#include <cstdio>
#include <cstdlib>

namespace chaos::bench {
namespace {

const net::SecretKey& institution() {
    static const net::SecretKey key = net::SecretKey::from_seed(net::Seed{0xc4});
    return key;
}

[[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, "bench links: %s\n", why.c_str());
    std::exit(2);
}

net::LinkOptions options_of(NodeId id, bool in_the_clear, std::uint32_t bulk_connections) {
    net::LinkOptions options;
    options.bulk_connections = bulk_connections;
    options.in_the_clear = in_the_clear;
    options.clear_id = id;
    return options;
}

}  // namespace

net::SecretKey key_of(unsigned number) {
    return net::SecretKey::from_seed(net::Seed{1, static_cast<std::uint8_t>(number)});
}

Peer::Peer(unsigned number, bool in_the_clear, std::uint32_t bulk_connections)
    : id(net::node_id(key_of(number).public_key())),
      number_(number),
      in_the_clear_(in_the_clear),
      engine_(transport_, {.ended =
                               [this](collective::ExchangeId, const collective::Outcome& outcome) {
                                   if (!std::holds_alternative<collective::Complete>(outcome))
                                       give_up("an all-reduce was interrupted");
                                   ended_ = true;
                               },
                           .refused = [](const collective::Refusal&) { give_up("a chunk was refused"); }}),
      links(loop, key_of(number), net::vouch_for(institution(), key_of(number).public_key(), 4'000'000'000),
            options_of(id, in_the_clear, bulk_connections), *this, transport_) {
    transport_.connect(links, engine_);
}

NodeId Peer::id_of(unsigned number) const {
    return net::node_id(key_of(number).public_key());
}

std::uint16_t Peer::listen(const std::string& address) {
    const auto where = links.listen(address);
    if (!where) give_up(where.error().message);
    return where->port();
}

void Peer::connect(unsigned number, const std::string& address) {
    links.dial(id_of(number), address);
    run_until([&] { return links.linked(id_of(number)); });
}

void Peer::await_links(std::size_t count) {
    run_until([&] { return links_up_ >= count; });
}

void Peer::run_until(const std::function<bool()>& condition) {
    while (!condition()) {
        loop.restart();
        loop.run_one();
    }
}

void Peer::plan(unsigned count, std::size_t floats, collective::Encoding encoding) {
    plan::SyncRequest request;
    request.bytes = floats * sizeof(float);
    std::vector<NodeId> members;
    for (unsigned i = 0; i < count; ++i) {
        members.push_back(id_of(i));
        request.members.push_back({.id = i});
        for (unsigned j = 0; j < i; ++j)
            request.links.push_back({.a = j,
                                     .b = i,
                                     .a_to_b_bytes_per_s = 1'000'000'000,
                                     .b_to_a_bytes_per_s = 1'000'000'000,
                                     .delay_ns = 20'000});
    }
    const auto plan = plan::plan_sync(request);
    if (!plan) give_up(plan.error().message);
    auto schedule = collective::make_schedule(*plan, members, id, {.encoding = encoding});
    if (!schedule) give_up(schedule.error().message);
    schedule_ = std::make_shared<const collective::Schedule>(std::move(*schedule));
}

void Peer::all_reduce(std::span<const float> input, std::span<float> output) {
    ended_ = false;
    const auto begun = engine_.begin({.epoch = 1, .step = step_++}, schedule_,
                                     {.input = input, .output = output, .residual = {}, .owner = nullptr});
    if (!begun) give_up(begun.error().message);
    run_until([&] { return ended_; });
}

void Peer::barrier(unsigned count) {
    constexpr std::uint8_t done[] = {1};
    for (unsigned other = 0; other < count; ++other)
        if (other != number_) links.send(id_of(other), done);
    ++barriers_;
    run_until([&] { return done_messages_ >= barriers_ * (count - 1); });
}

Result<void> Peer::admit(const net::Proven& peer) {
    return net::check(peer.credential, peer.key, 1'800'000'000);
}
void Peer::link_up(NodeId) {
    ++links_up_;
}
void Peer::link_closed(NodeId, const std::string&) {
    --links_up_;
}
void Peer::dial_failed(NodeId, const std::string& address, const std::string& why) {
    give_up("cannot reach " + address + ": " + why);
}
void Peer::received(NodeId, std::span<const std::uint8_t>) {
    ++done_messages_;
}
void Peer::turned_away(const std::string&, const std::string& why) {
    give_up("turned away: " + why);
}

}  // namespace chaos::bench
