// A set of strings, and the longest of them that a text continues with.
#pragma once

#include "text/tokenizer.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace chaos::text {

class Trie {
public:
    struct Match {
        std::size_t bytes;
        TokenId id;
    };

    // Of two tokens with the same content the first keeps it. An empty content is never found.
    void add(std::string_view content, TokenId id);
    [[nodiscard]] bool empty() const { return nodes_.size() == 1; }
    // The first place at or after `from` where one of the strings may begin, or the text's end.
    [[nodiscard]] std::size_t next_start(std::string_view text, std::size_t from) const;
    [[nodiscard]] std::optional<Match> longest_at(std::string_view text, std::size_t offset) const;

private:
    struct Node {
        TokenId id = -1;
        std::uint32_t first_child = 0;  // 0: none
        std::uint32_t sibling = 0;      // 0: none
        char byte = 0;
    };
    [[nodiscard]] std::uint32_t child(std::uint32_t node, char byte) const;

    std::vector<Node> nodes_ = {Node{}};
    std::array<bool, 256> starts_{};
};

}  // namespace chaos::text
