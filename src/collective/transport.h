// What the collective engine needs of the network, and all it knows of it: whole chunks to and from neighbours. The
// live one is net::Links; tests have one that lives in memory.
#pragma once

#include "cluster/id.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace chaos::collective {

using cluster::NodeId;

// Names one all-reduce of a line of views. They follow each other in this order: the same step is tried again only
// under a later view.
struct ExchangeId {
    std::uint64_t epoch = 0;  // of the view whose plan is executed
    std::uint64_t step = 0;
    auto operator<=>(const ExchangeId&) const = default;
};

// Names a chunk of one all-reduce.
struct ChunkHeader {
    ExchangeId exchange;
    std::uint64_t plan = 0;  // Schedule::hash: a mismatch is refused
    std::uint32_t tree = 0;
    std::uint32_t chunk = 0;
    std::uint32_t bytes = 0;  // of the payload that follows
    bool down = false;        // false: a partial sum on its way to the root; true: the result on its way from it
    bool operator==(const ChunkHeader&) const = default;
};

class Transport {
public:
    virtual ~Transport() = default;
    // Queues a chunk. `payload` is not copied: `owner` keeps it alive and unchanged until it has left, or the
    // connection is gone. Chunks to one peer leave in the order of the calls; where several connections share them,
    // each connection keeps that order.
    virtual void send(NodeId to, const ChunkHeader& header, std::span<const std::byte> payload,
                      std::shared_ptr<const void> owner) = 0;
    // The receiver may now have an answer for the chunks of this peer that it told to wait: place_for is to be asked
    // again for each. There may be none any more.
    virtual void resume(NodeId from) = 0;
    // Nobody wants this exchange any more: its chunks that have not begun to leave are dropped, so that they do not
    // stand before those of its redo.
    virtual void cancel(ExchangeId exchange) = 0;
    // None of these calls the receiver before it has returned.
};

// Where the payload of a chunk is to be written.
struct Place {
    enum class Verdict : std::uint8_t {
        take,  // write it to `bytes`, exactly header.bytes long
        skip,  // nobody wants it: read past it
        wait,  // not yet: read nothing more of this connection until Transport::resume
    };
    Verdict verdict = Verdict::skip;
    std::span<std::byte> bytes;
};

// The other way round: whoever receives chunks. Called by the transport, in the thread of its loop.
class Receiver {
public:
    virtual ~Receiver() = default;
    // A place that was given stays valid until arrived() or dropped() is called for the same chunk of the same peer,
    // as one of them must be, exactly once. Neither is called for chunks that were skipped.
    virtual Place place_for(NodeId from, const ChunkHeader& header) = 0;
    virtual void arrived(NodeId from, const ChunkHeader& header) = 0;
    // The connection ended in the middle of that chunk.
    virtual void dropped(NodeId from, const ChunkHeader& header) = 0;
};

}  // namespace chaos::collective
