// The thread that computes, and who may touch the state when. What computes reads the state, what applies a result
// changes it; both happen on this thread, one after the other. Besides, others (who copy shards, hash or save) may read
// it on a second thread while it does not change:
//
//   compute thread   | compute s   | apply s | compute s+1        | apply s+1
//   reading thread         | copy |          | copy | hash |      | <- a change waits for whoever reads; who wants to
//                                                                    read while a change waits comes after it
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace chaos::elastic {

namespace asio = boost::asio;

class ComputeThread {
public:
    explicit ComputeThread(asio::io_context& loop) : loop_(loop) {}
    ~ComputeThread() { stop(); }
    ComputeThread(const ComputeThread&) = delete;
    ComputeThread& operator=(const ComputeThread&) = delete;

    // `work` on the compute thread, in order; then `then` in the loop. What both hold is let go in the loop too.
    void compute(std::function<void()> work, std::function<void()> then);
    // Likewise, for what changes the state.
    void change(std::function<void()> work, std::function<void()> then);

    // Whether something is being computed or changed, or is to be.
    [[nodiscard]] bool busy() const { return running_ || !waiting_.empty(); }
    // All of these are called, in turn, whenever all that was to be computed or changed is done.
    void when_idle(std::function<void()> idle) { idle_.push_back(std::move(idle)); }
    // Whether the state stays as it is for now.
    [[nodiscard]] bool may_read() const;
    // `work` on the reading thread; only while may_read().
    void read(std::function<void()> work, std::function<void()> then);

    // Waits for what is being done; what was to follow is dropped.
    void stop();

private:
    struct Job {
        std::function<void()> work;
        std::function<void()> then;
        bool changes = false;
    };
    void next();

    asio::io_context& loop_;
    std::deque<Job> waiting_;
    bool running_ = false;
    bool changing_ = false;
    unsigned reading_ = 0;
    std::vector<std::function<void()>> idle_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    asio::thread_pool thread_{1};
    asio::thread_pool reader_{1};
};

}  // namespace chaos::elastic
