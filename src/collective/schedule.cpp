#include "collective/schedule.h"

#include "base/hash.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace chaos::collective {
namespace {

// Named by the hash: members that cut or add differently refuse each other's chunks.
constexpr std::uint64_t engine_version = 1;

std::uint64_t chunk_floats(const ScheduleOptions& options) {
    return options.chunk_bytes / sizeof(float);
}

Result<void> check_options(const ScheduleOptions& options) {
    const std::uint64_t block_bytes = encoding_block_floats * sizeof(float);
    if (options.chunk_bytes == 0 || options.chunk_bytes % block_bytes != 0 || options.chunk_bytes > max_chunk_bytes) {
        return Error{"chunks must be multiples of " + std::to_string(block_bytes) + " bytes, at most " +
                     std::to_string(max_chunk_bytes) + "; these are " + std::to_string(options.chunk_bytes)};
    }
    if (options.window_chunks == 0 || options.window_chunks > max_window_chunks) {
        return Error{"a window has 1 to " + std::to_string(max_window_chunks) + " chunks, not " +
                     std::to_string(options.window_chunks)};
    }
    return {};
}

// Every member reaches the one root.
bool is_rooted_tree(const std::vector<std::uint32_t>& parent) {
    const std::size_t n = parent.size();
    std::vector<bool> reaches(n);
    std::size_t roots = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (parent[i] >= n) return false;
        if (parent[i] == i) {
            ++roots;
            reaches[i] = true;
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        std::vector<std::size_t> way;
        std::size_t at = i;
        while (!reaches[at] && way.size() <= n) {
            way.push_back(at);
            at = parent[at];
        }
        if (!reaches[at]) return false;
        for (const std::size_t passed : way) reaches[passed] = true;
    }
    return roots == 1;
}

Result<void> check_plan(const plan::SyncPlan& plan, std::size_t members) {
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < plan.trees.size(); ++i) {
        const plan::SyncTree& tree = plan.trees[i];
        const std::string name = "tree " + std::to_string(i) + " of the sync plan ";
        if (tree.first_byte != at || tree.bytes == 0) return Error{name + "leaves a gap"};
        if (tree.bytes % sizeof(float) != 0) return Error{name + "cuts a float in two"};
        if (tree.parent.size() != members || !is_rooted_tree(tree.parent))
            return Error{name + "is no tree over the " + std::to_string(members) + " members"};
        at += tree.bytes;
    }
    return {};
}

std::uint64_t hash_of(const plan::SyncPlan& plan, const ScheduleOptions& options, std::span<const NodeId> members) {
    std::vector<std::uint64_t> words{
        engine_version,        plan.hash,   static_cast<std::uint64_t>(options.encoding), options.chunk_bytes,
        options.window_chunks, options.view};
    // In the order of the nodes, however the members are listed.
    std::vector<std::uint32_t> order(members.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return members[a] < members[b]; });
    for (const std::uint32_t member : order) words.insert(words.end(), {members[member].high, members[member].low});
    for (const plan::SyncTree& tree : plan.trees) {
        words.push_back(tree.bytes);
        for (const std::uint32_t member : order) {
            const NodeId parent = members[tree.parent[member]];
            words.insert(words.end(), {parent.high, parent.low});
        }
    }
    return xxh3(std::as_bytes(std::span(words)));
}

}  // namespace

Schedule::Range Schedule::floats_of(std::uint32_t tree, std::uint32_t chunk) const {
    const Branch& branch = branches[tree];
    const std::uint64_t begin = chunk * chunk_floats(options);
    return {branch.first_float + begin, std::min(chunk_floats(options), branch.floats - begin)};
}

Schedule::Range Schedule::bytes_of(std::uint32_t tree, std::uint32_t chunk) const {
    const std::uint64_t before = encoded_bytes(options.encoding, chunk * chunk_floats(options));
    return {branches[tree].first_byte + before, encoded_bytes(options.encoding, floats_of(tree, chunk).count)};
}

std::uint64_t Schedule::max_staging_bytes() const {
    std::uint64_t slots = 0;
    for (const Branch& branch : branches) {
        const std::uint64_t window = std::min(options.window_chunks, branch.chunks);
        slots += window * (branch.children.size() + (branch.parent ? 1 : 0));
    }
    return slots * slot_bytes;
}

Result<Schedule> make_schedule(const plan::SyncPlan& plan, std::span<const NodeId> members, NodeId self,
                               const ScheduleOptions& options) {
    CHAOS_CHECK(check_options(options));
    CHAOS_CHECK(check_plan(plan, members.size()));
    std::vector<NodeId> sorted(members.begin(), members.end());
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        return Error{"a node takes part in the exchange twice"};
    const auto found = std::find(members.begin(), members.end(), self);
    if (found == members.end()) return Error{"this node takes no part in the exchange"};
    const auto own = static_cast<std::uint32_t>(found - members.begin());

    Schedule schedule;
    schedule.self = self;
    schedule.options = options;
    schedule.hash = hash_of(plan, options, members);
    for (const plan::SyncTree& tree : plan.trees) {
        Branch& branch = schedule.branches.emplace_back();
        branch.first_float = schedule.floats;
        branch.floats = tree.bytes / sizeof(float);
        const std::uint64_t chunks = (branch.floats + chunk_floats(options) - 1) / chunk_floats(options);
        if (chunks > UINT32_MAX) return Error{"a tree of the sync plan has too many chunks; take longer ones"};
        branch.chunks = static_cast<std::uint32_t>(chunks);
        branch.first_byte = schedule.result_bytes;
        // Chunks hold whole blocks and ranges are padded, so that every chunk is aligned as a float is.
        const std::uint64_t bytes = encoded_bytes(options.encoding, branch.floats);
        schedule.result_bytes += (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
        schedule.floats += branch.floats;
        schedule.slot_bytes = std::max(schedule.slot_bytes,
                                       encoded_bytes(options.encoding, std::min(chunk_floats(options), branch.floats)));
        if (tree.parent[own] != own) branch.parent = members[tree.parent[own]];
        for (std::uint32_t i = 0; i < members.size(); ++i) {
            if (i != own && tree.parent[i] == own) branch.children.push_back(members[i]);
        }
        std::sort(branch.children.begin(), branch.children.end());
    }
    return schedule;
}

Result<void> decode_result(const Schedule& schedule, std::span<const std::byte> encoded, std::span<float> result) {
    if (encoded.size() != schedule.result_bytes || result.size() != schedule.floats) {
        return Error{"the result of " + std::to_string(schedule.floats) + " floats has " +
                     std::to_string(schedule.result_bytes) + " bytes; these are " + std::to_string(encoded.size())};
    }
    for (std::uint32_t tree = 0; tree < schedule.branches.size(); ++tree) {
        for (std::uint32_t chunk = 0; chunk < schedule.branches[tree].chunks; ++chunk) {
            const Schedule::Range bytes = schedule.bytes_of(tree, chunk);
            const Schedule::Range floats = schedule.floats_of(tree, chunk);
            decode(schedule.options.encoding, encoded.subspan(bytes.first, bytes.count),
                   result.subspan(floats.first, floats.count));
        }
    }
    return {};
}

}  // namespace chaos::collective
