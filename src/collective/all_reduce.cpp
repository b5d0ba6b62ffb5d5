#include "collective/all_reduce.h"

#include "base/assert.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

namespace chaos::collective {
namespace {

// Sums are made in pieces that stay in the first-level cache until they are encoded.
constexpr std::uint64_t piece_floats = 2048;
static_assert(piece_floats % encoding_block_floats == 0);

std::span<float> as_floats(std::span<std::byte> bytes) {
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

AllReduce::AllReduce(Transport& transport, BufferPool& pool, std::shared_ptr<const Schedule> schedule, ExchangeId id,
                     Vectors vectors)
    : transport_(transport), pool_(pool), schedule_(std::move(schedule)), id_(id), vectors_(std::move(vectors)) {
    CHAOS_ASSERT(vectors_.input.size() == schedule_->floats && vectors_.output.size() == schedule_->floats);
    CHAOS_ASSERT(vectors_.residual.empty() || vectors_.residual.size() == schedule_->floats);
    if (!fp32()) encoded_result_ = pool_.take(schedule_->result_bytes);
    trees_.resize(schedule_->branches.size());
    for (std::size_t i = 0; i < trees_.size(); ++i) {
        const Branch& branch = schedule_->branches[i];
        const std::uint32_t window = std::min(branch.window_chunks, branch.chunks);
        trees_[i].progress.resize(branch.chunks, Progress::open);
        trees_[i].staged.resize(window * branch.children.size());
        trees_[i].arrived.resize(window);
        results_missing_ += branch.chunks;
        // The padding behind a range is part of what others may be given.
        if (fp32()) continue;
        for (const Piece& piece : branch.pieces) {
            const std::uint64_t bytes = padded_bytes(schedule_->options.encoding, piece.floats.count);
            if (bytes > 0)
                std::memset(encoded_result_.get() + piece.first_byte + bytes - sizeof(float), 0, sizeof(float));
        }
    }
    if (fp32()) std::fill(vectors_.residual.begin(), vectors_.residual.end(), 0.0F);
}

void AllReduce::ready(std::size_t parts) {
    CHAOS_ASSERT(parts <= schedule_->parts());
    if (outcome_ || parts <= parts_ready_) return;
    const std::size_t before = std::exchange(parts_ready_, parts);
    std::uint32_t longest = 0;
    for (std::uint32_t tree = 0; tree < trees_.size(); ++tree)
        longest = std::max(longest, schedule_->chunks_of(tree, parts) - schedule_->chunks_of(tree, before));
    // All trees go on at once.
    for (std::uint32_t i = 0; i < longest; ++i) {
        for (std::uint32_t tree = 0; tree < trees_.size(); ++tree) {
            const std::uint32_t chunk = schedule_->chunks_of(tree, before) + i;
            if (chunk < schedule_->chunks_of(tree, parts) && may_contribute(tree, chunk)) contribute(tree, chunk);
        }
    }
    if (results_missing_ == 0 && !outcome_) end(Complete{.lost = lost_});
}

// All that this member's sum of an open chunk consists of is there, and whoever gets it has a place for it.
bool AllReduce::may_contribute(std::uint32_t tree, std::uint32_t chunk) const {
    const Branch& branch = schedule_->branches[tree];
    if (chunk >= schedule_->chunks_of(tree, parts_ready_)) return false;
    if (branch.children.empty()) return !branch.parent || in_window(tree, chunk);
    const std::vector<std::uint32_t>& arrived = trees_[tree].arrived;
    return in_window(tree, chunk) && arrived[chunk % arrived.size()] == branch.children.size();
}

std::variant<Place, Why> AllReduce::place_for(NodeId from, const ChunkHeader& header) {
    // Peers may go on for a while with what has been given up here.
    if (outcome_ && !std::holds_alternative<Complete>(*outcome_)) return Place{};
    if (const std::optional<Why> why = objection(from, header)) return refuse(from, header, *why);
    ++places_given_;
    if (header.down) {
        trees_[header.tree].progress[header.chunk] = Progress::arriving;
        return Place{Place::Verdict::take, result_place(header.tree, header.chunk)};
    }
    Staged& place = staged(from, header);
    place.buffer = pool_.take(schedule_->slot_bytes);
    return Place{Place::Verdict::take, {place.buffer.get(), header.bytes}};
}

Why AllReduce::refuse(NodeId from, const ChunkHeader& header, Why why) {
    if (why == Why::plan_differs && !outcome_ && neighbour(from)) end(Refused{{from, header, why}});
    return why;
}

std::optional<Why> AllReduce::objection(NodeId from, const ChunkHeader& header) const {
    if (header.plan != schedule_->hash) return Why::plan_differs;
    if (header.tree >= trees_.size()) return Why::no_such_tree;
    const Branch& branch = schedule_->branches[header.tree];
    if (header.chunk >= branch.chunks) return Why::no_such_chunk;
    if (header.bytes != schedule_->bytes_of(header.tree, header.chunk).count) return Why::wrong_size;
    const Progress progress = trees_[header.tree].progress[header.chunk];
    if (header.down) {
        if (branch.parent != from) return Why::not_from_there;
        if (progress == Progress::open) return Why::not_asked_for;
        return progress == Progress::sent ? std::nullopt : std::optional(Why::repeated);
    }
    const auto child = std::lower_bound(branch.children.begin(), branch.children.end(), from);
    if (child == branch.children.end() || *child != from) return Why::not_from_there;
    if (progress != Progress::open) return Why::repeated;
    if (!in_window(header.tree, header.chunk)) return Why::not_asked_for;
    const auto index = static_cast<std::size_t>(child - branch.children.begin());
    if (staged(header.tree, header.chunk, index).buffer != nullptr) return Why::repeated;
    return std::nullopt;
}

void AllReduce::arrived(NodeId from, const ChunkHeader& header) {
    CHAOS_ASSERT(places_given_ > 0);
    --places_given_;
    if (outcome_) return let_go(from, header);
    Tree& tree = trees_[header.tree];
    if (header.down) {
        CHAOS_ASSERT(tree.progress[header.chunk] == Progress::arriving);
        know(header.tree, header.chunk);
        return;
    }
    Staged& place = staged(from, header);
    CHAOS_ASSERT(place.buffer != nullptr && !place.arrived);
    place.arrived = true;
    ++tree.arrived[header.chunk % tree.arrived.size()];
    if (may_contribute(header.tree, header.chunk)) contribute(header.tree, header.chunk);
}

void AllReduce::dropped(NodeId from, const ChunkHeader& header) {
    CHAOS_ASSERT(places_given_ > 0);
    --places_given_;
    let_go(from, header);
}

// The place is free again; the same chunk may come once more.
void AllReduce::let_go(NodeId from, const ChunkHeader& header) {
    if (header.down) {
        trees_[header.tree].progress[header.chunk] = Progress::sent;
    } else {
        staged(from, header) = {};
    }
}

AllReduce::Staged& AllReduce::staged(std::uint32_t tree, std::uint32_t chunk, std::size_t child) {
    return const_cast<Staged&>(std::as_const(*this).staged(tree, chunk, child));
}

const AllReduce::Staged& AllReduce::staged(std::uint32_t tree, std::uint32_t chunk, std::size_t child) const {
    const std::size_t row = chunk % trees_[tree].arrived.size();
    return trees_[tree].staged[row * schedule_->branches[tree].children.size() + child];
}

AllReduce::Staged& AllReduce::staged(NodeId from, const ChunkHeader& header) {
    const std::vector<NodeId>& children = schedule_->branches[header.tree].children;
    const auto child = std::lower_bound(children.begin(), children.end(), from);
    CHAOS_ASSERT(child != children.end() && *child == from);
    return staged(header.tree, header.chunk, static_cast<std::size_t>(child - children.begin()));
}

bool AllReduce::in_window(std::uint32_t tree, std::uint32_t chunk) const {
    const std::uint32_t window = schedule_->branches[tree].window_chunks;
    return chunk < window || trees_[tree].progress[chunk - window] == Progress::known;
}

bool AllReduce::neighbour(NodeId node) const {
    return std::any_of(schedule_->branches.begin(), schedule_->branches.end(), [&](const Branch& branch) {
        return branch.parent == node || std::binary_search(branch.children.begin(), branch.children.end(), node);
    });
}

bool AllReduce::is_lost(NodeId peer) const {
    return std::find(lost_.begin(), lost_.end(), peer) != lost_.end();
}

// Whether something is still to come from the peer.
bool AllReduce::needs(NodeId peer) const {
    for (std::uint32_t tree = 0; tree < trees_.size(); ++tree) {
        const Branch& branch = schedule_->branches[tree];
        const auto child = std::lower_bound(branch.children.begin(), branch.children.end(), peer);
        const bool is_child = child != branch.children.end() && *child == peer;
        const auto index = static_cast<std::size_t>(child - branch.children.begin());
        if (branch.parent != peer && !is_child) continue;
        for (std::uint32_t chunk = 0; chunk < branch.chunks; ++chunk) {
            const Progress progress = trees_[tree].progress[chunk];
            if (branch.parent == peer && progress != Progress::known) return true;
            if (!is_child || progress != Progress::open) continue;
            if (!in_window(tree, chunk) || !staged(tree, chunk, index).arrived) return true;
        }
    }
    return false;
}

AllReduce::Awaited AllReduce::awaited() const {
    std::set<NodeId> sums;
    std::set<NodeId> results;
    for (std::uint32_t tree = 0; tree < trees_.size() && !outcome_; ++tree) {
        const Branch& branch = schedule_->branches[tree];
        for (std::uint32_t chunk = 0; chunk < branch.chunks; ++chunk) {
            const Progress progress = trees_[tree].progress[chunk];
            if (branch.parent && (progress == Progress::sent || progress == Progress::arriving))
                results.insert(*branch.parent);
            if (progress != Progress::open || !in_window(tree, chunk)) continue;
            for (std::size_t child = 0; child < branch.children.size(); ++child)
                if (!staged(tree, chunk, child).arrived) sums.insert(branch.children[child]);
        }
    }
    return {.sums = {sums.begin(), sums.end()}, .results = {results.begin(), results.end()}};
}

void AllReduce::peer_lost(NodeId peer) {
    if (outcome_ || is_lost(peer) || !neighbour(peer)) return;
    lost_.push_back(peer);
    if (needs(peer)) abandon();
}

void AllReduce::abandon() {
    if (outcome_) return;
    Interrupted interrupted{.lost = lost_, .known = {}};
    for (const Tree& tree : trees_) {
        std::vector<bool>& known = interrupted.known.emplace_back(tree.progress.size());
        for (std::size_t i = 0; i < known.size(); ++i) known[i] = tree.progress[i] == Progress::known;
    }
    end(std::move(interrupted));
}

void AllReduce::end(Outcome outcome) {
    CHAOS_ASSERT(!outcome_);
    outcome_ = std::move(outcome);
    // What is being received is written on.
    for (Tree& tree : trees_) {
        for (Staged& place : tree.staged) {
            if (place.arrived) place = {};
        }
    }
}

// All sums of the chunk are there: makes this member's, and passes it on.
void AllReduce::contribute(std::uint32_t tree, std::uint32_t chunk) {
    const Branch& branch = schedule_->branches[tree];
    const Range floats = schedule_->floats_of(tree, chunk);
    const std::uint64_t bytes = schedule_->bytes_of(tree, chunk).count;
    Buffer buffer;
    if (!branch.parent) {
        reduce(tree, chunk, result_place(tree, chunk));
    } else if (!fp32() || !branch.children.empty()) {
        // fp32: the first child's sum becomes the whole in place.
        buffer = fp32() ? staged(tree, chunk, 0).buffer : pool_.take(schedule_->slot_bytes);
        reduce(tree, chunk, {buffer.get(), bytes});
    }
    for (std::size_t child = 0; child < branch.children.size(); ++child) staged(tree, chunk, child) = {};
    trees_[tree].arrived[chunk % trees_[tree].arrived.size()] = 0;
    if (!branch.parent) return know(tree, chunk);
    trees_[tree].progress[chunk] = Progress::sent;
    if (buffer != nullptr) {
        const std::span<const std::byte> sum{buffer.get(), bytes};
        send(*branch.parent, tree, chunk, false, sum, std::move(buffer));
    } else {
        send(*branch.parent, tree, chunk, false, std::as_bytes(vectors_.input.subspan(floats.first, floats.count)),
             vectors_.owner);
    }
}

void AllReduce::reduce(std::uint32_t tree, std::uint32_t chunk, std::span<std::byte> sum) {
    const Range floats = schedule_->floats_of(tree, chunk);
    for (std::uint64_t first = 0; first < floats.count; first += piece_floats) {
        const std::uint64_t count = std::min(piece_floats, floats.count - first);
        const Encoding encoding = schedule_->options.encoding;
        reduce_piece(tree, chunk, first, vectors_.input.subspan(floats.first + first, count),
                     sum.subspan(encoded_bytes(encoding, first), encoded_bytes(encoding, count)));
    }
}

// `own` and `sum` are the piece of the chunk that begins with its float `first`.
void AllReduce::reduce_piece(std::uint32_t tree, std::uint32_t chunk, std::uint64_t first, std::span<const float> own,
                             std::span<std::byte> sum) {
    const Encoding encoding = schedule_->options.encoding;
    const std::size_t children = schedule_->branches[tree].children.size();
    alignas(64) std::array<float, piece_floats> scratch;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const std::span<float> place = fp32() ? as_floats(sum) : std::span(scratch).first(own.size());
    std::span<const float> total = own;
    for (std::size_t child = 0; child < children; ++child) {
        const std::byte* theirs = staged(tree, chunk, child).buffer.get() + encoded_bytes(encoding, first);
        add_decoded(encoding, total, {theirs, sum.size()}, place);
        total = place;
    }
    if (fp32()) {
        if (children == 0) encode(encoding, own, sum);
        return;
    }
    encode(encoding, total, sum);
    const bool root = !schedule_->branches[tree].parent;
    const std::uint64_t begin = schedule_->floats_of(tree, chunk).first + first;
    if (root) decode(encoding, sum, vectors_.output.subspan(begin, own.size()));
    if (vectors_.residual.empty()) return;
    const std::span<float> residual = vectors_.residual.subspan(begin, own.size());
    decode(encoding, sum, residual);
    left_out(total, residual, residual);
}

std::vector<Range> AllReduce::known() const {
    std::vector<Range> chunks;
    for (std::uint32_t tree = 0; tree < trees_.size(); ++tree)
        for (std::uint32_t chunk = 0; chunk < schedule_->branches[tree].chunks; ++chunk)
            if (trees_[tree].progress[chunk] == Progress::known) chunks.push_back(schedule_->floats_of(tree, chunk));
    std::ranges::sort(chunks, {}, &Range::first);
    std::vector<Range> ranges;
    for (const Range& chunk : chunks) {
        if (!ranges.empty() && ranges.back().first + ranges.back().count == chunk.first) {
            ranges.back().count += chunk.count;
        } else {
            ranges.push_back(chunk);
        }
    }
    return ranges;
}

void AllReduce::know(std::uint32_t tree, std::uint32_t chunk) {
    const Branch& branch = schedule_->branches[tree];
    const std::span<std::byte> bytes = result_place(tree, chunk);
    trees_[tree].progress[chunk] = Progress::known;
    for (const NodeId child : branch.children) send(child, tree, chunk, true, bytes, result_owner());
    if (branch.parent && !fp32()) {
        const Range floats = schedule_->floats_of(tree, chunk);
        decode(schedule_->options.encoding, bytes, vectors_.output.subspan(floats.first, floats.count));
    }
    --results_missing_;
    const std::uint64_t next = std::uint64_t{chunk} + branch.window_chunks;
    if (branch.parent && branch.children.empty() && next < schedule_->chunks_of(tree, parts_ready_))
        contribute(tree, static_cast<std::uint32_t>(next));
    if (results_missing_ == 0) end(Complete{.lost = lost_});
}

void AllReduce::send(NodeId to, std::uint32_t tree, std::uint32_t chunk, bool down, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> owner) {
    if (is_lost(to)) return;
    transport_.send(to,
                    {.exchange = id_,
                     .plan = schedule_->hash,
                     .tree = tree,
                     .chunk = chunk,
                     .bytes = static_cast<std::uint32_t>(bytes.size()),
                     .down = down},
                    bytes, std::move(owner));
}

std::span<std::byte> AllReduce::result_place(std::uint32_t tree, std::uint32_t chunk) {
    if (fp32()) {
        const Range floats = schedule_->floats_of(tree, chunk);
        return std::as_writable_bytes(vectors_.output.subspan(floats.first, floats.count));
    }
    const Range bytes = schedule_->bytes_of(tree, chunk);
    return {encoded_result_.get() + bytes.first, bytes.count};
}

std::shared_ptr<const void> AllReduce::result_owner() const {
    return fp32() ? vectors_.owner : std::shared_ptr<const void>(encoded_result_);
}

EncodedResult AllReduce::result() const {
    CHAOS_ASSERT(outcome_ && std::holds_alternative<Complete>(*outcome_));
    if (fp32()) return {std::as_bytes(vectors_.output), result_owner()};
    return {{encoded_result_.get(), schedule_->result_bytes}, result_owner()};
}

}  // namespace chaos::collective
