#include "sim/flows.h"

#include "base/assert.h"
#include "plan/integers.h"

#include <algorithm>

namespace chaos::sim {
namespace {

using plan::u128;

constexpr std::uint64_t billion = 1'000'000'000;
constexpr unsigned level_bits = 32;  // a level is bytes per second per unit of weight, with this many binary places

constexpr std::uint64_t whole = 65536;
constexpr std::uint32_t own_limit = 0xffffffff;

struct Level {
    std::uint64_t level = 0;
    std::uint32_t resource = 0;  // or own_limit, of `flow`
    FlowId flow = 0;
    // std::push_heap keeps the largest on top; the lowest level is wanted there.
    bool operator<(const Level& other) const {
        if (level != other.level) return level > other.level;
        return resource != other.resource ? resource > other.resource : flow > other.flow;
    }
};

}  // namespace

Flows::Flows(const Wiring& wiring) : wiring_(wiring) {
    const std::size_t hosts = wiring.cards.size();
    CHAOS_ASSERT(wiring.rates.size() == hosts * hosts);
    resources_.resize(2 * hosts + hosts * hosts);
}

std::uint64_t Flows::capacity(std::uint32_t resource) const {
    const Host hosts = wiring_.hosts();
    if (resource < hosts) return wiring_.cards[resource].egress_bytes_per_s;
    if (resource < 2 * hosts) return wiring_.cards[resource - hosts].ingress_bytes_per_s;
    return wiring_.rates[resource - 2 * hosts];
}

FlowId Flows::start(const Flow& flow) {
    CHAOS_ASSERT(flow.from != flow.to);
    const Host hosts = wiring_.hosts();
    Running running;
    running.bytes = flow.bytes;
    running.weight = flow.weight;
    running.fastest = max_flow_bytes_per_s;
    const auto link = static_cast<std::uint32_t>(wiring_.pair(flow.from, flow.to));
    for (const std::uint32_t resource : {flow.from, hosts + flow.to, 2 * hosts + link})
        running.loads.push_back({resource, whole});
    return enter(std::move(running));
}

FlowId Flows::start(const Bundle& bundle) {
    Running running;
    running.bytes = bundle.bytes;
    running.weight = bundle.weight;
    running.fastest = bundle.bytes_per_s;
    for (Host host = 0; host < wiring_.hosts(); ++host) {
        if (bundle.out_of_65536[host] > 0) running.loads.push_back({host, bundle.out_of_65536[host]});
        if (bundle.in_of_65536[host] > 0) running.loads.push_back({wiring_.hosts() + host, bundle.in_of_65536[host]});
    }
    return enter(std::move(running));
}

FlowId Flows::enter(Running flow) {
    CHAOS_ASSERT(flow.bytes > 0 && flow.bytes <= max_flow_bytes && flow.weight > 0 && flow.fastest > 0);
    for (const Load& load : flow.loads)
        CHAOS_ASSERT(capacity(load.resource) > 0 && capacity(load.resource) <= max_flow_bytes_per_s);
    const auto id = static_cast<FlowId>(flows_.size());
    flow.left = flow.bytes * billion;
    flows_.push_back(std::move(flow));
    active_.push_back(id);
    changed_ = true;
    return id;
}

void Flows::stop(FlowId id) {
    if (!running(id)) return;
    flows_[id].stopped = true;
    std::erase(active_, id);
    changed_ = true;
}

std::uint64_t Flows::sent(FlowId id) const {
    return flows_[id].bytes - plan::ceil_div(flows_[id].left, billion);
}

void Flows::settle(Running& flow, std::uint64_t rate) {
    flow.rate = std::max<std::uint64_t>(rate, 1);
    for (const Load& load : flow.loads) {
        Resource& resource = resources_[load.resource];
        resource.left -= std::min(resource.left, plan::saturate((u128{flow.rate} * load.of_65536 + whole - 1) / whole));
        resource.weight -= flow.weight * load.of_65536;
    }
}

// Progressive filling: the resource that gives its flows the least per weight settles them first; what they leave of
// other resources is shared on. A flow's own limit is like a resource that nobody else uses. A resource's level only
// rises while others are settled, so an entry of the heap is a lower bound, and one that has risen is put back.
void Flows::share() {
    changed_ = false;
    ++round_;
    std::vector<Level> heap;
    for (const FlowId id : active_) {
        Running& flow = flows_[id];
        flow.rate = 0;
        if (flow.fastest < max_flow_bytes_per_s)
            heap.push_back({plan::saturate((u128{flow.fastest} << level_bits) / flow.weight), own_limit, id});
        for (const Load& load : flow.loads) {
            Resource& resource = resources_[load.resource];
            if (resource.round != round_) {
                resource.round = round_;
                resource.left = capacity(load.resource);
                resource.weight = 0;
                resource.flows.clear();
                heap.push_back({0, load.resource, 0});
            }
            resource.weight += flow.weight * load.of_65536;
            resource.flows.push_back(id);
        }
    }
    const auto level_of = [&](std::uint32_t index) {
        return plan::saturate((u128{resources_[index].left} << level_bits) * whole / resources_[index].weight);
    };
    for (Level& entry : heap)
        if (entry.resource != own_limit) entry.level = level_of(entry.resource);
    std::make_heap(heap.begin(), heap.end());
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end());
        const Level lowest = heap.back();
        heap.pop_back();
        if (lowest.resource == own_limit) {
            if (flows_[lowest.flow].rate == 0) settle(flows_[lowest.flow], flows_[lowest.flow].fastest);
            continue;
        }
        Resource& bottleneck = resources_[lowest.resource];
        if (bottleneck.weight == 0) continue;
        if (const std::uint64_t level = level_of(lowest.resource); level > lowest.level) {
            heap.push_back({level, lowest.resource, 0});
            std::push_heap(heap.begin(), heap.end());
            continue;
        }
        for (const FlowId id : bottleneck.flows) {
            Running& flow = flows_[id];
            if (flow.rate == 0) settle(flow, plan::saturate((u128{lowest.level} * flow.weight) >> level_bits));
        }
    }
}

