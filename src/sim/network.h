// What lies between hosts: a path in each direction between any two, with its own delay, rate and mishaps, and the
// connections that stand on them. The network only computes when something arrives; whoever drives it puts the arrival
// into a queue. It knows nothing of what is sent.
//
//   small messages   a lane of their own: delay + jitter, in order. On a bad path some are lost, doubled or overtaken.
//   bulk             bytes / rate, one after the other, then the delay. A stream repeats what is lost: it comes late.
//
// A cut drops everything without a sign to either end. Faults on a path are set from outside (faults.h).
#pragma once

#include "sim/queue.h"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace chaos::sim {

// The ranges that paths are drawn from, per pair of hosts.
struct PathRanges {
    Time delay_min = 200 * microsecond;
    Time delay_max = 2 * millisecond;
    Time jitter = 100 * microsecond;
    std::uint64_t rate_min = 20'000'000;  // bytes per second
    std::uint64_t rate_max = 125'000'000;
    std::uint32_t loss_ppm = 0;
    std::uint32_t duplicate_ppm = 0;
    std::uint32_t reorder_ppm = 0;
};

struct Path {
    Host from = 0;
    Host to = 0;
    Time delay = 0;
    std::uint64_t rate = 0;
    Time bulk_free_at = 0;       // when the bulk lane has sent what it was given
    Time last_arrival = 0;       // of the small messages: they stay in order
    std::uint64_t messages = 0;  // sent so far: numbers the random draws
};

struct Arrivals {
    Time first = -1;   // negative: lost
    Time second = -1;  // a copy
};

class Network {
public:
    Network(std::uint64_t seed, Host hosts, const PathRanges& ranges);

    [[nodiscard]] std::uint32_t path(Host from, Host to);
    [[nodiscard]] const Path& at(std::uint32_t path) const { return paths_[path]; }
    [[nodiscard]] bool passes(Host from, Host to) const;

    // When a small message sent now arrives. `surely`: never lost, doubled or overtaken (the opening and the closing of
    // connections). Whether the path is cut is looked at here, at the start.
    [[nodiscard]] Arrivals send(std::uint32_t path, Time now, bool surely = false);
    [[nodiscard]] Time send_bulk(std::uint32_t path, std::uint64_t bytes, Time now);

    // Nothing goes from `from` to `to`.
    void cut(Host from, Host to);
    void mend(Host from, Host to);
    // Hosts in different groups hear nothing of each other.
    void divide(std::vector<std::uint8_t> group_of_host) { groups_ = std::move(group_of_host); }
    void heal_all();

    void worsen(std::uint32_t loss_ppm, std::uint32_t duplicate_ppm, std::uint32_t reorder_ppm);
    // Whether the next message from `from` has a byte flipped; drawn per message.
    void set_corruption(Host from, std::uint32_t ppm) { corruption_ppm_[from] = ppm; }
    [[nodiscard]] bool corrupts(Host from, std::uint64_t draw) const {
        return draw % 1'000'000 < corruption_ppm_[from];
    }

private:
    std::uint64_t seed_;
    PathRanges ranges_;
    PathRanges as_built_;
    std::vector<Path> paths_;
    std::unordered_map<std::uint64_t, std::uint32_t> path_of_;
    std::vector<std::pair<Host, Host>> cuts_;
    std::vector<std::uint8_t> groups_;  // empty: not divided
    std::vector<std::uint32_t> corruption_ppm_;
};

// A connection between two processes. Each end knows only its own side: after a cut or a power failure one end may
// believe in a connection that the other has forgotten.
struct Connection {
    Host host[2] = {0, 0};           // who dialled, who answered
    std::uint64_t life[2] = {0, 0};  // of the processes
    std::uint32_t path[2] = {0, 0};  // from host[0], from host[1]
    bool up[2] = {false, false};     // as each end believes

    [[nodiscard]] int side_of(Host h) const { return host[0] == h ? 0 : 1; }
};

}  // namespace chaos::sim
