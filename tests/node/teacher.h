// A peer that tells what is trained, and nothing else of a node, for tests.
#pragma once

#include "elastic/describer.h"
#include "elastic/work.h"
#include "net/admission.h"
#include "net/credential.h"
#include "net/links.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace chaos::test {

class Teacher final : public net::LinkEvents, public net::BulkReceiver {
public:
    using NodeId = cluster::NodeId;

    Teacher(net::asio::io_context& loop, const run::Identity& identity, const Result<std::string>& description)
        : describer(identity, description), links(loop, key, credential(), {}, *this, *this) {
        transfers.connect(links);
        describer.connect(links, transfers);
        const auto where = links.listen(":0");
        EXPECT_TRUE(where) << where.error().message;
        address = "localhost:" + std::to_string(where->port());
    }

    static const net::SecretKey& institution() {
        static const net::SecretKey made = net::SecretKey::generate();
        return made;
    }

    Result<void> admit(const net::Proven& peer) override {
        if (!refuses.empty()) return Error{refuses};
        return net::admit(nullptr, peer, 1'800'000'000);
    }
    void link_up(NodeId peer) override {
        ups.push_back(peer);
        if (closes_first) {
            closes_first = false;
            links.close(peer);
        }
    }
    void link_closed(NodeId peer, const std::string&) override {
        ++closed;
        describer.forget(peer);
    }
    void dial_failed(NodeId, const std::string&, const std::string&) override {}
    void answered(NodeId, const std::string&) override {}
    void received(NodeId, std::span<const std::uint8_t> message) override {
        const auto decoded = cluster::decode_message(message);
        ASSERT_TRUE(decoded) << decoded.error().message;
        ASSERT_TRUE(std::holds_alternative<cluster::Heartbeat>((*decoded)->body));
        ++heartbeats;
        if (on_heartbeat) on_heartbeat();
    }
    void received_work(NodeId from, std::span<const std::uint8_t> message) override {
        const auto work = elastic::work_from(message);
        ASSERT_TRUE(work && work->has_run_ask());
        ++asked;
        if (answers)
            answers(from, work->run_ask());
        else
            describer.received(from, work->run_ask());
    }
    void turned_away(const std::string&, const std::string&) override {}

    Place place_for(NodeId from, const net::BulkHead& head) override { return transfers.place_for(from, head); }
    void arrived(NodeId from, const net::BulkHead& head) override { transfers.arrived(from, head); }
    void dropped(NodeId from, const net::BulkHead& head) override { transfers.dropped(from, head); }

private:
    [[nodiscard]] net::Credential credential() const {
        return net::vouch_for(institution(), key.public_key(), 4'000'000'000);
    }
    net::SecretKey key = net::SecretKey::generate();

public:
    std::string address;
    std::string refuses;
    bool closes_first = false;
    std::function<void(NodeId, const elastic::wire::RunAsk&)> answers;  // instead of the describer
    std::vector<NodeId> ups;
    std::function<void()> on_heartbeat;
    int heartbeats = 0;
    int closed = 0;
    int asked = 0;
    net::Transfers transfers;
    elastic::Describer describer;
    net::Links links;
};

}  // namespace chaos::test
