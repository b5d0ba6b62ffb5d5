// What is read later, asked for in time: two pages ahead into the second cache and from there, a page ahead, into the
// first one, which has too few places for all that is on its way. The machine itself foresees no further than the end
// of a page, and where the memory is far away (virtual machines translate addresses twice) that is not enough. AMD's
// cores bring it as fast in one go, and lose time by asking twice.
#pragma once

#include <cstddef>

namespace chaos::infer {

inline constexpr std::size_t line_bytes = 64;
// As __builtin_prefetch() has it.
inline constexpr int first_cache = 3;
inline constexpr int second_cache = 2;

inline bool asks_twice() {
#if defined(__x86_64__)
    return !__builtin_cpu_is("amd");
#else
    return true;
#endif
}

// For what is read in the order of memory; `bytes` are about to be read.
[[gnu::always_inline]] inline void fetch_ahead(const void* from, std::size_t bytes) {
    constexpr std::size_t page_bytes = 4096;
    const auto* first = static_cast<const std::byte*>(from);
    const bool twice = asks_twice();
    for (std::size_t at = 0; at < bytes; at += line_bytes) {
        if (twice) __builtin_prefetch(first + 2 * page_bytes + at, 0, second_cache);
        __builtin_prefetch(first + page_bytes + at, 0, first_cache);
    }
}

}  // namespace chaos::infer
