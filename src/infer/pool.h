// Threads that compute together. run() hands out chunks one by one and returns when all are done: a thread whose core
// others use takes fewer, and one that sleeps through it is not waited for. Waiting threads look for work for some
// microseconds, then sleep in the kernel.
//
// A thread that loses its core in the middle of a chunk keeps all others waiting. Where that costs more than one thread
// has saved lately, the pool goes on with one thread less for a while, the longer the more often it happens, until
// threads have helped for as long as they last rested: beside a busy neighbour two threads are not slower than one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
    // At most 2^31 chunks, which do not wait for each other. One call at a time; chunks do not call run().
    template <class Work>
    void run(std::size_t chunks, const Work& work) {
        run_erased(
            chunks, [](const void* what, std::size_t chunk) { (*static_cast<const Work*>(what))(chunk); }, &work);
    }

private:
    using Call = void (*)(const void*, std::size_t);
    void run_erased(std::size_t chunks, Call call, const void* work);
    std::size_t take_chunks();
    void wait_for_others(std::size_t chunks);
    void serve(std::size_t index);

    // What is to be done, for those who took a chunk of it.
    Call call_ = nullptr;
    const void* work_ = nullptr;
    std::atomic<std::uint64_t> tickets_{0};  // how many chunks there are, and how many were asked for
    std::atomic<std::uint32_t> done_{0};     // chunks of this round
    std::atomic<std::uint32_t> round_{0};    // counts calls of run()
    std::atomic<bool> stopping_{false};

    std::atomic<std::size_t> helpers_{0};  // workers that take chunks now: those with a lower index
    std::chrono::steady_clock::time_point rest_until_{};
    std::chrono::steady_clock::duration rest_{};    // of a worker, the next time one is late
    std::chrono::steady_clock::duration helped_{};  // workers, since one had to rest
    std::chrono::steady_clock::duration credit_{};  // that one has saved, less what was waited

    std::vector<std::thread> workers_;
};

}  // namespace chaos::infer
