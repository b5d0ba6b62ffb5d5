// sim/ runs the cluster's own code, cluster/, plan/ and state/, on machines and links that exist only as numbers. Time
// is virtual and everything is decided by integers, so one seed is one run, bit for bit, on any machine. It may call
// base/, cluster/, plan/ and state/; only the command line and tests call it.
//
// Read in this order: queue.h (what happens next), network.h (what carries messages), toy.h (what is trained),
// trainer.h (one node's training), node.h (one process), faults.h and scenario.h (what goes wrong), invariants.h (what
// must stay true), world.h (all of it), run.h (one seed), sweep.h (many).
//
// The queue of events: the earliest first, and among equals the one that was put in first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace chaos::sim {

using Time = std::int64_t;  // virtual nanoseconds since the run began
inline constexpr Time microsecond = 1'000;
inline constexpr Time millisecond = 1'000 * microsecond;
inline constexpr Time second = 1'000 * millisecond;

using Host = std::uint32_t;  // a machine's number

template <class Event>
class Queue {
public:
    void push(Time at, Event event) {
        std::uint32_t slot = 0;
        if (free_.empty()) {
            slot = static_cast<std::uint32_t>(slots_.size());
            slots_.push_back(std::move(event));
        } else {
            slot = free_.back();
            free_.pop_back();
            slots_[slot] = std::move(event);
        }
        heap_.push_back({at, order_++, slot});
        std::push_heap(heap_.begin(), heap_.end(), Later{});
    }

    [[nodiscard]] bool empty() const { return heap_.empty(); }
    [[nodiscard]] Time next_at() const { return heap_.front().at; }
    [[nodiscard]] std::size_t size() const { return heap_.size(); }

    Event pop() {
        std::pop_heap(heap_.begin(), heap_.end(), Later{});
        const std::uint32_t slot = heap_.back().slot;
        heap_.pop_back();
        free_.push_back(slot);
        return std::move(slots_[slot]);
    }

private:
    struct Entry {
        Time at;
        std::uint64_t order;
        std::uint32_t slot;
    };
    struct Later {
        bool operator()(const Entry& x, const Entry& y) const { return x.at != y.at ? x.at > y.at : x.order > y.order; }
    };
    std::vector<Entry> heap_;
    std::vector<Event> slots_;
    std::vector<std::uint32_t> free_;
    std::uint64_t order_ = 0;
};

}  // namespace chaos::sim
