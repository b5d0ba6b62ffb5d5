#include "text/trie.h"

namespace chaos::text {

std::uint32_t Trie::child(std::uint32_t node, char byte) const {
    std::uint32_t next = nodes_[node].first_child;
    while (next != 0 && nodes_[next].byte != byte) next = nodes_[next].sibling;
    return next;
}

void Trie::add(std::string_view content, TokenId id) {
    if (content.empty()) return;
    std::uint32_t node = 0;
    for (const char byte : content) {
        std::uint32_t next = child(node, byte);
        if (next == 0) {
            next = static_cast<std::uint32_t>(nodes_.size());
            nodes_.push_back({-1, 0, nodes_[node].first_child, byte});
            nodes_[node].first_child = next;
        }
        node = next;
    }
    if (nodes_[node].id < 0) nodes_[node].id = id;
    starts_[static_cast<unsigned char>(content.front())] = true;
}

std::size_t Trie::next_start(std::string_view text, std::size_t from) const {
    while (from < text.size() && !starts_[static_cast<unsigned char>(text[from])]) ++from;
    return from;
}

std::optional<Trie::Match> Trie::longest_at(std::string_view text, std::size_t offset) const {
    std::optional<Match> longest;
    std::uint32_t node = 0;
    for (std::size_t at = offset; at < text.size(); ++at) {
        node = child(node, text[at]);
        if (node == 0) break;
        if (nodes_[node].id >= 0) longest = Match{at + 1 - offset, nodes_[node].id};
    }
    return longest;
}

}  // namespace chaos::text
