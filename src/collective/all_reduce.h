// One all-reduce: executes a schedule for a vector of floats. In each tree
//
//   - a member adds the sums of its children, in ascending order of their ids, to its own values: the same bits
//     whatever arrives first. It encodes the sum and sends it to its parent; the root keeps it: that is the result.
//   - the encoded result comes down. A member forwards the bytes as they are and decodes them; the root decodes its
//     own encoding. So every member ends with the same bits.
//
// Each chunk goes its own way: nobody waits for more than the chunk in hand.
//
// Where the encoding rounds, every member rounds exactly once on the way up, namely the sum it sends, and the root
// rounds once more for all. A value is thus rounded once per hop to the root (children's sums are decoded and added as
// floats: they have no common scale that could spare it). What a member's own rounding left out is its residual; adding
// it to the member's next contribution makes up for it, whatever tree it then sits in.
//
// Memory. fp32 is received, added and sent in place: results in the output, a leaf's values from the input. Sums of
// children wait in pooled buffers until all of the same chunk are there. The window bounds them: a member sends the sum
// of chunk k only when it knows the result of chunk k - window, which its parent therefore knows too. Inside an
// exchange no chunk is ever told to wait, so that no chunk can stand in the way of one that others wait for. Encodings
// other than fp32 keep the encoded result besides, for those who must have it from this member later.
//
// A vector whose values come about in parts (Schedule::parts) need not be there when the exchange begins: what others
// send is taken from the beginning, and a chunk is contributed to once its part is there.
//
// Driven by its calls alone: no threads, no locks, no clocks.
#pragma once

#include "collective/buffer_pool.h"
#include "collective/outcome.h"
#include "collective/schedule.h"

#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace chaos::collective {

struct Vectors {
    std::span<const float> input;  // this member's contribution
    std::span<float> output;
    std::span<float> residual;  // empty, or where to write what this member's encodings left out
    // Keeps them alive. All must stay unchanged until it is released, except for parts of the input that are not there
    // yet: chunks leave straight from there.
    std::shared_ptr<const void> owner;
};

// The encoded result, for decode_result() at members that lack it.
struct EncodedResult {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
};

class AllReduce {
public:
    // The transport and the pool outlive it.
    AllReduce(Transport& transport, BufferPool& pool, std::shared_ptr<const Schedule> schedule, ExchangeId id,
              Vectors vectors);

    [[nodiscard]] ExchangeId id() const { return id_; }
    // The first so many parts of the input are there. They become more, never less.
    void ready(std::size_t parts);

    // As Receiver's, for chunks of this exchange. A refused chunk changes nothing, except that a neighbour's other plan
    // ends the exchange.
    [[nodiscard]] std::variant<Place, Why> place_for(NodeId from, const ChunkHeader& header);
    void arrived(NodeId from, const ChunkHeader& header);
    void dropped(NodeId from, const ChunkHeader& header);

    // The neighbours of whom something is due and not here: of children sums, of parents results.
    struct Awaited {
        std::vector<NodeId> sums;
        std::vector<NodeId> results;
    };
    [[nodiscard]] Awaited awaited() const;
    // Where the output is the result already and stays so, in ascending order.
    [[nodiscard]] std::vector<Range> known() const;

    // There is no way to this peer any more. Ends the exchange if something is still to come from it.
    void peer_lost(NodeId peer);
    void abandon();

    [[nodiscard]] const std::optional<Outcome>& outcome() const { return outcome_; }
    // The transport holds no place of it: it may be destroyed.
    [[nodiscard]] bool settled() const { return places_given_ == 0; }
    // Once complete.
    [[nodiscard]] EncodedResult result() const;

private:
    enum class Progress : std::uint8_t {
        open,      // sums are missing
        sent,      // the sum has left for the parent
        arriving,  // the result is being received
        known,
    };
    // A child's sum of one chunk.
    struct Staged {
        Buffer buffer;  // none: it has not come
        bool arrived = false;
    };
    struct Tree {
        std::vector<Progress> progress;      // per chunk
        std::vector<Staged> staged;          // per chunk of the window and child
        std::vector<std::uint32_t> arrived;  // per chunk of the window: children whose sum is there
    };

    [[nodiscard]] Why refuse(NodeId from, const ChunkHeader& header, Why why);
    [[nodiscard]] std::optional<Why> objection(NodeId from, const ChunkHeader& header) const;
    [[nodiscard]] Staged& staged(std::uint32_t tree, std::uint32_t chunk, std::size_t child);
    [[nodiscard]] const Staged& staged(std::uint32_t tree, std::uint32_t chunk, std::size_t child) const;
    [[nodiscard]] Staged& staged(NodeId from, const ChunkHeader& header);
    [[nodiscard]] bool in_window(std::uint32_t tree, std::uint32_t chunk) const;
    [[nodiscard]] bool neighbour(NodeId node) const;
    [[nodiscard]] bool needs(NodeId peer) const;
    [[nodiscard]] bool is_lost(NodeId peer) const;

    void let_go(NodeId from, const ChunkHeader& header);
    [[nodiscard]] bool may_contribute(std::uint32_t tree, std::uint32_t chunk) const;
    void contribute(std::uint32_t tree, std::uint32_t chunk);
    void reduce(std::uint32_t tree, std::uint32_t chunk, std::span<std::byte> sum);
    void reduce_piece(std::uint32_t tree, std::uint32_t chunk, std::uint64_t first, std::span<const float> own,
                      std::span<std::byte> sum);
    void send(NodeId to, std::uint32_t tree, std::uint32_t chunk, bool down, std::span<const std::byte> bytes,
              std::shared_ptr<const void> owner);
    void know(std::uint32_t tree, std::uint32_t chunk);
    void end(Outcome outcome);
    [[nodiscard]] std::span<std::byte> result_place(std::uint32_t tree, std::uint32_t chunk);
    [[nodiscard]] std::shared_ptr<const void> result_owner() const;
    [[nodiscard]] bool fp32() const { return schedule_->options.encoding == Encoding::fp32; }

    Transport& transport_;
    BufferPool& pool_;
    std::shared_ptr<const Schedule> schedule_;
    ExchangeId id_;
    Vectors vectors_;
    Buffer encoded_result_;  // none for fp32: that is the output
    std::vector<Tree> trees_;
    std::size_t parts_ready_ = 0;
    std::uint64_t results_missing_ = 0;
    std::uint64_t places_given_ = 0;
    std::vector<NodeId> lost_;
    std::optional<Outcome> outcome_;
};

}  // namespace chaos::collective
