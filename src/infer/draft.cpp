#include "infer/draft.h"

#include <algorithm>

namespace chaos::infer {
namespace {

constexpr std::size_t longest_match = 4;
constexpr std::size_t shortest_match = 2;
// How far back is looked: enough for a page, and quick.
constexpr std::size_t max_distance = 8192;
constexpr std::size_t rest_after_failure = 16;

// Where the last `length` tokens stood before, the latest of such places: the position behind them, or 0.
std::size_t find_before(std::span<const text::TokenId> tokens, std::size_t length) {
    if (tokens.size() <= length) return 0;
    const auto last = tokens.last(length);
    const std::size_t oldest = tokens.size() > max_distance ? tokens.size() - max_distance : 0;
    for (std::size_t at = tokens.size() - length; at-- > oldest;)
        if (std::equal(last.begin(), last.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at))) return at + length;
    return 0;
}

}  // namespace

std::vector<text::TokenId> Drafter::guess(std::span<const text::TokenId> tokens, std::size_t room) {
    if (rest_ > 0) {
        --rest_;
        return {};
    }
    for (std::size_t length = longest_match; length >= shortest_match; --length) {
        const std::size_t at = find_before(tokens, length);
        if (at == 0) continue;
        const auto follows = tokens.subspan(at, std::min({limit_, room, tokens.size() - at}));
        return {follows.begin(), follows.end()};
    }
    return {};
}

void Drafter::learn(std::size_t guessed, std::size_t right) {
    if (right == guessed) {
        limit_ = std::min(max_draft, limit_ * 2);
    } else if (right == 0) {
        if (limit_ == 1) rest_ = rest_after_failure;
        limit_ = std::max<std::size_t>(1, limit_ / 2);
    }
}

}  // namespace chaos::infer
