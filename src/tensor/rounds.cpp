#include "tensor/rounds.h"

#include "tensor/wire.h"

#include <algorithm>

namespace chaos::tensor {
namespace {

constexpr std::chrono::milliseconds pause_of_a_round{250};
constexpr std::chrono::milliseconds pause_if_somebody_waits{5};
// What was told may have been lost with a link.
constexpr std::chrono::milliseconds pause_before_telling_again{500};
// So long a newcomer waits for those who have not told it where they are: all that are there do so within it.
constexpr std::chrono::milliseconds pause_of_a_newcomer{600};
// Of others' rounds: whoever is done with one sees at most the next, and messages overtake views.
constexpr std::uint64_t max_steps_ahead = 2;

bool is_near(std::uint64_t step, std::uint64_t current) {
    return step <= current || step - current <= max_steps_ahead;
}

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
    newcomer_.reset();
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
    for (const NodeId node : current_->done) *message.add_done() = to_wire(node);
    callbacks_.tell(message);
    wait(pause_before_telling_again, &Rounds::say_done);
}

// All that are active in the round's view must be done.
void Rounds::look() {
    if (!current_ || !current_->done.contains(self_)) return;
    const bool passed = newest_ > current_->step && can_be(newest_);
    const bool over = passed || std::ranges::all_of(current_->view->members, [&](const cluster::MemberInfo& member) {
                          return member.standing != cluster::Standing::active || member.first_step > current_->step ||
                                 current_->done.contains(member.id.node);
                      });
    if (!over) return;
    const std::uint64_t step = current_->step;
    stop_step();
    callbacks_.applied(step);
}

// Of the newest view, or of the one that the round is begun under: who leaves is a member of that until the last round.
bool Rounds::is_member(NodeId node) const {
    return (view_ != nullptr && view_->is_active(node)) || (current_ && current_->view->is_active(node));
}

// Those who go on without this node may be anywhere by now.
bool Rounds::can_be(std::uint64_t step) const {
    return is_near(step, current_->step) || (view_ != nullptr && !view_->is_active(self_));
}

void Rounds::received(NodeId from, const wire::Round& message) {
    if (!is_member(from)) return;
    if (newcomer_) return received_by_newcomer(from, message.step());
    if (!current_ || !can_be(message.step())) return;
    newest_ = std::max(newest_, message.step());
    if (message.step() == current_->step && message.epoch() == current_->epoch) {
        const std::size_t before = current_->done.size();
        for (const wire::Node& node : message.done())
            if (current_->view->is_active(node_from(node))) current_->done.insert(node_from(node));
        if (current_->done.size() > before && current_->done.contains(self_)) tell();
    } else if (message.step() < current_->step) {
        tell();  // that one is behind
    }
    look();
}

void Rounds::adopted(const ViewPtr& view) {
    view_ = view;
}

// ---- of a newcomer

void Rounds::begin_sync() {
    stop_step();
    newest_ = 0;
    newcomer_ = Newcomer{};
}

void Rounds::received_by_newcomer(NodeId from, std::uint64_t step) {
    const auto now = std::chrono::steady_clock::now();
    if (newcomer_->steps.empty()) newcomer_->hears_since = now;
    newcomer_->steps[from] = step;
    if (newcomer_->synced) return follow();
    if (newcomer_->steps.size() >= view_->active_count() || now - newcomer_->hears_since >= pause_of_a_newcomer) sync();
}

// The lower one, where two are in the middle: what has come since is caught up with.
void Rounds::sync() {
    std::vector<std::uint64_t> steps;
    for (const auto& [node, step] : newcomer_->steps) steps.push_back(step);
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
    std::nth_element(steps.begin(), middle, steps.end());
    newcomer_->synced = true;
    newcomer_->applied = *middle;
    callbacks_.synced(*middle);
}

void Rounds::activated(std::uint64_t first_step) {
    if (!newcomer_) newcomer_ = Newcomer{};
    newcomer_->first_step = first_step;
    follow();
}

// It was let in: rounds that the others have ended are over for it, too. They do not end its first one without it.
void Rounds::follow() {
    if (!newcomer_->first_step) return;
    const std::uint64_t first_step = *newcomer_->first_step;
    std::uint64_t newest = 0;
    for (const auto& [node, step] : newcomer_->steps)
        if (is_near(step, first_step)) newest = std::max(newest, step);
    while (newcomer_ && newcomer_->applied < std::min(newest, first_step)) {
        ++newcomer_->applied;
        callbacks_.applied(newcomer_->applied - 1);
    }
}

}  // namespace chaos::tensor
