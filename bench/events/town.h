// A town: many members of the real cluster core in virtual time, on a random overlay, with nothing in between but
// delay. It measures what an event costs each member (thread CPU time in the core, and the new plan), in messages and
// bytes, and how long a decision takes to reach everybody.
#pragma once

#include "cluster/member.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

namespace chaos::bench {

using cluster::Nanoseconds;
using cluster::NodeId;

struct TownSettings {
    std::uint32_t members = 100;
    std::uint32_t degree = 8;
    Nanoseconds delay_low = 1 * cluster::millisecond;
    Nanoseconds delay_high = 5 * cluster::millisecond;
    Nanoseconds step_time = 500 * cluster::millisecond;
    std::uint64_t seed = 1;
    bool real_signatures = false;  // Ed25519 instead of the stand-in
    bool plans = true;             // each member computes the sync plan of each view
};

// What one event cost one member.
struct Cost {
    std::uint64_t cpu_ns = 0;
    std::uint64_t messages = 0;  // sent
    std::uint64_t bytes = 0;
};

struct Handling {
    std::vector<Cost> costs;          // of every member that was there to the end
    Nanoseconds spreading = 0;        // from the proposer's first message until the last member adopted it
    Nanoseconds spreading_limit = 0;  // a round trip from the proposer to a majority + 1.2 x the overlay's diameter
};

enum class TownEvent { scale_in, connect_link, disconnect_link, failure };

class Town {
public:
    explicit Town(const TownSettings& settings);
    ~Town();

    // Makes one event of this kind happen at a random place, and waits until everybody has adopted what follows and
    // trains by it. Absent: the overlay offers no place for it, or it was not over within a minute.
    std::optional<Handling> happen(TownEvent event);

private:
    struct House;
    struct Place {
        std::uint32_t house;
        NodeId other;  // of the link
    };
    struct Item {
        Nanoseconds at;
        std::uint64_t order;
        std::uint32_t house;
        cluster::Event event;
        bool operator>(const Item& other) const { return at != other.at ? at > other.at : order > other.order; }
    };

    void put(Nanoseconds at, std::uint32_t house, cluster::Event event);
    [[nodiscard]] std::optional<Place> find_place(TownEvent event);
    void begin(TownEvent event, const Place& place);
    void deliver(Item& item);
    void carry_out(House& from, cluster::Action& action);
    bool run_until(const std::function<bool()>& condition, Nanoseconds limit);
    [[nodiscard]] Nanoseconds delay(NodeId x, NodeId y) const;
    [[nodiscard]] std::vector<Nanoseconds> distances(const cluster::View& view, NodeId from) const;
    [[nodiscard]] Nanoseconds spreading_limit(const cluster::View& view, NodeId proposer) const;
    [[nodiscard]] bool all_at(std::uint64_t epoch) const;
    House& house(NodeId node);

    TownSettings settings_;
    cluster::Options options_;
    std::vector<std::unique_ptr<House>> houses_;
    std::map<NodeId, std::uint32_t> places_;
    std::set<cluster::LinkId> open_;
    std::priority_queue<Item, std::vector<Item>, std::greater<>> queue_;
    std::map<std::pair<std::uint64_t, cluster::Name>, std::vector<std::uint32_t>> begun_;
    Nanoseconds now_ = 0;
    std::uint64_t order_ = 0;
    std::uint64_t draws_ = 0;
    bool measuring_ = false;
    std::optional<NodeId> proposer_;  // of the measured event
    Nanoseconds proposed_at_ = 0;
    Nanoseconds adopted_at_ = 0;  // by the last one
};

}  // namespace chaos::bench
