// Where texts are asked for: between whoever holds the clients' connections, on a thread of its own, and the session,
// on the loop's thread.
//
//   engine thread of a generator ── submit, cancel ──► loop: Desk ──► session.h
//                               ◄── step(): tokens, endings ◄──┘
#pragma once

#include "infer/scheduler.h"

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <variant>

namespace chaos::tensor {

// The session, as a gateway sees it. Called in the loop's thread.
class Desk {
public:
    virtual ~Desk() = default;
    virtual void ask(infer::Writer::Id id, infer::Request request) = 0;
    virtual void drop(infer::Writer::Id id) = 0;
};

class Gateway final : public infer::Writer {
public:
    // What is said of a text: shared with the desk, which may outlive the gateway.
    class Told {
    public:
        using Event = std::variant<infer::Sampled, infer::Ended>;
        void tell(Id id, Event event);
        // What those who compute have room for; a gateway takes nothing that is longer.
        void set_context(std::size_t tokens) { context_ = tokens; }

    private:
        friend class Gateway;
        std::mutex mutex_;
        std::condition_variable changed_;
        std::deque<std::pair<Id, Event>> events_;
        bool woken_ = false;
        std::atomic<std::size_t> context_ = SIZE_MAX;
    };

    // `desk` is called on the loop as long as that runs; it outlives the loop's work.
    Gateway(boost::asio::io_context& loop, Desk& desk, std::size_t context, std::int64_t vocab,
            std::shared_ptr<Told> told)
        : loop_(loop), desk_(desk), context_(context), vocab_(vocab), told_(std::move(told)) {}

    Result<Id> submit(infer::Request request, infer::Listener listener) override;
    void cancel(Id id) override;
    bool step() override;
    void wake() override;

private:
    struct Text {
        infer::Listener listener;
        std::size_t prompt_tokens = 0;
        std::size_t drawn = 0;
    };
    void hear(Id id, Told::Event& event);
    void end(std::map<Id, Text>::iterator text, const infer::Ended& ended);
    void drop(Id id);

    boost::asio::io_context& loop_;
    Desk& desk_;
    std::size_t context_;
    std::int64_t vocab_;
    std::shared_ptr<Told> told_;
    std::map<Id, Text> texts_;
    Id next_id_ = 1;
};

}  // namespace chaos::tensor
