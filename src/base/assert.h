// CHAOS_ASSERT stays on in production: a broken invariant ends the process before it can harm the state.
#pragma once

namespace chaos {

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace chaos

#define CHAOS_ASSERT(condition) \
    ((condition) ? static_cast<void>(0) : ::chaos::assertion_failed(#condition, __FILE__, __LINE__))
