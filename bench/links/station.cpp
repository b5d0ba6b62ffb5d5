#include "station.h"

#include <cstdio>
#include <cstdlib>

namespace chaos::bench {
namespace {

constexpr std::uint8_t here[] = {1};  // all that stations say
constexpr net::UnixSeconds some_day = 4'000'000'000;

net::SecretKey key_of(unsigned number) {
    return net::SecretKey::from_seed(net::Seed{2, static_cast<std::uint8_t>(number)});
}

net::Credential credential_of(unsigned number) {
    static const net::SecretKey institution = net::SecretKey::from_seed(net::Seed{0xc5});
    return net::vouch_for(institution, key_of(number).public_key(), some_day);
}

[[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, "bench links: %s\n", why.c_str());
    std::exit(2);
}

net::LinkOptions with_connections(std::uint32_t bulk_connections) {
    net::LinkOptions options;
    options.bulk_connections = bulk_connections;
    return options;
}

}  // namespace

Station::Station(unsigned number, std::uint32_t bulk_connections)
    : number_(number),
      engine_(transport_, {.ended =
                               [this](collective::ExchangeId, const collective::Outcome& outcome) {
                                   if (!std::holds_alternative<collective::Complete>(outcome))
                                       give_up("an all-reduce was interrupted");
                                   ended_ = true;
                               },
                           .refused = [](const collective::Refusal&) { give_up("a chunk was refused"); }}),
      links(loop, key_of(number), credential_of(number), with_connections(bulk_connections), *this, transport_) {
    transport_.connect(links, engine_);
}

NodeId Station::id_of(unsigned number) {
    return net::node_id(key_of(number).public_key());
}

void Station::listen(const std::string& address) {
    if (const auto where = links.listen(address); !where) give_up(where.error().message);
}

void Station::connect(unsigned number, const std::string& address) {
    links.dial(id_of(number), address);
    run_until([&] { return links.linked(id_of(number)); });
}

void Station::await_links(std::size_t count) {
    run_until([&] { return links_up_ >= count; });
}

void Station::run_until(const std::function<bool()>& condition) {
    while (!condition()) {
        loop.restart();
        loop.run_one();
    }
}

void Station::follow(const plan::SyncPlan& plan, unsigned count, const plan::SyncRequest& request) {
    std::vector<NodeId> members;
    for (unsigned i = 0; i < count; ++i) members.push_back(id_of(i));
    auto schedule = collective::make_schedule(plan, members, id_of(number_),
                                              {.chunk_bytes = static_cast<std::uint32_t>(request.chunk_bytes),
                                               .window_chunks = collective::fit_window_chunks(request, plan)});
    if (!schedule) give_up(schedule.error().message);
    schedule_ = std::make_shared<const collective::Schedule>(std::move(*schedule));
}

void Station::all_reduce(std::span<const float> input, std::span<float> output) {
    ended_ = false;
    const auto begun = engine_.begin({.epoch = 1, .step = step_++}, schedule_,
                                     {.input = input, .output = output, .residual = {}, .owner = nullptr});
    if (!begun) give_up(begun.error().message);
    run_until([&] { return ended_; });
}

void Station::barrier(unsigned count) {
    for (unsigned other = 0; other < count; ++other)
        if (other != number_) links.send_work(id_of(other), here);
    ++barriers_;
    run_until([&] { return arrivals_ >= barriers_ * (count - 1); });
}

void Station::finish(unsigned count) {
    if (number_ == 0) {
        ++barriers_;
        return run_until([&] { return arrivals_ >= barriers_ * (count - 1); });
    }
    links.send_work(id_of(0), here);
    run_until([&] { return !links.linked(id_of(0)); });
}

Result<void> Station::admit(const net::Proven& peer) {
    return net::check(peer.credential, peer.node);
}

void Station::link_up(NodeId) {
    ++links_up_;
}

void Station::link_closed(NodeId, const std::string&) {
    --links_up_;
}

void Station::dial_failed(NodeId, const std::string& address, const std::string& why) {
    give_up("cannot reach " + address + ": " + why);
}

void Station::received(NodeId, std::span<const std::uint8_t>) {
    give_up("a message of the cluster's protocol came, and there is no cluster");
}

void Station::received_work(NodeId, std::span<const std::uint8_t>) {
    ++arrivals_;
}

void Station::turned_away(const std::string&, const std::string& why) {
    give_up("turned away: " + why);
}

}  // namespace chaos::bench
