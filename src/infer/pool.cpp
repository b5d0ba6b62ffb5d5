#include "infer/pool.h"

#include "base/assert.h"

#include <algorithm>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace chaos::infer {
namespace {

void pause_briefly() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

using Clock = std::chrono::steady_clock;

// As long as the pieces of a token's work are apart. Longer, and a thread that spins keeps another from working where
// cores are shared.
constexpr std::chrono::microseconds spin_time{20};
// A thread that begins to help may cost so much before it has saved anything; what was saved long ago counts no more.
constexpr std::chrono::microseconds first_credit{200};
constexpr std::chrono::milliseconds most_credit{10};
constexpr std::chrono::milliseconds shortest_rest{5};
// Each rest ends with a try that may cost some milliseconds.
constexpr std::chrono::milliseconds longest_rest{2560};
// Threads ask for a few chunks more than there are.
constexpr std::size_t max_chunks = std::size_t{1} << 31;

// Waits until the value is another one than `old`.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
    const auto until = Clock::now() + spin_time;
    do {
        for (int i = 0; i < 32; ++i) {
            if (value.load(std::memory_order_acquire) != old) return;
            pause_briefly();
        }
    } while (Clock::now() < until);
    value.wait(old, std::memory_order_acquire);
}

}  // namespace

Pool::Pool(std::size_t threads) : helpers_(threads - 1), rest_(shortest_rest), credit_(first_credit) {
    CHAOS_ASSERT(threads >= 1);
    for (std::size_t i = 0; i + 1 < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
}

Pool::~Pool() {
    stopping_ = true;
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void Pool::run_erased(std::size_t chunks, Call call, const void* work) {
    const Clock::time_point start = Clock::now();
    if (helpers_ < workers_.size() && start >= rest_until_) helpers_ = workers_.size();
    if (helpers_ == 0 || chunks <= 1) {
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) call(work, chunk);
        return;
    }
    CHAOS_ASSERT(chunks <= max_chunks);
    // Nobody has a chunk of the round before, so nobody reads these.
    call_ = call;
    work_ = work;
    done_.store(0, std::memory_order_relaxed);
    tickets_.store(static_cast<std::uint64_t>(chunks) << 32, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    const std::size_t taken = take_chunks();
    const Clock::time_point own_end = Clock::now();
    if (taken == chunks) return;
    wait_for_others(chunks);
    const Clock::time_point end = Clock::now();
    // What the last helper saves: the others and the caller would have its chunks besides. It costs what is waited.
    const auto helpers = static_cast<std::ptrdiff_t>(helpers_.load());
    const Clock::duration chunk = (own_end - start) / static_cast<std::ptrdiff_t>(std::max<std::size_t>(taken, 1));
    const Clock::duration saved =
        chunk * static_cast<std::ptrdiff_t>(chunks - taken) / (helpers * helpers) - (end - own_end);
    credit_ = std::min<Clock::duration>(credit_ + saved, most_credit);
    if (credit_ < Clock::duration::zero()) {
        helpers_ = helpers_ - 1;
        rest_until_ = end + rest_;
        rest_ = std::min<Clock::duration>(2 * rest_, longest_rest);
        helped_ = {};
        credit_ = first_credit;
    } else {
        // Time in which there was nothing to do proves nothing.
        helped_ += end - start;
        if (helped_ > rest_) rest_ = shortest_rest;
    }
}

void Pool::wait_for_others(std::size_t chunks) {
    for (std::uint32_t done = done_.load(std::memory_order_acquire); done != chunks;
         done = done_.load(std::memory_order_acquire)) {
        wait_while(done_, done);
    }
}

// How many.
std::size_t Pool::take_chunks() {
    for (std::size_t taken = 0;; ++taken) {
        const std::uint64_t ticket = tickets_.fetch_add(1, std::memory_order_acq_rel);
        const std::uint64_t chunks = ticket >> 32;
        const std::uint64_t chunk = ticket & 0xffff'ffffU;
        if (chunk >= chunks) return taken;
        call_(work_, chunk);
        if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks) done_.notify_one();
    }
}

void Pool::serve(std::size_t index) {
    for (std::uint32_t seen = 0; !stopping_; seen = round_.load(std::memory_order_acquire)) {
        if (index < helpers_) take_chunks();
        wait_while(round_, seen);
    }
}

}  // namespace chaos::infer
