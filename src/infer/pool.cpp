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

// As long as the pieces of a token's work are apart. Longer, and a thread that spins keeps another from working where
// cores are shared.
constexpr std::chrono::microseconds spin_time{20};
// A thread that begins to help may cost so much before it has saved anything; what was saved long ago counts no more.
constexpr std::chrono::microseconds first_credit{200};
constexpr std::chrono::milliseconds most_credit{10};
constexpr std::chrono::milliseconds shortest_rest{5};
// Each rest ends with a try that may cost some milliseconds.
constexpr std::chrono::milliseconds longest_rest{2560};
// Of what was seen so long ago nothing is known any more: neighbours come and go.
constexpr std::chrono::seconds pace_lasts{10};
constexpr std::size_t max_chunks = 0xffff'ffffU;

constexpr std::uint64_t range_of(std::uint64_t first, std::uint64_t end) {
    return first << 32 | end;
}
constexpr std::uint64_t first_of(std::uint64_t range) {
    return range >> 32;
}
constexpr std::uint64_t end_of(std::uint64_t range) {
    return range & 0xffff'ffffU;
}

// Waits until the value is another one than `old`.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
    using Clock = std::chrono::steady_clock;
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

Pool::Pool(std::size_t threads) : shares_(threads), helpers_(threads - 1), rest_(shortest_rest), credit_(first_credit) {
    CHAOS_ASSERT(threads >= 1);
    for (std::size_t i = 0; i + 1 < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
}

Pool::~Pool() {
    stopping_ = true;
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void Pool::run_erased(const Kind& kind, const void* work) {
    const Clock::time_point start = Clock::now();
    const std::size_t chunks = kind.chunks;
    if (helpers_ < workers_.size() && start >= rest_until_) helpers_ = workers_.size();
    if (helpers_ == 0 || chunks <= 1) {
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) kind.call(work, chunk);
        if (!workers_.empty() && chunks > 1) note_pace(kind, start, Clock::now());
        return;
    }
    CHAOS_ASSERT(chunks <= max_chunks);
    // Nobody has a chunk of the round before, so nobody reads these.
    call_ = kind.call;
    work_ = work;
    chunks_ = static_cast<std::uint32_t>(chunks);
    done_.store(0, std::memory_order_relaxed);
    const std::size_t threads = helpers_ + 1;
    for (std::size_t i = 0; i < threads; ++i)
        shares_[i].range.store(range_of(chunks * i / threads, chunks * (i + 1) / threads), std::memory_order_release);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    const std::size_t taken = do_chunks(0);
    const Clock::time_point own_end = Clock::now();
    if (taken == chunks) return;
    wait_for_others(chunks);
    judge_helpers(kind, taken, start, own_end);
}

// Whether one less is better.
void Pool::judge_helpers(const Kind& kind, std::size_t taken, Clock::time_point start, Clock::time_point own_end) {
    const Clock::time_point end = Clock::now();
    if (helpers_ < workers_.size()) note_pace(kind, start, end);
    Clock::duration saved{};
    if (const auto without = pace_with(kind, helpers_ - 1, end)) {
        saved = *without - (end - start);
    } else {
        // The others and the caller would have its chunks besides. It costs what is waited.
        const auto helpers = static_cast<std::ptrdiff_t>(helpers_.load());
        const Clock::duration chunk = (own_end - start) / static_cast<std::ptrdiff_t>(std::max<std::size_t>(taken, 1));
        saved = chunk * static_cast<std::ptrdiff_t>(kind.chunks - taken) / (helpers * helpers) - (end - own_end);
    }
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

void Pool::note_pace(const Kind& kind, Clock::time_point start, Clock::time_point end) {
    const auto same = [&](const Pace& pace) { return pace.kind == kind && pace.helpers == helpers_; };
    auto pace = std::ranges::find_if(paces_, same);
    if (pace == paces_.end()) pace = std::ranges::min_element(paces_, {}, &Pace::when);
    if (!same(*pace) || end - pace->when > pace_lasts)
        *pace = {.kind = kind, .helpers = helpers_, .usual = end - start, .when = end};
    pace->usual += ((end - start) - pace->usual) / 4;
    pace->when = end;
}

std::optional<Pool::Clock::duration> Pool::pace_with(const Kind& kind, std::size_t helpers,
                                                     Clock::time_point now) const {
    for (const Pace& pace : paces_)
        if (pace.kind == kind && pace.helpers == helpers && now - pace.when < pace_lasts) return pace.usual;
    return std::nullopt;
}

void Pool::wait_for_others(std::size_t chunks) {
    for (std::uint32_t done = done_.load(std::memory_order_acquire); done != chunks;
         done = done_.load(std::memory_order_acquire)) {
        wait_while(done_, done);
    }
}

void Pool::do_chunk(std::uint64_t chunk) {
    // This call of run() does not end before the chunk is done.
    const std::uint32_t chunks = chunks_;
    call_(work_, chunk);
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks) done_.notify_one();
}

// Its own share and then those of others, until none are left; how many.
std::size_t Pool::do_chunks(std::size_t thread) {
    std::size_t done = 0;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
        std::atomic<std::uint64_t>& share = shares_[(thread + i) % shares_.size()].range;
        std::uint64_t range = share.load(std::memory_order_acquire);
        while (first_of(range) < end_of(range)) {
            const std::uint64_t rest = range_of(first_of(range) + 1, end_of(range));
            if (!share.compare_exchange_weak(range, rest, std::memory_order_acq_rel)) continue;
            do_chunk(first_of(range));
            ++done;
            range = share.load(std::memory_order_acquire);
        }
    }
    return done;
}

void Pool::serve(std::size_t index) {
    for (std::uint32_t seen = 0; !stopping_; seen = round_.load(std::memory_order_acquire)) {
        if (index < helpers_) do_chunks(index + 1);
        wait_while(round_, seen);
    }
}

}  // namespace chaos::infer
