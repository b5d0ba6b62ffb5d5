#include "tensor/gateway.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>

namespace chaos::tensor {

void Gateway::Told::tell(Id id, Event event) {
    const std::scoped_lock lock(mutex_);
    events_.emplace_back(id, std::move(event));
    changed_.notify_one();
}

Result<Gateway::Id> Gateway::submit(infer::Request request, infer::Listener listener) {
    CHAOS_CHECK(infer::check(request, std::min(context_, told_->context_.load()), vocab_));
    const Id id = next_id_++;
    texts_.emplace(id, Text{std::move(listener), request.prompt.size(), 0});
    boost::asio::post(
        loop_, [&desk = desk_, id, request = std::move(request)]() mutable { desk.ask(id, std::move(request)); });
    return id;
}

void Gateway::drop(Id id) {
    boost::asio::post(loop_, [&desk = desk_, id] { desk.drop(id); });
}

void Gateway::cancel(Id id) {
    const auto text = texts_.find(id);
    if (text == texts_.end()) return;
    drop(id);
    end(text, {infer::Ending::cancelled, {}, text->second.prompt_tokens, 0, text->second.drawn});
}

void Gateway::wake() {
    const std::scoped_lock lock(told_->mutex_);
    told_->woken_ = true;
    told_->changed_.notify_one();
}

bool Gateway::step() {
    if (texts_.empty()) return false;
    std::deque<std::pair<Id, Told::Event>> events;
    {
        std::unique_lock lock(told_->mutex_);
        told_->changed_.wait(lock, [this] { return told_->woken_ || !told_->events_.empty(); });
        told_->woken_ = false;
        events.swap(told_->events_);
    }
    for (auto& [id, event] : events) hear(id, event);
    return !events.empty();
}

void Gateway::hear(Id id, Told::Event& event) {
    const auto text = texts_.find(id);
    if (text == texts_.end()) return;  // nobody wants it any more
    if (const auto* ended = std::get_if<infer::Ended>(&event)) return end(text, *ended);
    ++text->second.drawn;
    const std::size_t prompt_tokens = text->second.prompt_tokens;
    const std::size_t drawn = text->second.drawn;
    const auto on_token = text->second.listener.on_token;
    const bool go_on = !on_token || on_token(std::get<infer::Sampled>(event));
    const auto still = texts_.find(id);
    if (go_on || still == texts_.end()) return;
    drop(id);
    end(still, {infer::Ending::stop, {}, prompt_tokens, 0, drawn});
}

void Gateway::end(std::map<Id, Text>::iterator text, const infer::Ended& ended) {
    const infer::Listener listener = std::move(text->second.listener);
    texts_.erase(text);
    if (listener.on_end) listener.on_end(ended);
}

}  // namespace chaos::tensor
