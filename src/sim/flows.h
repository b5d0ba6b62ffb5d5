// Large transfers as fluids: what scale-out is compared on at sizes where single messages would be too many. A flow
// runs over the link of its two hosts and through both their network cards; flows that meet share what is there in a
// max-min fair way, in proportion to their weights. Rates change only when a flow starts or ends.
//
//   host 0 ──┐ card                  card ┌── host 2        two flows into host 2 get half of its card each, unless
//            └────── link 0 -> 2 ─────────┤                 a link or a sender's card holds one of them back: then
//   host 1 ───────── link 1 -> 2 ─────────┘                 the other gets the rest
//
// Time and rates are whole numbers, rounded so that nothing is ever faster than its links. Delay is the caller's: a
// flow ends when its last byte has left.
#pragma once

#include "sim/queue.h"

#include <cstdint>
#include <vector>

namespace chaos::sim {

inline constexpr Time never = std::int64_t{1} << 62;
inline constexpr std::uint64_t max_flow_bytes = 9'000'000'000;
inline constexpr std::uint64_t max_flow_bytes_per_s = std::uint64_t{1} << 31;

struct Card {  // a host's network card, full duplex
    std::uint64_t egress_bytes_per_s = 0;
    std::uint64_t ingress_bytes_per_s = 0;
};

struct Wiring {
    std::vector<Card> cards;           // of each host
    std::vector<std::uint64_t> rates;  // bytes per second from a to b at a * hosts + b; 0: no link
    std::vector<Time> delays;          // likewise

    [[nodiscard]] Host hosts() const { return static_cast<Host>(cards.size()); }
    [[nodiscard]] std::size_t pair(Host from, Host to) const { return std::size_t{from} * cards.size() + to; }
    [[nodiscard]] std::uint64_t rate(Host from, Host to) const { return rates[pair(from, to)]; }
    [[nodiscard]] Time delay(Host from, Host to) const { return delays[pair(from, to)]; }
};

struct Flow {
    Host from = 0;
    Host to = 0;
    std::uint64_t bytes = 0;
    std::uint32_t weight = 1;
};

// Many transfers that depend on each other piece by piece, as the hops of an exchange of gradients do: they advance in
// proportion and end together. The links of a bundle are its own; cards it shares with other flows.
struct Bundle {
    std::uint64_t bytes = 0;                  // through the busiest of its cards
    std::uint64_t bytes_per_s = 0;            // of the same, as its links allow
    std::vector<std::uint64_t> out_of_65536;  // what each host's egress carries of `bytes`,
    std::vector<std::uint64_t> in_of_65536;   // and its ingress, rounded up
    std::uint32_t weight = 1;                 // at the busiest card
};

using FlowId = std::uint32_t;

class Flows {
public:
    explicit Flows(const Wiring& wiring);

    FlowId start(const Flow& flow);  // now; bytes > 0
    FlowId start(const Bundle& bundle);
    void stop(FlowId id);  // before its end; sent() stays readable
    [[nodiscard]] bool running(FlowId id) const { return flows_[id].left > 0 && !flows_[id].stopped; }
    [[nodiscard]] std::uint64_t sent(FlowId id) const;  // whole bytes so far

    [[nodiscard]] Time now() const { return now_; }
    [[nodiscard]] Time next_end();     // when the next flow ends if nothing changes; `never` without flows
    void advance(Time to);             // not beyond next_end()
    std::vector<FlowId> take_ended();  // since the last call, in the order they were started

private:
    struct Load {
        std::uint32_t resource = 0;
        std::uint64_t of_65536 = 0;
    };
    struct Running {
        std::uint64_t bytes = 0;
        std::uint32_t weight = 1;
        std::uint64_t fastest = 0;  // bytes per second
        std::vector<Load> loads;
        std::uint64_t left = 0;  // in billionths of a byte, so that rate * nanoseconds is exact
        std::uint64_t rate = 0;
        bool stopped = false;
    };
    struct Resource {  // a card's direction or a link
        std::uint64_t left = 0;
        std::uint64_t weight = 0;  // of the flows whose rate is still open, times 65536
        std::uint64_t round = 0;   // in which it was used last
        std::vector<FlowId> flows;
    };
    [[nodiscard]] std::uint64_t capacity(std::uint32_t resource) const;
    FlowId enter(Running flow);
    void settle(Running& flow, std::uint64_t rate);
    void share();

    const Wiring& wiring_;
    std::vector<Running> flows_;
    std::vector<FlowId> active_;
    std::vector<FlowId> ended_;
    std::vector<Resource> resources_;
    std::uint64_t round_ = 0;
    bool changed_ = false;
    Time now_ = 0;
};

// All flows from one start to the last one's end, with nothing else on the wires; `ends`, if given, is filled with the
// end of each.
[[nodiscard]] Time run_flows(const Wiring& wiring, const std::vector<Flow>& flows, std::vector<Time>* ends = nullptr);

// The bundle of these transfers; `weight` is its weight at its busiest card.
[[nodiscard]] Bundle bundle_of(const Wiring& wiring, const std::vector<Flow>& flows, std::uint32_t weight);

// The shortest time in which all of it can pass, were it scheduled perfectly: the most loaded link or card decides.
[[nodiscard]] Time busiest(const Wiring& wiring, const std::vector<Flow>& flows);

}  // namespace chaos::sim
