#include "text/word_cache.h"

#include <functional>

namespace chaos::text {
namespace {

std::uint32_t hash_of(std::string_view word) {
    const std::size_t hash = std::hash<std::string_view>{}(word);
    return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

}  // namespace

std::size_t WordCache::place_of(std::string_view word, std::uint32_t hash) const {
    std::size_t place = hash % slot_count;
    while (true) {
        const Slot& slot = slots_[place];
        if (slot.word_bytes == 0) return place;
        if (slot.hash == hash && std::string_view(words_).substr(slot.word_begin, slot.word_bytes) == word)
            return place;
        place = (place + 1) % slot_count;
    }
}

std::optional<std::span<const TokenId>> WordCache::find(std::string_view word) const {
    if (slots_.empty()) return std::nullopt;
    const Slot& slot = slots_[place_of(word, hash_of(word))];
    if (slot.word_bytes == 0) return std::nullopt;
    return std::span(ids_).subspan(slot.ids_begin, slot.id_count);
}

void WordCache::put(std::string_view word, std::span<const TokenId> ids) {
    CHAOS_ASSERT(!word.empty() && word.size() <= max_word_bytes && ids.size() <= word.size());
    if (count_ == max_words || slots_.empty()) {
        slots_.assign(slot_count, Slot{});
        words_.clear();
        ids_.clear();
        count_ = 0;
    }
    const std::uint32_t hash = hash_of(word);
    slots_[place_of(word, hash)] = {hash, static_cast<std::uint32_t>(words_.size()),
                                    static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint16_t>(word.size()),
                                    static_cast<std::uint16_t>(ids.size())};
    words_.append(word);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ++count_;
}

}  // namespace chaos::text
