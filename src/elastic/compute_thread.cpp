#include "elastic/compute_thread.h"

#include "base/assert.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace chaos::elastic {

void ComputeThread::stop() {
    *alive_ = false;
    thread_.join();
    reader_.join();
    waiting_.clear();
}

void ComputeThread::compute(std::function<void()> work, std::function<void()> then) {
    waiting_.push_back({.work = std::move(work), .then = std::move(then), .changes = false});
    next();
}

void ComputeThread::change(std::function<void()> work, std::function<void()> then) {
    waiting_.push_back({.work = std::move(work), .then = std::move(then), .changes = true});
    next();
}

bool ComputeThread::may_read() const {
    return !changing_ && std::ranges::none_of(waiting_, &Job::changes);
}

void ComputeThread::next() {
    if (running_ || waiting_.empty() || (waiting_.front().changes && reading_ > 0)) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = true;
    changing_ = job.changes;
    asio::post(thread_, [this, job = std::move(job), alive = alive_]() mutable {
        job.work();
        asio::post(loop_, [this, job = std::move(job), alive] {
            if (!*alive) return;
            running_ = changing_ = false;
            job.then();
            if (!*alive) return;
            next();
            for (std::size_t i = 0; i < idle_.size() && *alive && !busy(); ++i) idle_[i]();
        });
    });
}

void ComputeThread::read(std::function<void()> work, std::function<void()> then) {
    CHAOS_ASSERT(may_read());
    ++reading_;
    asio::post(reader_, [this, work = std::move(work), then = std::move(then), alive = alive_]() mutable {
        work();
        asio::post(loop_, [this, work = std::move(work), then = std::move(then), alive] {
            if (!*alive) return;
            --reading_;
            then();
            if (*alive) next();
        });
    });
}

}  // namespace chaos::elastic
