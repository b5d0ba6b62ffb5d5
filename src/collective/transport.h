// What the collective engine needs of the network, and all it knows of it: whole chunks to and from neighbours. The
// live one is net::Links; tests have one that lives in memory.
#pragma once

#include "cluster/id.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace chaos::collective {

using cluster::NodeId;

// Names a chunk of one all-reduce. Chunks of one (tree, direction) between two members travel in ascending order.
struct ChunkHeader {
    std::uint64_t plan = 0;  // hash of the sync plan, its encoding and who takes part: a mismatch is refused
    std::uint64_t step = 0;  // of which step, as the callers number them
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
    // connection is gone.
    virtual void send(NodeId to, const ChunkHeader& header, std::span<const std::byte> payload,
                      std::shared_ptr<const void> owner) = 0;
};

// The other way round: whoever receives chunks. Called by the transport, in the thread of its loop.
class Receiver {
public:
    virtual ~Receiver() = default;
    // Where the payload of this chunk is to be written; exactly header.bytes long. Empty: nobody wants it, and the
    // transport skips it. Stays valid until arrived() or dropped() is called for the same chunk.
    virtual std::span<std::byte> place_for(NodeId from, const ChunkHeader& header) = 0;
    virtual void arrived(NodeId from, const ChunkHeader& header) = 0;
    // The connection ended in the middle of that chunk.
    virtual void dropped(NodeId from, const ChunkHeader& header) = 0;
};

}  // namespace chaos::collective
