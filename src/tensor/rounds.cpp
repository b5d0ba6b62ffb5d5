#include "tensor/rounds.h"

#include <algorithm>

namespace chaos::tensor {
namespace {

constexpr std::chrono::milliseconds pause_of_a_round{250};
constexpr std::chrono::milliseconds pause_if_somebody_waits{5};
// What was told may have been lost with a link.
constexpr std::chrono::milliseconds pause_before_telling_again{500};

bool somebody_waits(const cluster::View& view, std::uint64_t step) {
    return std::ranges::any_of(view.members, [&](const cluster::MemberInfo& member) {
        return member.standing != cluster::Standing::active || member.first_step > step;
    });
}

}  // namespace

Rounds::Rounds(boost::asio::io_context& loop, NodeId self, Callbacks callbacks)
    : self_(self), callbacks_(std::move(callbacks)), timer_(loop) {}

void Rounds::wait(std::chrono::milliseconds pause, void (Rounds::*then)()) {
    timer_.expires_after(pause);
    timer_.async_wait([this, then, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
        if (!cancelled && !alive.expired()) (this->*then)();
    });
}

void Rounds::start_step(std::uint64_t step, const ViewPtr& view) {
    syncing_ = false;
    first_step_.reset();
    current_ = Current{.epoch = view->epoch, .step = step, .view = view, .done = {}};
    newest_ = std::max(newest_, step);
    wait(somebody_waits(*view, step) ? pause_if_somebody_waits : pause_of_a_round, &Rounds::say_done);
}

void Rounds::stop_step() {
    current_.reset();
    timer_.cancel();
}

void Rounds::take_result(std::uint64_t step) {
    stop_step();
    callbacks_.applied(step);
}

void Rounds::say_done() {
    if (!current_) return;
    current_->done.insert(self_);
    tell();
    look();
}

void Rounds::tell() {
    wire::Round message;
    message.set_epoch(current_->epoch);
    message.set_step(current_->step);
    for (const NodeId node : current_->done) {
        wire::Node* each = message.add_done();
        each->set_high(node.high);
        each->set_low(node.low);
    }
    callbacks_.tell(message);
    wait(pause_before_telling_again, &Rounds::say_done);
}

// All that are active in the round's view must be done.
void Rounds::look() {
    if (!current_ || !current_->done.contains(self_)) return;
    const bool over = newest_ > current_->step ||
                      std::ranges::all_of(current_->view->members, [&](const cluster::MemberInfo& member) {
                          return member.standing != cluster::Standing::active || member.first_step > current_->step ||
                                 current_->done.contains(member.id.node);
                      });
    if (!over) return;
    const std::uint64_t step = current_->step;
    stop_step();
    callbacks_.applied(step);
}

void Rounds::received(const wire::Round& message) {
    newest_ = std::max(newest_, message.step());
    if (syncing_) {
        syncing_ = false;
        applied_ = newest_;
        callbacks_.synced(applied_);
    }
    follow();
    if (!current_) return;
    if (message.step() == current_->step && message.epoch() == current_->epoch) {
        const std::size_t before = current_->done.size();
        for (const wire::Node& node : message.done()) current_->done.insert({node.high(), node.low()});
        if (current_->done.size() > before && current_->done.contains(self_)) tell();
    } else if (message.step() < current_->step) {
        tell();  // that one is behind
    }
    look();
}

void Rounds::begin_sync() {
    stop_step();
    first_step_.reset();
    newest_ = 0;
    syncing_ = true;
}

void Rounds::activated(std::uint64_t first_step) {
    first_step_ = first_step;
    follow();
}

// A newcomer that was let in: rounds that the others have ended are over for it, too.
void Rounds::follow() {
    while (first_step_ && applied_ < std::min(newest_, *first_step_)) {
        ++applied_;
        callbacks_.applied(applied_ - 1);
    }
}

}  // namespace chaos::tensor
