// The best tensor plan by brute force: every set of devices, every exchange, every division in whole units, each with
// the time and memory that tensor_plan.h writes down. For a handful of devices and units.
#pragma once

#include "plan/tensor_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

namespace chaos::plan::test {

class TensorOracle {
public:
    explicit TensorOracle(const TensorRequest& request) : request_(request), order_(request.devices.size()) {
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::sort(order_.begin(), order_.end(),
                  [&](std::size_t x, std::size_t y) { return request.devices[x].id < request.devices[y].id; });
    }

    // `unlimited` where nothing can be done.
    [[nodiscard]] std::uint64_t best_ns() {
        best_ = unlimited;
        for (std::size_t mask = 1; mask < std::size_t{1} << order_.size(); ++mask) {
            members_.clear();
            for (std::size_t i = 0; i < order_.size(); ++i) {
                if ((mask >> i & 1) != 0) members_.push_back(order_[i]);
            }
            exchange_ns_ = best_exchange();
            if (exchange_ns_ == unlimited) continue;
            const TensorModel& model = request_.model;
            each_division(model.heads / model.head_unit, heads_, [&] {
                each_division(model.ffn_units, ffn_, [&] {
                    each_division(model.vocab_units, vocab_, [&] { best_ = std::min(best_, token_ns()); });
                });
            });
        }
        return best_;
    }

