// collective/ executes sync plans: it sums a vector of floats over the members of a view and gives everybody the same
// bits. A member's training loop calls it; it calls nobody but the network, behind transport.h, and knows of the view
// only what a schedule says. One thread, the transport's: no locks, no clocks.
//
//   schedule.h      one member's part in a plan, worked out once per view
//   all_reduce.h    one exchange: how sums go up and results come down
//   engine.h        the exchanges of one member, one after the other
//   sum_in_order.h  the same bits without a network, for a replay
//   encoding.h      floats on the wire;   outcome.h   how an exchange ends;   buffer_pool.h   memory that comes back
//
// The engine is where chunks arrive. Chunks of an exchange that runs go to it. Those of a later one wait on their
// connection until it has begun here: the network's back-pressure holds back a faster peer, no memory does. (Nothing
// that is still needed can be behind them: their sender has everything of the earlier exchange, and sent what is due
// of it before.) Those of an earlier one are skipped.
//
// When an exchange ends without a result, the next view says how its step goes on: *redo*, begin() under the new plan,
// with other vectors unless the owner of the old ones is released: the network may still read and write them; or *take
// the result from X*, where X gives result() to those who lack it, and they decode_result() it.
#pragma once

#include "collective/all_reduce.h"

#include <deque>
#include <functional>
#include <set>

namespace chaos::collective {

class Engine final : public Receiver {
public:
    struct Callbacks {
        // Once per exchange; begin() may be called in it. May come before begin() or abandon() has returned.
        std::function<void(ExchangeId, const Outcome&)> ended;
        std::function<void(const Refusal&)> refused;
    };
    // The step in flight, and the next one where a caller overlaps them.
    static constexpr std::size_t max_running = 2;

    Engine(Transport& transport, Callbacks callbacks);

    // Refuses an exchange that does not follow the last one begun, vectors of another length than the schedule's, and
    // more than max_running at once. `parts_ready`: those of the input that are there; none: all.
    [[nodiscard]] Result<void> begin(ExchangeId id, std::shared_ptr<const Schedule> schedule, Vectors vectors,
                                     std::optional<std::size_t> parts_ready = std::nullopt);
    // The first so many parts of the exchange's input are there now. Nothing happens where it runs no more.
    void ready(ExchangeId id, std::size_t parts);

    // Of whom an exchange waits for something; of nobody where it does not run.
    [[nodiscard]] AllReduce::Awaited awaited(ExchangeId id) const;
    // What is known of its result; of one that does not run, nothing.
    [[nodiscard]] std::vector<Range> known(ExchangeId id) const;

    // There is no way to a peer: what needs it is interrupted, now and when it begins, until there is one again.
    void peer_lost(NodeId peer);
    void peer_back(NodeId peer);

    // Interrupts all that runs: a flush stops the step. What the network still holds of exchanges without a result is
    // dropped; begin() drops it too, but a lost peer alone does not: others may complete with it.
    void abandon();

    // Another line of views, whose exchanges are numbered anew: what runs is interrupted, and any may come next.
    void restart();

    // The result of the exchange that completed last, if that was this one: kept until the next completes, which
    // proves that everybody has it.
    [[nodiscard]] std::optional<EncodedResult> result(ExchangeId id) const;

    [[nodiscard]] const BufferPool& pool() const { return pool_; }

    Place place_for(NodeId from, const ChunkHeader& header) override;
    void arrived(NodeId from, const ChunkHeader& header) override;
    void dropped(NodeId from, const ChunkHeader& header) override;

private:
    struct Entry {
        AllReduce exchange;
        bool reported = false;
    };
    using EntryPtr = std::shared_ptr<Entry>;

    [[nodiscard]] EntryPtr find(ExchangeId id) const;
    [[nodiscard]] std::size_t running() const;
    void report(const EntryPtr& entry);
    void report_all();
    void forget_old();
    void cancel_unfinished();

    Transport& transport_;
    Callbacks callbacks_;
    BufferPool pool_;
    std::deque<EntryPtr> entries_;  // ascending; those that run, the last complete one, and those with places given
    std::optional<ExchangeId> newest_;
    std::vector<ExchangeId> unfinished_;  // ended without a result, and the network may still send of them
    std::set<NodeId> lost_;
    std::set<NodeId> waiting_;  // peers with a chunk that was told to wait
};

}  // namespace chaos::collective