Time Flows::next_end() {
    if (changed_) share();
    Time next = never;
    for (const FlowId id : active_) {
        const Running& flow = flows_[id];
        next = std::min(next, now_ + static_cast<Time>(plan::ceil_div(flow.left, flow.rate)));
    }
    return next;
}

void Flows::advance(Time to) {
    CHAOS_ASSERT(to >= now_ && to <= next_end());
    const auto passed = static_cast<std::uint64_t>(to - now_);
    now_ = to;
    std::size_t kept = 0;
    for (const FlowId id : active_) {
        Running& flow = flows_[id];
        flow.left -= std::min(flow.left, flow.rate * passed);
        if (flow.left > 0) {
            active_[kept++] = id;
        } else {
            ended_.push_back(id);
            changed_ = true;
        }
    }
    active_.resize(kept);
}

std::vector<FlowId> Flows::take_ended() {
    return std::exchange(ended_, {});
}

Time run_flows(const Wiring& wiring, const std::vector<Flow>& flows, std::vector<Time>* ends) {
    Flows running(wiring);
    for (const Flow& flow : flows) running.start(flow);
    if (ends != nullptr) ends->assign(flows.size(), 0);
    for (Time next = running.next_end(); next != never; next = running.next_end()) {
        running.advance(next);
        for (const FlowId id : running.take_ended())
            if (ends != nullptr) (*ends)[id] = next;
    }
    return running.now();
}

Bundle bundle_of(const Wiring& wiring, const std::vector<Flow>& flows, std::uint32_t weight) {
    const std::size_t hosts = wiring.cards.size();
    std::vector<std::uint64_t> out(hosts);
    std::vector<std::uint64_t> in(hosts);
    std::vector<std::uint64_t> link(wiring.rates.size());
    for (const Flow& flow : flows) {
        out[flow.from] += flow.bytes;
        in[flow.to] += flow.bytes;
        link[wiring.pair(flow.from, flow.to)] += flow.bytes;
    }
    Bundle bundle;
    bundle.weight = weight;
    bundle.bytes = std::max(*std::max_element(out.begin(), out.end()), *std::max_element(in.begin(), in.end()));
    bundle.bytes_per_s = max_flow_bytes_per_s;
    for (std::size_t pair = 0; pair < link.size(); ++pair)
        if (link[pair] > 0)
            bundle.bytes_per_s =
                std::min(bundle.bytes_per_s, plan::mul_div(wiring.rates[pair], bundle.bytes, link[pair]));
    for (std::size_t host = 0; host < hosts; ++host) {
        const auto part = [&](std::uint64_t bytes) {
            return plan::saturate((u128{bytes} * whole + bundle.bytes - 1) / bundle.bytes);
        };
        bundle.out_of_65536.push_back(part(out[host]));
        bundle.in_of_65536.push_back(part(in[host]));
    }
    return bundle;
}

Time busiest(const Wiring& wiring, const std::vector<Flow>& flows) {
    std::vector<std::uint64_t> out(wiring.hosts());
    std::vector<std::uint64_t> in(wiring.hosts());
    std::vector<std::uint64_t> link(wiring.rates.size());
    for (const Flow& flow : flows) {
        out[flow.from] += flow.bytes;
        in[flow.to] += flow.bytes;
        link[wiring.pair(flow.from, flow.to)] += flow.bytes;
    }
    std::uint64_t longest = 0;
    for (Host host = 0; host < wiring.hosts(); ++host) {
        longest = std::max(longest, plan::transfer_ns(out[host], wiring.cards[host].egress_bytes_per_s));
        longest = std::max(longest, plan::transfer_ns(in[host], wiring.cards[host].ingress_bytes_per_s));
    }
    for (std::size_t pair = 0; pair < link.size(); ++pair)
        longest = std::max(longest, plan::transfer_ns(link[pair], wiring.rates[pair]));
    return static_cast<Time>(longest);
}

}  // namespace chaos::sim