    // Of given members and shares, in the order of ids.
    [[nodiscard]] std::uint64_t token_ns() const {
        const TensorModel& model = request_.model;
        std::uint64_t attention = 0;
        std::uint64_t ffn = 0;
        std::uint64_t head = 0;
        std::uint64_t disk = 0;
        std::uint64_t at = 0;
        for (std::size_t i = 0; i < members_.size(); ++i) {
            const TensorDevice& device = request_.devices[members_[i]];
            std::vector<bool> kv(model.kv_heads);
            for (std::uint64_t h = 0; h < heads_[i] * model.head_unit; ++h)
                kv[(at + h) / (model.heads / model.kv_heads)] = true;
            at += heads_[i] * model.head_unit;
            const auto kv_heads = static_cast<std::uint64_t>(std::count(kv.begin(), kv.end(), true));
            const std::uint64_t attention_bytes =
                heads_[i] * model.head_unit * model.query_head_bytes + kv_heads * model.kv_head_bytes;
            const std::uint64_t ffn_bytes = ffn_[i] * model.ffn_unit_bytes;
            const std::uint64_t head_bytes = vocab_[i] * model.vocab_unit_bytes;
            const std::uint64_t weights = model.layers * (attention_bytes + ffn_bytes) + head_bytes;
            const std::uint64_t always =
                device.program_bytes + model.everywhere_bytes + model.layers * model.cache_bytes * kv_heads;
            if (always > device.memory_bytes) return unlimited;
            if (always + weights > device.memory_bytes) {
                if (device.disk_bytes_per_s == 0) return unlimited;
                // The fewest that leave room for their ring; the search begins a little below the fraction.
                const auto memory = [&](std::uint64_t streamed) {
                    return always + weights - streamed + model.ring_bytes +
                           (streamed + model.layers) / (model.layers + 1);
                };
                const std::uint64_t lacking = always + weights + model.ring_bytes - device.memory_bytes;
                std::uint64_t streamed = lacking + lacking / model.layers - std::min<std::uint64_t>(lacking, 3);
                while (streamed <= weights && memory(streamed) > device.memory_bytes) ++streamed;
                if (streamed > weights) return unlimited;
                disk = std::max(disk, at_rate(streamed, device.disk_bytes_per_s));
            }
            const auto phase = [&](std::uint64_t bytes) {
                return device.phase_ns + at_rate(bytes, device.weight_bytes_per_s);
            };
            attention = std::max(attention, phase(attention_bytes));
            ffn = std::max(ffn, phase(ffn_bytes));
            head = std::max(head, phase(head_bytes));
        }
        return std::max(model.layers * (attention + ffn) + head + exchange_ns_, disk);
    }

private:
    static std::uint64_t at_rate(std::uint64_t bytes, std::uint64_t rate) {
        return rate == unlimited ? 0 : (bytes * 1'000'000'000 + rate - 1) / rate;
    }

    void each_division(std::uint64_t units, std::vector<std::uint64_t>& parts, const std::function<void()>& then) {
        parts.assign(members_.size(), 0);
        const std::function<void(std::size_t, std::uint64_t)> give = [&](std::size_t i, std::uint64_t left) {
            if (i + 1 == members_.size()) {
                parts[i] = left;
                then();
                return;
            }
            for (std::uint64_t part = 0; part <= left; ++part) {
                parts[i] = part;
                give(i + 1, left - part);
            }
        };
        give(0, units);
    }

    [[nodiscard]] const SyncLink* link(std::size_t a, std::size_t b) const {
        for (const SyncLink& one : request_.links) {
            if (((one.a == a && one.b == b) || (one.a == b && one.b == a)) && one.a_to_b_bytes_per_s != 0 &&
                one.b_to_a_bytes_per_s != 0)
                return &one;
        }
        return nullptr;
    }

    [[nodiscard]] std::uint64_t egress_ns(std::size_t from, std::uint64_t bytes) const {
        return at_rate(bytes, request_.devices[from].egress_bytes_per_s);
    }
    [[nodiscard]] std::uint64_t ingress_ns(std::size_t to, std::uint64_t bytes) const {
        return at_rate(bytes, request_.devices[to].ingress_bytes_per_s);
    }

    // One message, with both ends' work.
    [[nodiscard]] std::uint64_t hop(std::size_t from, std::size_t to, std::uint64_t bytes) const {
        const SyncLink& one = *link(from, to);
        const std::uint64_t rate = one.a == from ? one.a_to_b_bytes_per_s : one.b_to_a_bytes_per_s;
        return request_.devices[from].message_ns +
               std::max({at_rate(bytes, rate), egress_ns(from, bytes), ingress_ns(to, bytes)}) + one.delay_ns +
               request_.devices[to].message_ns;
    }

    [[nodiscard]] std::uint64_t direct_ns(std::uint64_t bytes) const {
        const std::uint64_t others = members_.size() - 1;
        std::uint64_t longest = 0;
        for (const std::size_t a : members_) {
            const std::uint64_t own = request_.devices[a].message_ns;
            longest = std::max(longest, 2 * others * own);
            for (const std::size_t b : members_) {
                if (a == b) continue;
                longest = std::max(
                    longest, hop(a, b, bytes) + (others - 1) * std::max({own, egress_ns(a, bytes), ingress_ns(b, bytes),
                                                                         request_.devices[b].message_ns}));
            }
        }
        return longest;
    }

    using Parents = std::vector<std::size_t>;  // places in members_

    [[nodiscard]] std::uint64_t up_ns(const Parents& parent, std::size_t at, std::uint64_t bytes) const {
        std::uint64_t last = 0;
        for (std::size_t child = 0; child < parent.size(); ++child) {
            if (child == at || parent[child] != at) continue;
            last = std::max(last, up_ns(parent, child, bytes) + hop(members_[child], members_[at], bytes));
        }
        return last;
    }

    [[nodiscard]] std::uint64_t down_ns(const Parents& parent, std::size_t at, std::uint64_t bytes) const {
        std::uint64_t last = 0;
        const std::uint64_t children = children_of(parent, at);
        for (std::size_t child = 0; child < parent.size(); ++child) {
            if (child == at || parent[child] != at) continue;
            last = std::max(
                last, (children - 1) * std::max({request_.devices[members_[at]].message_ns,
                                                 egress_ns(members_[at], bytes), ingress_ns(members_[at], bytes)}) +
                          hop(members_[at], members_[child], bytes) + down_ns(parent, child, bytes));
        }
        return last;
    }

    [[nodiscard]] static std::uint64_t children_of(const Parents& parent, std::size_t at) {
        std::uint64_t children = 0;
        for (std::size_t child = 0; child < parent.size(); ++child) children += child != at && parent[child] == at;
        return children;
    }

    [[nodiscard]] bool is_tree(const Parents& parent, std::size_t root) const {
        for (std::size_t i = 0; i < parent.size(); ++i) {
            if (i != root && (parent[i] == i || link(members_[i], members_[parent[i]]) == nullptr)) return false;
            std::size_t at = i;
            for (std::size_t hops = 0; hops < parent.size(); ++hops) at = parent[at];
            if (at != root) return false;
        }
        return true;
    }

    // Stars are trees.
    [[nodiscard]] std::uint64_t best_exchange() const {
        if (members_.size() == 1) return 0;
        const std::uint64_t times = 2 * request_.model.layers;
        const std::uint64_t bytes = request_.model.width * 8;
        const auto allowed = [&](TensorExchange exchange) {
            return std::count(request_.exchanges.begin(), request_.exchanges.end(), exchange) > 0;
        };
        std::uint64_t best = unlimited;
        bool mesh = true;
        for (const std::size_t a : members_) {
            for (const std::size_t b : members_) mesh = mesh && (a == b || link(a, b) != nullptr);
        }
        if (mesh && allowed(TensorExchange::direct))
            best = times * direct_ns(bytes) + direct_ns(request_.candidate_bytes);
        if (mesh && allowed(TensorExchange::scatter)) {
            const auto piece = [&](std::uint64_t all) { return (all + members_.size() - 1) / members_.size(); };
            best = std::min(best, times * 2 * direct_ns(piece(bytes)) + 2 * direct_ns(piece(request_.candidate_bytes)));
        }
        Parents parent(members_.size());
        const std::function<void(std::size_t, std::size_t)> choose = [&](std::size_t i, std::size_t root) {
            if (i == parent.size()) {
                if (!is_tree(parent, root)) return;
                best = std::min(best, times * (up_ns(parent, root, bytes) + down_ns(parent, root, bytes)) +
                                          up_ns(parent, root, request_.candidate_bytes) +
                                          down_ns(parent, root, request_.candidate_bytes));
                return;
            }
            for (std::size_t p = 0; p < parent.size(); ++p) {
                if ((p == i) != (i == root)) continue;
                parent[i] = p;
                choose(i + 1, root);
            }
        };
        for (std::size_t root = 0; root < parent.size(); ++root) choose(0, root);
        return best;
    }

    const TensorRequest& request_;
    std::vector<std::size_t> order_;
    std::vector<std::size_t> members_;  // indexes of devices
    std::uint64_t exchange_ns_ = 0;
    std::uint64_t best_ = unlimited;
    std::vector<std::uint64_t> heads_, ffn_, vocab_;
};

// What is scarce in a request.
struct TensorKind {
    std::size_t devices = 2;
    bool memory = false;   // not everybody has room for everything
    bool disks = false;    // some can stream
    bool delays = false;   // exchanges cost as much as computing
    bool gaps = false;     // not everybody is linked with everybody
    bool scatter = false;  // allowed
};

inline TensorRequest random_tensor_request(std::mt19937_64& random, const TensorKind& kind) {
    const auto pick = [&](std::uint64_t least, std::uint64_t most) { return least + random() % (most - least + 1); };
    TensorRequest request;
    TensorModel& model = request.model;
    model.layers = pick(1, 4);
    model.kv_heads = pick(1, 3);
    model.head_unit = pick(0, 3) == 0 ? 2 : 1;
    model.heads = model.kv_heads * model.head_unit * pick(1, kind.devices > 3 ? 2 : 3);
    model.query_head_bytes = pick(500, 4000);
    model.kv_head_bytes = pick(100, 4000);
    model.ffn_units = pick(1, kind.devices > 3 ? 5 : 7);
    model.ffn_unit_bytes = pick(1000, 9000);
    model.vocab_units = pick(1, kind.devices > 3 ? 4 : 6);
    model.vocab_unit_bytes = pick(500, 9000);
    model.width = pick(8, 64);
    model.cache_bytes = pick(0, 3000);
    model.everywhere_bytes = pick(0, 5000);
    model.ring_bytes = pick(100, 2000);
    request.candidate_bytes = pick(0, 200);
    const std::uint64_t all = weight_bytes(model) + model.layers * model.kv_heads * model.cache_bytes;
    for (std::size_t i = 0; i < kind.devices; ++i) {
        TensorDevice device;
        device.id = 100 + i * 7 % 5;
        device.weight_bytes_per_s = pick(1, 4) * pick(1, 100) * 100'000;
        device.program_bytes = pick(0, 3000);
        device.phase_ns = pick(0, 1) * pick(0, 20'000);
        if (kind.memory && pick(0, 4) != 0)
            device.memory_bytes = device.program_bytes + model.everywhere_bytes + pick(all / 8, all * 5 / 4);
        if (kind.disks && pick(0, 3) != 0) device.disk_bytes_per_s = pick(1, 100) * 100'000;
        device.message_ns = pick(0, kind.delays ? 50'000 : 2'000);
        if (pick(0, 1) == 0) device.egress_bytes_per_s = pick(1, 100) * 1'000'000;
        if (pick(0, 1) == 0) device.ingress_bytes_per_s = pick(1, 100) * 1'000'000;
        request.devices.push_back(device);
    }
    for (std::uint32_t a = 0; a < kind.devices; ++a) {
        for (std::uint32_t b = a + 1; b < kind.devices; ++b) {
            if (kind.gaps && pick(0, 2) == 0) continue;
            request.links.push_back(
                {a, b, pick(1, 100) * 1'000'000, pick(1, 100) * 1'000'000, pick(0, kind.delays ? 300'000 : 10'000)});
        }
    }
    if (kind.scatter) request.exchanges.push_back(TensorExchange::scatter);
    return request;
}

}  // namespace chaos::plan::test
