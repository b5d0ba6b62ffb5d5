#include "peer.h"

#include "net/admission.h"
#include "processes.h"

namespace chaos::bench {
namespace {

// What a link within one machine is like: figures that this benchmark finds itself.
constexpr std::uint64_t loopback_bytes_per_s = 2'000'000'000;
constexpr std::uint64_t loopback_delay_ns = 20'000;

constexpr std::uint8_t here[] = {1};  // what peers say at barriers

net::LinkOptions options_of(NodeId id, bool in_the_clear, std::uint32_t bulk_connections) {
    net::LinkOptions options;
    options.bulk_connections = bulk_connections;
    options.in_the_clear = in_the_clear;
    options.clear_id = id;
    return options;
}

}  // namespace

Peer::Peer(unsigned number, bool in_the_clear, std::uint32_t bulk_connections, net::BulkReceiver* receiver)
    : number_(number),
      id_(id_of(number)),
      engine_(transport_, {.ended =
                               [this](collective::ExchangeId, const collective::Outcome& outcome) {
                                   if (!std::holds_alternative<collective::Complete>(outcome))
                                       give_up("an all-reduce was interrupted");
                                   ended_ = true;
                               },
                           .refused = [](const collective::Refusal&) { give_up("a chunk was refused"); }}),
      links(loop, key_of(number), credential_of(number), options_of(id_, in_the_clear, bulk_connections), *this,
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
        loop.restart();
        loop.run_one();
    }
}

void Peer::run_briefly() {
    loop.restart();
    loop.run_one_for(std::chrono::milliseconds(1));
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

void Peer::follow(const plan::SyncPlan& plan, unsigned count, const plan::SyncRequest& request) {
    std::vector<NodeId> members;
    for (unsigned i = 0; i < count; ++i) members.push_back(id_of(i));
    auto schedule = collective::make_schedule(plan, members, id_,
                                              {.chunk_bytes = static_cast<std::uint32_t>(request.chunk_bytes),
                                               .window_chunks = collective::fit_window_chunks(request, plan)});
    if (!schedule) give_up(schedule.error().message);
    schedule_ = std::make_shared<const collective::Schedule>(std::move(*schedule));
}

void Peer::barrier(unsigned count) {
    for (unsigned other = 0; other < count; ++other)
        if (other != number_) links.send_work(id_of(other), here);
    ++barriers_;
    run_until([&] { return arrivals_ >= barriers_ * (count - 1); });
}

void Peer::finish(unsigned count) {
    others_may_go = true;
    if (number_ == 0) {
        ++barriers_;
        return run_until([&] { return arrivals_ >= barriers_ * (count - 1); });
    }
    links.send_work(id_of(0), here);
    run_until([&] { return !links.linked(id_of(0)); });
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
    if (!others_may_go) give_up("a link was closed: " + why);
}
void Peer::dial_failed(NodeId, const std::string& address, const std::string& why) {
    give_up("cannot reach " + address + ": " + why);
}
void Peer::received(NodeId from, std::span<const std::uint8_t> message) {
    on_message(from, message);
}
void Peer::received_work(NodeId, std::span<const std::uint8_t>) {
    ++arrivals_;
}
void Peer::turned_away(const std::string&, const std::string& why) {
    give_up("turned away: " + why);
}

}  // namespace chaos::bench
