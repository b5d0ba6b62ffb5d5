// Members of one process that compute together over real links, each with a loop and a thread of its own, on this
// machine or in hosts of a testbed: as nodes do, but one can look at what they computed.
#pragma once

#include "numbered_nodes.h"
#include "tensor/exchange.h"
#include "testbed/process.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace chaos::bench {

class LinkedMember final : public net::LinkEvents {
public:
    explicit LinkedMember(unsigned number);

    [[nodiscard]] tensor::LinkExchange& exchange() { return exchange_; }

private:
    friend class LinkedMembers;
    Result<void> admit(const net::Proven& peer) override;
    void link_up(cluster::NodeId) override {}
    void link_closed(cluster::NodeId, const std::string& why) override { exchange_.interrupt(why); }
    void dial_failed(cluster::NodeId, const std::string&, const std::string&) override {}
    void answered(cluster::NodeId, const std::string&) override {}
    void received(cluster::NodeId, std::span<const std::uint8_t>) override {}
    void received_work(cluster::NodeId, std::span<const std::uint8_t>) override {}
    void turned_away(const std::string&, const std::string&) override {}

    boost::asio::io_context loop_;
    net::SecretKey key_;
    tensor::LinkExchange exchange_;
    net::Links links_;
    std::uint64_t generation_ = 0;
};

class LinkedMembers {
public:
    // All linked with all.
    static Result<std::unique_ptr<LinkedMembers>> start(std::size_t count);
    struct Home {
        std::string address;  // without port
        testbed::Place place{};
    };
    static Result<std::unique_ptr<LinkedMembers>> start(const std::vector<Home>& homes);

    [[nodiscard]] std::size_t count() const { return members_.size(); }
    // A new generation with this exchange: the place of each one's parent, the root's is its own; empty: direct. Each
    // works in its own thread; the first error of any is returned.
    using Work = std::function<Result<void>(std::size_t place, tensor::LinkExchange& exchange)>;
    [[nodiscard]] Result<void> together(const std::vector<std::size_t>& parents, const Work& work);

private:
    explicit LinkedMembers(std::vector<Home> homes) : homes_(std::move(homes)) {}
    // Each in its own thread, at home.
    [[nodiscard]] Result<void> each_at_home(const std::function<Result<void>(std::size_t place)>& work);
    void tell_all(const std::string& why);

    std::vector<Home> homes_;
    std::vector<std::unique_ptr<LinkedMember>> members_;
    std::uint64_t generation_ = 0;
};

}  // namespace chaos::bench
