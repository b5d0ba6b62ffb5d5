// A node's links without the rest of the node, for tests: writes down what happens.
#pragma once

#include "net/admission.h"
#include "net/links.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace chaos::net {

// Runs the loop until the condition holds. False: it did not, for very long.
inline bool run_until(asio::io_context& loop, const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > limit) return false;
        loop.restart();
        loop.run_one_for(std::chrono::milliseconds(100));
    }
    return true;
}

class Site final : public LinkEvents, public BulkReceiver {
public:
    static constexpr UnixSeconds some_day = 4'000'000'000;

    explicit Site(asio::io_context& loop, const SecretKey& institution = institution_key(), LinkOptions options = {})
        : Site(loop, SecretKey::generate(), institution, std::move(options)) {}
    Site(asio::io_context& loop, SecretKey own, const SecretKey& institution, LinkOptions options)
        : key(std::move(own)),
          id(node_id(key.public_key())),
          links(loop, key, vouch_for(institution, key.public_key(), some_day), options, *this, *this),
          loop_(loop) {
        const auto where = links.listen(":0");
        EXPECT_TRUE(where) << where.error().message;
        address = "localhost:" + std::to_string(where->port());
    }

    static const SecretKey& institution_key() {
        static const SecretKey key = SecretKey::generate();
        return key;
    }

    bool wait(const std::function<bool()>& condition) { return run_until(loop_, condition); }

    Result<void> admit(const Proven& peer) override {
        if (!refuse_all.empty()) return Error{refuse_all};
        cluster::View view;
        view.institutions = {{.root = institution_key().public_key()}};
        return net::admit(&view, peer, 1'800'000'000);
    }
    void link_up(NodeId peer) override { events.push_back("up " + cluster::brief(peer)); }
    void link_closed(NodeId peer, const std::string& why) override {
        events.push_back("closed " + cluster::brief(peer));
        reasons.push_back(why);
    }
    void dial_failed(NodeId, const std::string&, const std::string& why) override {
        events.push_back("failed");
        reasons.push_back(why);
    }
    void answered(NodeId peer, const std::string&) override { events.push_back("answered " + cluster::brief(peer)); }
    void received(NodeId, std::span<const std::uint8_t> message) override {
        messages.emplace_back(message.begin(), message.end());
    }
    void received_work(NodeId, std::span<const std::uint8_t>) override {}
    void turned_away(const std::string&, const std::string& why) override { turned.push_back(why); }

    Place place_for(NodeId, const BulkHead& head) override {
        if (head.fourth == 99) return {.kind = Place::Kind::skip};
        if (not_ready && head.kind != BulkKind::results) return {.kind = Place::Kind::wait};
        taking.resize(head.bytes);
        return {.kind = Place::Kind::here, .at = taking};
    }
    void arrived(NodeId, const BulkHead& head) override {
        heads.push_back(head);
        payload_bytes += taking.size();
        for (const std::byte byte : taking) sum = sum * 31 + static_cast<std::uint64_t>(byte);
    }
    void dropped(NodeId, const BulkHead&) override { ++drops; }

    SecretKey key;
    NodeId id;
    std::string address;
    std::string refuse_all;
    bool not_ready = false;
    std::vector<std::string> events;
    std::vector<std::string> reasons;
    std::vector<std::string> turned;
    std::vector<std::vector<std::uint8_t>> messages;
    std::vector<BulkHead> heads;
    std::vector<std::byte> taking;
    std::uint64_t payload_bytes = 0;
    std::uint64_t sum = 0;
    int drops = 0;
    Links links;

private:
    asio::io_context& loop_;
};

}  // namespace chaos::net
