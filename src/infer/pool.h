// Threads that compute together. run() divides the chunks among them, to each a share of neighbours, because what lies
// side by side in memory is read faster; whoever has done its share helps with those of others, chunk by chunk. So a
// thread whose core others use does fewer, and one that sleeps through it is not waited for. Waiting threads look for
// work for some microseconds, then sleep in the kernel.
//
// A thread that loses its core in the middle of a chunk keeps all others waiting. Where that costs more than one thread
// has saved lately, the pool goes on with one thread less for a while, the longer the more often it happens, until
// threads have helped for as long as they last rested: beside a busy neighbour two threads are not slower than one.
//
// What a thread saves is seen from what the same work took without it, where that was tried lately: threads that share
// a memory or a core slow each other down, so that their own times say too much.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

namespace chaos::infer {

class Pool {
public:
    // The caller of run() is one of the threads: Pool(1) starts none.
    explicit Pool(std::size_t threads);
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool();

    [[nodiscard]] std::size_t threads() const { return workers_.size() + 1; }

    // Calls work(chunk) for every chunk in [0, chunks), in any order and on any thread, and returns when all are done.
    // At most 2^32 - 1 chunks, which do not wait for each other. One call at a time; chunks do not call run(). `size`
    // is what else their time depends on: calls from one place with as many chunks and the same size take as long.
    template <class Work>
    void run(std::size_t chunks, const Work& work, std::size_t size = 0) {
        run_erased({.call = [](const void* what, std::size_t chunk) { (*static_cast<const Work*>(what))(chunk); },
                    .chunks = chunks,
                    .size = size},
                   &work);
    }

private:
    using Clock = std::chrono::steady_clock;
    using Call = void (*)(const void*, std::size_t);
    struct Kind {
        Call call = nullptr;
        std::size_t chunks = 0;
        std::size_t size = 0;
        bool operator==(const Kind&) const = default;
    };
    // What runs of one kind took lately with so many helpers.
    struct Pace {
        Kind kind;
        std::size_t helpers = 0;
        Clock::duration usual{};
        Clock::time_point when{};
    };
    void run_erased(const Kind& kind, const void* work);
    void judge_helpers(const Kind& kind, std::size_t taken, Clock::time_point start, Clock::time_point own_end);
    void note_pace(const Kind& kind, Clock::time_point start, Clock::time_point end);
    [[nodiscard]] std::optional<Clock::duration> pace_with(const Kind& kind, std::size_t helpers,
                                                           Clock::time_point now) const;
    std::size_t do_chunks(std::size_t thread);
    void do_chunk(std::uint64_t chunk);
    void wait_for_others(std::size_t chunks);
    void serve(std::size_t index);

    // What is to be done, for those who took a chunk of it.
    Call call_ = nullptr;
    const void* work_ = nullptr;
    std::uint32_t chunks_ = 0;
    // Chunks that a thread has left: the first, and the one behind the last, in 32 bits each. On a line of its own.
    struct alignas(64) Share {
        std::atomic<std::uint64_t> range{0};
    };
    std::vector<Share> shares_;            // the caller's, then the workers'
    std::atomic<std::uint32_t> done_{0};   // chunks of this round
    std::atomic<std::uint32_t> round_{0};  // counts calls of run()
    std::atomic<bool> stopping_{false};

    std::atomic<std::size_t> helpers_{0};  // workers that take chunks now: those with a lower index
    Clock::time_point rest_until_{};
    Clock::duration rest_{};    // of a worker, the next time one is late
    Clock::duration helped_{};  // workers, since one had to rest
    Clock::duration credit_{};  // that one has saved, less what was waited
    std::array<Pace, 32> paces_{};

    std::vector<std::thread> workers_;
};

}  // namespace chaos::infer
