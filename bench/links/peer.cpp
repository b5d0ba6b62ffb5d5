#include "peer.h"

#include "net/admission.h"
#include "processes.h"

namespace chaos::bench {
namespace {

// What a link within one machine is like: figures that this benchmark finds itself.
constexpr std::uint64_t loopback_bytes_per_s = 2'000'000'000;
constexpr std::uint64_t loopback_delay_ns = 20'000;

const net::SecretKey& institution() {
    static const net::SecretKey key = net::SecretKey::from_seed(net::Seed{0xc4});
    return key;
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

NodeId id_of(unsigned number) {
    return net::node_id(key_of(number).public_key());
}

net::Credential credential_of(unsigned number) {
    return net::vouch_for(institution(), key_of(number).public_key(), 4'000'000'000);
}

Peer::Peer(unsigned number, bool in_the_clear, std::uint32_t bulk_connections, net::BulkReceiver* receiver)
    : id_(id_of(number)),
      engine_(transport_, {.ended =
                               [this](collective::ExchangeId, const collective::Outcome& outcome) {
                                   if (!std::holds_alternative<collective::Complete>(outcome))
                                       give_up("an all-reduce was interrupted");
                                   ended_ = true;
                               },
                           .refused = [](const collective::Refusal&) { give_up("a chunk was refused"); }}),
      links(loop_, key_of(number), credential_of(number), options_of(id_, in_the_clear, bulk_connections), *this,
            receiver != nullptr ? *receiver : transport_) {
    transport_.connect(links, engine_);
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
        loop_.restart();
        loop_.run_one();
    }
}

void Peer::run_briefly() {
    loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(1));
}

plan::SyncShape Peer::plan(unsigned count, std::size_t floats, collective::Encoding encoding) {
    plan::SyncRequest request;
    request.bytes = floats * sizeof(float);
    std::vector<NodeId> members;
    for (unsigned i = 0; i < count; ++i) {
        members.push_back(id_of(i));
        request.members.push_back({.id = i});
        for (unsigned j = 0; j < i; ++j)
            request.links.push_back({.a = j,
                                     .b = i,
                                     .a_to_b_bytes_per_s = loopback_bytes_per_s,
                                     .b_to_a_bytes_per_s = loopback_bytes_per_s,
                                     .delay_ns = loopback_delay_ns});
    }
    const auto plan = plan::plan_sync(request);
    if (!plan) give_up(plan.error().message);
    auto schedule = collective::make_schedule(*plan, members, id_, {.encoding = encoding});
    if (!schedule) give_up(schedule.error().message);
    schedule_ = std::make_shared<const collective::Schedule>(std::move(*schedule));
    return plan->shape;
}

void Peer::all_reduce(std::span<const float> input, std::span<float> output) {
    ended_ = false;
    const auto begun = engine_.begin({.epoch = 1, .step = step_++}, schedule_,
                                     {.input = input, .output = output, .residual = {}, .owner = nullptr});
    if (!begun) give_up(begun.error().message);
    run_until([&] { return ended_; });
}

Result<void> Peer::admit(const net::Proven& peer) {
    return net::admit(nullptr, peer, 1'800'000'000);
}
void Peer::link_up(NodeId) {
    ++links_up_;
}
void Peer::link_closed(NodeId, const std::string& why) {
    give_up("a link was closed: " + why);
}
void Peer::dial_failed(NodeId, const std::string& address, const std::string& why) {
    give_up("cannot reach " + address + ": " + why);
}
void Peer::received(NodeId from, std::span<const std::uint8_t> message) {
    on_message(from, message);
}
void Peer::turned_away(const std::string&, const std::string& why) {
    give_up("turned away: " + why);
}

}  // namespace chaos::bench
