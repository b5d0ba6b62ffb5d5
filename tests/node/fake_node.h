// A node that only has a control socket, in a thread of its own. It answers:
//
//   {"command": "echo", ...}       the request itself
//   {"command": "count", "to": n}  n lines, {"number": 0} to {"number": n - 1}
//   {"command": "later"}           nothing yet: the reply is kept
//   {"command": "listen", "topic"} {"listening": topic}, and from then on what is published there
//   {"command": "forget"}          nothing, ever
#pragma once

#include "node/control.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace chaos::test {

using nlohmann::json;

class FakeNode final : private node::ControlHandler {
public:
    explicit FakeNode(const std::filesystem::path& dir, const node::ControlLimits& limits = {}) {
        auto opened = node::ControlSocket::open(loop_, dir, *this, limits);
        EXPECT_TRUE(opened) << opened.error().message;
        if (opened) control_ = *std::move(opened);
        thread_ = std::thread([this] { loop_.run(); });
    }
    ~FakeNode() override {
        in_loop([this] {
            control_.reset();
            replies_.clear();
        });
        busy_.reset();
        loop_.stop();
        thread_.join();
    }
    FakeNode(const FakeNode&) = delete;
    FakeNode& operator=(const FakeNode&) = delete;

    // Answers to further commands.
    void on(const std::string& command, std::function<void(const json&, const node::Reply&)> answer) {
        in_loop([&] { commands_[command] = std::move(answer); });
    }

    // In the loop's thread; returns when it is done.
    template <class Job>
    auto in_loop(Job job) -> decltype(job()) {
        std::packaged_task<decltype(job())()> task(std::move(job));
        auto done = task.get_future();
        boost::asio::post(loop_, [&task] { task(); });
        return done.get();
    }

    // Until it holds; it is evaluated in the loop's thread.
    void wait(const std::function<bool()>& condition) {
        while (!in_loop(condition)) std::this_thread::yield();
    }

    [[nodiscard]] node::ControlSocket& control() { return *control_; }
    [[nodiscard]] std::vector<node::Reply>& replies() { return replies_; }
    void publish(const std::string& topic, const json& line) {
        in_loop([&] { control_->publish(topic, line); });
    }

private:
    void answer(const json& request, const node::Reply& reply) override {
        const std::string command = request.at("command");
        if (const auto own = commands_.find(command); own != commands_.end()) return own->second(request, reply);
        if (command == "echo") return reply.answer(request);
        if (command == "later") return replies_.push_back(reply);
        if (command == "forget") return;
        if (command == "count") {
            const int lines = request.at("to").get<int>();
            for (int number = 0; number < lines; ++number) reply.send({{"number", number}});
            return reply.end();
        }
        if (command == "listen") {
            reply.send({{"listening", request.at("topic")}});
            return reply.subscribe(request.at("topic"));
        }
        reply.refuse("there is no command \"" + command + "\"");
    }

    boost::asio::io_context loop_;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> busy_{loop_.get_executor()};
    std::unique_ptr<node::ControlSocket> control_;
    std::vector<node::Reply> replies_;
    std::map<std::string, std::function<void(const json&, const node::Reply&)>> commands_;
    std::thread thread_;
};

}  // namespace chaos::test
