#include "text/bpe.h"

#include "text/utf8.h"

#include <algorithm>
#include <limits>

namespace chaos::text {
namespace {

constexpr std::size_t max_kept_symbols = 1U << 20;

}  // namespace

void Bpe::encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const {
    if (word.empty()) return;
    if (word.size() <= WordCache::max_word_bytes) {
        encode_short(word, workspace, ids);
    } else if (ignore_merges_) {
        encode_whole(word, workspace, ids);
    } else {
        encode_parts(word, workspace, ids);
    }
}

void Bpe::encode_short(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const {
    if (const auto known = workspace.cache.find(word)) {
        ids.insert(ids.end(), known->begin(), known->end());
        return;
    }
    const std::size_t start = ids.size();
    encode_whole(word, workspace, ids);
    workspace.cache.put(word, std::span(ids).subspan(start));
}

// A SentencePiece-style model takes a whole text for one word. Where no merge can ever join two characters that stand
// side by side, the text may be cut between them without changing the result; in practice that is before most spaces.
// Next to a character that is no token it is never cut: unknown characters may fuse.
void Bpe::encode_parts(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const {
    const auto encode_part = [&](std::string_view part) {
        if (part.size() <= WordCache::max_word_bytes) {
            encode_short(part, workspace, ids);
        } else {
            encode_whole(part, workspace, ids);
        }
    };
    std::size_t begin = 0;
    TokenId previous = -1;
    for (std::size_t at = 0; at < word.size();) {
        const Character character = character_at(word, at);
        const TokenId id = id_of_character(character.code);
        if (previous >= 0 && id >= 0 && !may_join(previous, id)) {
            encode_part(word.substr(begin, at - begin));
            begin = at;
        }
        previous = id;
        at += character.bytes;
    }
    encode_part(word.substr(begin));
}

void Bpe::encode_whole(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const {
    if (ignore_merges_) {
        if (const std::optional<TokenId> id = vocabulary_.id_of(word)) {
            ids.push_back(*id);
            return;
        }
    }
    start_symbols(word, workspace);
    if (workspace.symbols.empty()) return;
    merge_symbols(workspace);
    for (std::int32_t at = 0; at >= 0; at = workspace.symbols[static_cast<std::size_t>(at)].next) {
        ids.push_back(workspace.symbols[static_cast<std::size_t>(at)].id);
    }
    // A giant word must not hold its memory for good.
    if (workspace.symbols.size() > max_kept_symbols) {
        workspace.symbols = {};
        workspace.queue = {};
    }
}

void Bpe::start_symbols(std::string_view word, Workspace& workspace) const {
    auto& symbols = workspace.symbols;
    symbols.clear();
    const auto add = [&](TokenId id) {
        const auto index = static_cast<std::int32_t>(symbols.size());
        CHAOS_ASSERT(index < std::numeric_limits<std::int32_t>::max());
        symbols.push_back({id, index - 1, index + 1});
    };
    // The reference implementation holds an unknown character back until a known one follows (so that more of them can
    // fuse with it), even while it falls back to bytes for others; the order of ids follows from that.
    bool unknown_is_held = false;
    for (std::size_t at = 0; at < word.size();) {
        const Character character = character_at(word, at);
        const std::string_view bytes = word.substr(at, character.bytes);
        at += character.bytes;
        const TokenId id = id_of_character(character.code);
        if (id >= 0) {
            if (unknown_is_held) add(*unknown_);
            unknown_is_held = false;
            add(id);
            continue;
        }
        const auto id_of_byte = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
        if (byte_fallback_ && std::ranges::all_of(bytes, [&](char byte) { return id_of_byte(byte) >= 0; })) {
            for (const char byte : bytes) add(id_of_byte(byte));
            continue;
        }
        if (!unknown_) continue;
        if (unknown_is_held && !fuse_unknown_) add(*unknown_);
        unknown_is_held = true;
    }
    if (unknown_is_held) add(*unknown_);
    if (!symbols.empty()) symbols.back().next = -1;
}

void Bpe::merge_symbols(Workspace& workspace) const {
    auto& symbols = workspace.symbols;
    auto& queue = workspace.queue;
    using Candidate = Workspace::Candidate;
    constexpr TokenId gone = -1;
    const auto symbol = [&](std::int32_t at) -> auto& { return symbols[static_cast<std::size_t>(at)]; };
    const auto is_later = [](const Candidate& a, const Candidate& b) { return a.order > b.order; };
    // The merge of the symbol there with the next one, if there is any.
    const auto candidate_at = [&](std::int32_t at) -> std::optional<Candidate> {
        const std::int32_t next = symbol(at).next;
        if (next < 0) return std::nullopt;
        const MergeTable::Merge* merge = merges_.find(symbol(at).id, symbol(next).id);
        if (merge == nullptr) return std::nullopt;
        return Candidate{std::uint64_t{merge->rank} << 32 | static_cast<std::uint32_t>(at), merge->id};
    };

    queue.clear();
    for (std::size_t at = 0; at < symbols.size(); ++at) {
        if (const auto candidate = candidate_at(static_cast<std::int32_t>(at))) queue.push_back(*candidate);
    }
    std::ranges::make_heap(queue, is_later);
    const auto propose = [&](std::int32_t at) {
        if (const auto candidate = candidate_at(at)) {
            queue.push_back(*candidate);
            std::ranges::push_heap(queue, is_later);
        }
    };
    while (!queue.empty()) {
        std::ranges::pop_heap(queue, is_later);
        const Candidate top = queue.back();
        queue.pop_back();
        // Another merge may have taken either symbol since. As in the reference implementation, a candidate still
        // counts when what stands there now merges into the same token.
        const std::int32_t position = top.position();
        if (symbol(position).id == gone) continue;
        const auto now = candidate_at(position);
        if (!now || now->id != top.id) continue;

        auto& left = symbol(position);
        auto& right = symbol(left.next);
        left.id = top.id;
        left.next = right.next;
        right.id = gone;
        if (left.next >= 0) symbol(left.next).previous = position;
        if (left.previous >= 0) propose(left.previous);
        propose(position);
    }
}

}  // namespace chaos::text
