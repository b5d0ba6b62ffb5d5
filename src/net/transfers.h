// Large things from one node to another: results, shards of a state, units of a model. They travel as bulk frames, cut
// into pieces over all connections that serve their kind:
//
//   first: the transfer's number | second: the piece's first byte | third: bytes in all
//
// The receiver chooses the number when it asks, so that every frame that arrives has a place, or is not wanted.
#pragma once

#include "net/links.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

namespace chaos::net {

class Transfers final : public BulkReceiver {
public:
    struct Arrived {
        std::shared_ptr<std::byte[]> bytes;
        std::size_t count = 0;
    };

    // To be called once, before anything else.
    void connect(Links& links) { links_ = &links; }

    // Something of at most `max_bytes` is to come from there; `done` is called once it is whole. Its number.
    [[nodiscard]] std::uint64_t expect(NodeId from, std::size_t max_bytes, std::function<void(Arrived)> done);
    // Of a result: another number each time, as long as bytes come from there. A piece may be long on its way.
    [[nodiscard]] std::uint64_t progress(std::uint64_t number) const;
    // Of all pieces that began to arrive, wanted or not.
    [[nodiscard]] std::uint64_t received_bytes() const { return received_bytes_; }
    // It is not wanted any more: what still comes is read past.
    void forget(std::uint64_t number);

    // False: there is no link.
    bool send(NodeId to, BulkKind kind, std::uint64_t number, std::span<const std::byte> bytes,
              const std::shared_ptr<const void>& owner);
    // What has not begun to leave of a result with that number does not.
    void cancel_result(NodeId to, std::uint64_t number) { links_->cancel_results(to, number); }

    Place place_for(NodeId from, const BulkHead& head) override;
    void arrived(NodeId from, const BulkHead& head) override;
    void dropped(NodeId from, const BulkHead& head) override;

private:
    struct Incoming {
        NodeId from;
        std::size_t max_bytes = 0;
        Arrived content;           // memory once the first piece has told how much it is
        std::vector<bool> pieces;  // that are there, or being received
        std::size_t arrived = 0;   // bytes
        std::function<void(Arrived)> done;
    };
    void let_go(const BulkHead& head);

    Links* links_ = nullptr;
    std::uint64_t last_number_ = 0;
    std::uint64_t received_bytes_ = 0;
    std::map<std::uint64_t, Incoming> incoming_;
    // Pieces that were being received when their transfer was forgotten: their memory stays until they are done.
    std::multimap<std::uint64_t, std::shared_ptr<std::byte[]>> writing_;
};

}  // namespace chaos::net
