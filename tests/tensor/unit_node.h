// A node that gives and takes units of models over real links, and nothing else.
#pragma once

#include "net/site.h"
#include "tensor/giving.h"
#include "tensor/pulling.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace chaos::tensor::test {

class UnitNode final : public net::LinkEvents {
public:
    explicit UnitNode(asio::io_context& loop, const net::LinkOptions& options = {})
        : key(net::SecretKey::generate()),
          id(net::node_id(key.public_key())),
          links(loop, key, net::vouch_for(institution(), key.public_key(), 4'000'000'000), options, *this, transfers),
          giving(loop, transfers,
                 {.send = [this](NodeId to, const wire::UnitWork& message) { send(to, message); },
                  .may_ask = [this](NodeId) { return gives; },
                  .note = [this](const std::string& text) { notes.push_back(text); },
                  .spoilt = [this](std::size_t unit) { spoilt.push_back(unit); }}),
          pulling(loop, links, transfers,
                  {.send = [this](NodeId to, const wire::UnitWork& message) { send(to, message); },
                   .note = [this](const std::string& text) { notes.push_back(text); },
                   .done = [this] { done = true; },
                   .failed = [this](const Error& why) { failure = why.message; }},
                  {.first = std::chrono::milliseconds(2000), .most = std::chrono::milliseconds(5000)}),
          loop_(loop) {
        transfers.connect(links);
        address = "localhost:" + std::to_string(links.listen(":0").value().port());
    }

    void link_to(UnitNode& other) {
        links.dial(other.id, other.address);
        EXPECT_TRUE(net::run_until(loop_, [&] { return links.linked(other.id) && other.links.linked(id); }));
    }

    bool is_named_in_notes(const UnitNode& other) const {
        return std::ranges::any_of(
            notes, [&](const std::string& note) { return note.find(cluster::brief(other.id)) != std::string::npos; });
    }

    void send(NodeId to, const wire::UnitWork& message) {
        const std::string bytes = message.SerializeAsString();
        (void)links.send_work(to, {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    }

    Result<void> admit(const net::Proven&) override { return {}; }
    void link_up(NodeId peer) override { pulling.link_up(peer); }
    void link_closed(NodeId peer, const std::string&) override {
        pulling.link_down(peer);
        giving.link_down(peer);
    }
    void dial_failed(NodeId, const std::string&, const std::string& why) override { FAIL() << why; }
    void answered(NodeId, const std::string&) override {}
    void received(NodeId, std::span<const std::uint8_t>) override {}
    void received_work(NodeId from, std::span<const std::uint8_t> bytes) override {
        wire::UnitWork message;
        ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
        if (instead && instead(from, message)) return;
        if (message.has_manifest_ask()) giving.received(from, message.manifest_ask());
        if (message.has_holding_ask()) giving.received(from, message.holding_ask());
        if (message.has_holding()) pulling.received(from, message.holding());
        if (message.has_unit_ask()) giving.received(from, message.unit_ask());
        if (message.what_case() == wire::UnitWork::kAbsent) {
            ++refusals;
            pulling.received_absent(from, message.absent());
        }
    }
    void turned_away(const std::string&, const std::string&) override {}

    net::SecretKey key;
    NodeId id;
    std::string address;
    // What it does with a message instead of what it should; true: nothing else.
    std::function<bool(NodeId, const wire::UnitWork&)> instead;
    bool gives = true;
    bool done = false;
    int refusals = 0;
    std::string failure;
    std::vector<std::string> notes;
    std::vector<std::size_t> spoilt;
    net::Transfers transfers;
    net::Links links;
    Giving giving;
    Pulling pulling;

private:
    static const net::SecretKey& institution() {
        static const net::SecretKey key = net::SecretKey::generate();
        return key;
    }

    asio::io_context& loop_;
};

}  // namespace chaos::tensor::test
