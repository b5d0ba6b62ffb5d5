#include "collective/schedule.h"

#include "base/hash.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

namespace chaos::collective {
namespace {

// Named by the hash: members that cut or add differently refuse each other's chunks.
constexpr std::uint64_t engine_version = 3;

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

// Together they are the vector, each float once.
Result<void> check_parts(std::span<const Range> parts, std::uint64_t floats) {
    std::vector<Range> sorted(parts.begin(), parts.end());
    std::ranges::sort(sorted, {}, &Range::first);
    std::uint64_t at = 0;
    for (const Range& part : sorted) {
        if (part.first != at || part.count == 0 || part.count > floats - at)
            return Error{"the parts of the vector leave gaps, or overlap"};
        at += part.count;
    }
    if (at != floats) return Error{"the parts of the vector are not all of it"};
    return {};
}

// In proportion to the longest tree's, but enough for a chunk on each hop of a short way.
std::uint32_t window_of(const plan::SyncTree& tree, std::uint64_t longest, const ScheduleOptions& options) {
    constexpr std::uint32_t least = 4;
    const std::uint64_t part = plan::mul_div(options.window_chunks, tree.bytes, longest);
    return std::min(options.window_chunks, std::max(least, static_cast<std::uint32_t>(part)));
}

// The one that this chunk is of.
const Piece& piece_of(const Branch& branch, std::uint32_t chunk) {
    const auto after = std::ranges::upper_bound(branch.pieces, chunk, {}, &Piece::first_chunk);
    return *(after - 1);
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
    words.push_back(options.parts.size());
    for (const Range& part : options.parts) words.insert(words.end(), {part.first, part.count});
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

std::uint32_t Schedule::chunks_of(std::uint32_t tree, std::size_t parts) const {
    const Branch& branch = branches[tree];
    return parts < branch.pieces.size() ? branch.pieces[parts].first_chunk : branch.chunks;
}

Range Schedule::floats_of(std::uint32_t tree, std::uint32_t chunk) const {
    const Piece& piece = piece_of(branches[tree], chunk);
    const std::uint64_t begin = (chunk - piece.first_chunk) * chunk_floats(options);
    return {piece.floats.first + begin, std::min(chunk_floats(options), piece.floats.count - begin)};
}

Range Schedule::bytes_of(std::uint32_t tree, std::uint32_t chunk) const {
    const Piece& piece = piece_of(branches[tree], chunk);
    const std::uint64_t before = encoded_bytes(options.encoding, (chunk - piece.first_chunk) * chunk_floats(options));
    return {piece.first_byte + before, encoded_bytes(options.encoding, floats_of(tree, chunk).count)};
}

std::uint64_t Schedule::max_staging_bytes() const {
    std::uint64_t slots = 0;
    for (const Branch& branch : branches) {
        const std::uint64_t window = std::min(branch.window_chunks, branch.chunks);
        slots += window * (branch.children.size() + (branch.parent ? 1 : 0));
    }
    return slots * slot_bytes;
}

std::uint64_t padded_bytes(Encoding encoding, std::uint64_t floats) {
    return (encoded_bytes(encoding, floats) + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

std::uint32_t fit_chunk_bytes(const plan::SyncRequest& request) {
    constexpr std::uint64_t least = 16U << 10;
    constexpr std::uint64_t most = 256U << 10;
    constexpr std::uint64_t chunks = 1024;         // a way of a few hops through a few trees is a percent or two then
    constexpr std::uint64_t handled_per_s = 4000;  // a quarter of a millisecond each
    std::uint64_t fastest = 0;
    for (const plan::SyncLink& link : request.links)
        fastest = std::max({fastest, link.a_to_b_bytes_per_s, link.b_to_a_bytes_per_s});
    const std::uint64_t enough = std::max(request.bytes / chunks, fastest / handled_per_s);
    return static_cast<std::uint32_t>(std::clamp(std::bit_floor(enough), least, most));
}

std::uint32_t fit_window_chunks(const plan::SyncRequest& request, const plan::SyncPlan& plan) {
    constexpr std::uint64_t queues_ns = 40'000'000;  // where chunks wait on their way
    constexpr std::uint64_t least = 8;
    constexpr std::uint64_t most_bytes = std::uint64_t{16} << 20;  // to stage, for each child
    std::uint64_t longest = 0;
    for (const plan::SyncTree& tree : plan.trees) longest = std::max(longest, tree.bytes);
    const std::uint64_t chunks = (longest + request.chunk_bytes - 1) / request.chunk_bytes;
    if (chunks <= least || request.links.empty()) return static_cast<std::uint32_t>(least);
    const std::uint64_t time = plan::predict_sync_ns(request, plan.trees);
    plan::SyncRequest load = request;
    load.chunk_bytes = 1;
    for (plan::SyncLink& link : load.links) link.delay_ns = 0;
    const std::uint64_t way = time - std::min(time, plan::predict_sync_ns(load, plan.trees));
    const std::uint64_t covered = std::min(time, 2 * way + queues_ns);
    const std::uint64_t window = plan::mul_div(chunks, covered, std::max<std::uint64_t>(time, 1)) + 1;
    const std::uint64_t most = std::clamp(most_bytes / request.chunk_bytes, least, std::uint64_t{max_window_chunks});
    return static_cast<std::uint32_t>(std::clamp(window, least, most));
}

std::vector<std::vector<Range>> ranges_of(const plan::SyncPlan& plan, std::span<const Range> parts) {
    constexpr std::uint64_t align_floats = 16;
    std::vector<std::vector<Range>> ranges;
    std::uint64_t total = 0;
    for (const plan::SyncTree& tree : plan.trees) total += tree.bytes;
    for (const plan::SyncTree& tree : plan.trees) {
        std::vector<Range>& of_tree = ranges.emplace_back();
        if (parts.empty()) of_tree.push_back({tree.first_byte / sizeof(float), tree.bytes / sizeof(float)});
        for (const Range& part : parts) {
            const auto cut = [&](std::uint64_t byte) {
                if (byte == total) return part.count;
                return plan::mul_div(part.count, byte, total) / align_floats * align_floats;
            };
            const std::uint64_t begin = cut(tree.first_byte);
            of_tree.push_back({part.first + begin, cut(tree.first_byte + tree.bytes) - begin});
        }
    }
    return ranges;
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

    std::uint64_t longest = 0;
    for (const plan::SyncTree& tree : plan.trees) longest = std::max(longest, tree.bytes);

    Schedule schedule;
    schedule.self = self;
    schedule.options = options;
    schedule.hash = hash_of(plan, options, members);
    for (const plan::SyncTree& tree : plan.trees) schedule.floats += tree.bytes / sizeof(float);
    if (!options.parts.empty()) CHAOS_CHECK(check_parts(options.parts, schedule.floats));
    const std::vector<std::vector<Range>> ranges = ranges_of(plan, options.parts);
    for (std::size_t t = 0; t < plan.trees.size(); ++t) {
        const plan::SyncTree& tree = plan.trees[t];
        Branch& branch = schedule.branches.emplace_back();
        branch.window_chunks = window_of(tree, longest, options);
        for (const Range& floats : ranges[t]) {
            const std::uint64_t chunks =
                branch.chunks + (floats.count + chunk_floats(options) - 1) / chunk_floats(options);
            if (chunks > UINT32_MAX) return Error{"a tree of the sync plan has too many chunks; take longer ones"};
            // fp32 is encoded as it is, where it is.
            const bool plain = options.encoding == Encoding::fp32;
            branch.pieces.push_back({.floats = floats,
                                     .first_chunk = branch.chunks,
                                     .first_byte = plain ? floats.first * sizeof(float) : schedule.result_bytes});
            branch.chunks = static_cast<std::uint32_t>(chunks);
            schedule.result_bytes += padded_bytes(options.encoding, floats.count);
            schedule.slot_bytes = std::max(
                schedule.slot_bytes, encoded_bytes(options.encoding, std::min(chunk_floats(options), floats.count)));
        }
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
            const Range bytes = schedule.bytes_of(tree, chunk);
            const Range floats = schedule.floats_of(tree, chunk);
            decode(schedule.options.encoding, encoded.subspan(bytes.first, bytes.count),
                   result.subspan(floats.first, floats.count));
        }
    }
    return {};
}

}  // namespace chaos::collective
