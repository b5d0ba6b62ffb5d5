// The collective engine on live links: chunks travel as bulk frames of gradients, spread over the connections of each
// link.
#pragma once

#include "collective/transport.h"
#include "net/links.h"

namespace chaos::collective {

// Between Links, which it is the receiver of, and an engine. Both are set once they exist: each needs the other.
class LiveTransport final : public Transport, public net::BulkReceiver {
public:
    void connect(net::Links& links, Receiver& receiver);

    void send(NodeId to, const ChunkHeader& header, std::span<const std::byte> payload,
              std::shared_ptr<const void> owner) override;
    void resume(NodeId from) override;
    void cancel(ExchangeId exchange) override;

    net::BulkReceiver::Place place_for(NodeId from, const net::BulkHead& head) override;
    void arrived(NodeId from, const net::BulkHead& head) override;
    void dropped(NodeId from, const net::BulkHead& head) override;

private:
    net::Links* links_ = nullptr;
    Receiver* receiver_ = nullptr;
};

}  // namespace chaos::collective
