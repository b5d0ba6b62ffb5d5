// A model that recites: every task gets the same words, one per turn, and all tasks take turns.
#pragma once

#include "serve/generator.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace chaos::test {

class FakeGenerator : public serve::Generator {
public:
    struct Options {
        std::vector<std::string> words{"one", " two", " three"};
        std::size_t max_tasks = 64;
        bool endless = false;   // says its words again and again
        bool held = false;      // says nothing until release()
        std::string failure{};  // said instead of the words
        std::string refusal{};  // said instead of Begun
        bool chat = true;
    };

    FakeGenerator() : FakeGenerator(Options{}) {}
    explicit FakeGenerator(Options options)
        : options_(std::move(options)), held_(options_.held), thread_([this] { recite(); }) {
        facts_ = {.model = "parrot", .created = 1, .context = 1000, .vocab = 100, .chat = options_.chat};
    }
    ~FakeGenerator() override {
        {
            const std::scoped_lock lock(mutex_);
            ending_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    FakeGenerator(const FakeGenerator&) = delete;
    FakeGenerator& operator=(const FakeGenerator&) = delete;

    [[nodiscard]] const serve::Facts& facts() const override { return facts_; }
    std::variant<serve::Ticket, serve::Busy> start(serve::Task task, serve::Sink sink) override {
        const std::scoped_lock lock(mutex_);
        if (running_.size() >= options_.max_tasks) return serve::Busy{7};
        running_.push_back({next_, std::move(task), std::move(sink), 0, false});
        changed_.notify_all();
        return next_++;
    }
    void cancel(serve::Ticket ticket) override {
        const std::scoped_lock lock(mutex_);
        cancelled_ += std::erase_if(running_, [ticket](const Running& one) { return one.ticket == ticket; });
        changed_.notify_all();
    }
    [[nodiscard]] serve::Load load() const override {
        const std::scoped_lock lock(mutex_);
        return {.running = running_.size(), .completion_tokens = said_};
    }

    void release() {
        const std::scoped_lock lock(mutex_);
        held_ = false;
        changed_.notify_all();
    }
    void wait_until_running(std::size_t tasks) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return running_.size() == tasks; });
    }
    void wait_until_cancelled(std::size_t tasks) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return cancelled_ == tasks; });
    }
    [[nodiscard]] serve::Task last_task() const {
        const std::scoped_lock lock(mutex_);
        return last_task_;
    }

private:
    struct Running {
        serve::Ticket ticket = 0;
        serve::Task task;
        serve::Sink sink;
        std::size_t said = 0;
        bool begun = false;
    };

    // Says the next thing to the first task and puts it at the end of the line.
    void recite() {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [this] { return ending_ || (!running_.empty() && !held_); });
            if (ending_) return;
            Running one = std::move(running_.front());
            running_.pop_front();
            last_task_ = one.task;
            if (!speak(one)) running_.push_back(std::move(one));
            changed_.notify_all();
            lock.unlock();
            std::this_thread::yield();
            lock.lock();
        }
    }
    // True: that was the last.
    bool speak(Running& one) {
        using serve::Failed;
        using serve::Finished;
        if (!std::exchange(one.begun, true)) {
            if (!options_.refusal.empty()) {
                one.sink(Failed{Failed::Kind::too_long, options_.refusal});
                return true;
            }
            one.sink(serve::Begun{5});
            return false;
        }
        if (!options_.failure.empty()) {
            one.sink(Failed{Failed::Kind::engine, options_.failure});
            return true;
        }
        const std::size_t all = options_.endless ? ~std::size_t{0} : options_.words.size();
        if (one.said == std::min(all, one.task.max_tokens.value_or(all))) {
            const bool whole = one.said == options_.words.size();
            one.sink(Finished{whole ? Finished::Reason::stop : Finished::Reason::length, 5, 2, one.said});
            return true;
        }
        const std::string& word = options_.words[one.said++ % options_.words.size()];
        serve::Piece piece{word, {}};
        if (one.task.logprobs) piece.tokens.push_back({{word, -0.5}, {{word, -0.5}, {"other", -1.5}}});
        ++said_;
        one.sink(std::move(piece));
        return false;
    }

    const Options options_;
    serve::Facts facts_;
    mutable std::mutex mutex_;  // the HTTP loop and the test call this; the thread below recites
    std::condition_variable changed_;
    std::deque<Running> running_;
    serve::Task last_task_;
    serve::Ticket next_ = 0;
    std::size_t cancelled_ = 0;
    std::uint64_t said_ = 0;
    bool held_;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace chaos::test
