// The best shard plan by looking at all of them, for instances small enough, and random instances.
#pragma once

#include "plan/shard_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace chaos::plan::test {

inline std::uint64_t up(u128 a, u128 b) {
    return static_cast<std::uint64_t>((a + b - 1) / b);
}

// Enumerates who sends how many shards to whom.
class ShardOracle {
public:
    explicit ShardOracle(const ShardRequest& request) : request_(request) {}

    // The earliest time over all sizes; none where nothing fits.
    std::optional<std::uint64_t> best_ns() {
        for (const std::uint64_t size : request_.shard_sizes) try_size(size);
        return best_;
    }

private:
    struct Way {
        std::size_t joiner;
        const ShardDonor* donor;
        const ShardLink* link;
    };

    void try_size(std::uint64_t size) {
        size_ = size;
        wanted_.clear();
        ways_.clear();
        ingress_ns_ = 0;
        std::uint64_t all_bytes = 0;
        for (std::size_t j = 0; j < request_.joiners.size(); ++j) {
            const ShardJoiner& joiner = request_.joiners[j];
            std::uint64_t bytes = 0;
            std::uint64_t shards = 0;
            for (std::uint64_t at = 0; at < request_.state_bytes; at += size) {
                const std::uint64_t end = std::min(at + size, request_.state_bytes);
                if (holds(joiner, at, end)) continue;
                ++shards;
                bytes += end - at;
            }
            wanted_.push_back(shards);
            all_bytes += bytes;
            if (joiner.ingress_bytes_per_s != unlimited && bytes > 0) {
                ingress_ns_ = std::max(ingress_ns_, up(u128{bytes} * ns_per_s, joiner.ingress_bytes_per_s));
            }
            for (const ShardLink& link : joiner.links) {
                for (const ShardDonor& donor : request_.donors) {
                    if (donor.id == link.donor && link.bytes_per_s > 0 && donor.egress_bytes_per_s > 0) {
                        ways_.push_back({j, &donor, &link});
                    }
                }
            }
        }
        limits_.clear();
        for (const ShardDonor& donor : request_.donors) {
            limits_[donor.id] = donor.limit_bytes >= all_bytes ? unlimited : donor.limit_bytes / size;
        }
        sent_.clear();
        extend(0, ingress_ns_);
    }

    static bool holds(const ShardJoiner& joiner, std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t at = begin; at < end; ++at) {
            if (std::none_of(joiner.held.begin(), joiner.held.end(),
                             [&](const ByteRange& h) { return at >= h.first && at < h.first + h.bytes; })) {
                return false;
            }
        }
        return true;
    }

    // NOLINTNEXTLINE(misc-no-recursion)
    void extend(std::size_t way, std::uint64_t ns) {
        if (best_ && ns >= *best_) return;
        if (way == ways_.size()) {
            if (std::any_of(wanted_.begin(), wanted_.end(), [](auto w) { return w != 0; })) return;
            best_ = ns;
            return;
        }
        const Way& w = ways_[way];
        std::uint64_t& wanted = wanted_[w.joiner];
        std::uint64_t& sent = sent_[w.donor->id];
        const std::uint64_t most = wanted;
        for (std::uint64_t n = 0; n <= most && sent + n <= limits_[w.donor->id]; ++n) {
            std::uint64_t by = ns;
            if (n > 0) {
                const u128 bytes = u128{n} * size_;
                by = std::max(by,
                              w.link->delay_ns + n * w.donor->overhead_ns + up(bytes * ns_per_s, w.link->bytes_per_s));
                if (w.donor->egress_bytes_per_s != unlimited) {
                    by = std::max(by, up(u128{sent + n} * size_ * ns_per_s, w.donor->egress_bytes_per_s));
                }
            }
            wanted -= n;
            sent += n;
            extend(way + 1, by);
            wanted += n;
            sent -= n;
        }
    }

    const ShardRequest& request_;
    std::uint64_t size_ = 0;
    std::vector<std::uint64_t> wanted_;
    std::vector<Way> ways_;
    std::map<std::uint64_t, std::uint64_t> limits_;
    std::map<std::uint64_t, std::uint64_t> sent_;
    std::uint64_t ingress_ns_ = 0;
    std::optional<std::uint64_t> best_;
};

// Few shards of few bytes, rates that make nanoseconds matter, and now and then limits, caps and partial states.
inline ShardRequest random_shard_request(std::mt19937_64& random, bool several_joiners) {
    const auto below = [&](std::uint64_t n) { return random() % n; };
    // Half of the time 0. (The order in which factors are computed is the compiler's choice: one draw at a time.)
    const auto or_zero = [&](std::uint64_t n) {
        const std::uint64_t value = below(n);
        return below(2) == 0 ? 0 : value;
    };
    const auto sometimes = [&](std::uint64_t value) { return below(3) == 0 ? value : unlimited; };
    ShardRequest request;
    request.shard_sizes.assign(1, 1 + below(4));
    for (std::uint64_t i = below(3); i > 0; --i)
        request.shard_sizes.push_back(request.shard_sizes.back() * (2 + below(2)));
    const std::uint64_t most = several_joiners ? 5 : 9;
    request.state_bytes = 1 + below(request.shard_sizes.front() * most);
    const std::uint64_t donors = 1 + below(several_joiners ? 3 : 4);
    for (std::uint64_t i = 0; i < donors; ++i) {
        ShardDonor& donor = request.donors.emplace_back();
        donor.id = 100 - 7 * i;
        donor.overhead_ns = or_zero(400'000'000);
        donor.limit_bytes = sometimes(below(request.state_bytes + 3));
        donor.egress_bytes_per_s = sometimes(1 + below(40));
    }
    const std::uint64_t joiners = several_joiners ? 2 + below(2) : 1;
    for (std::uint64_t j = 0; j < joiners; ++j) {
        ShardJoiner& joiner = request.joiners.emplace_back();
        joiner.id = 1 + j;
        joiner.ingress_bytes_per_s = sometimes(1 + below(60));
        while (below(3) == 0) {
            const std::uint64_t first = below(request.state_bytes);
            joiner.held.push_back({first, 1 + below(request.state_bytes - first)});
        }
        for (const ShardDonor& donor : request.donors) {
            if (below(6) == 0) continue;
            joiner.links.push_back({donor.id, below(20), or_zero(1'000'000'000)});
        }
    }
    return request;
}

}  // namespace chaos::plan::test
