#include "infer/window.h"

#include "base/assert.h"
#include "infer/packed_file.h"

#include <algorithm>

namespace chaos::infer {

using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<Window>> Window::open(const std::filesystem::path& path, std::vector<Part> parts,
                                             const WindowPlan& plan, const Progress& progress, DirectReader::Way way) {
    CHAOS_ASSERT(!plan.resident && plan.pinned.size() == parts.size() && plan.slots >= min_slots);
    std::unique_ptr<Window> window(new Window(std::move(parts), plan));
    CHAOS_TRY(window->reader_, DirectReader::open(path, plan.slots, way));
    CHAOS_TRY(window->pinned_, HugePages::allocate(plan.pinned_bytes));
    CHAOS_TRY(window->ring_, HugePages::allocate(plan.slots * plan.slot_bytes));
    window->arrived_.resize(plan.slots);
    window->errors_.resize(plan.slots);
    CHAOS_CHECK(window->load_pinned(progress));
    window->read_bytes_ = 0;
    return window;
}

Window::~Window() {
    while (!ahead_.empty()) drop_first();
}

const std::byte* Window::pinned(std::size_t part) const {
    CHAOS_ASSERT(plan_.pinned[part]);
    return pinned_.data() + positions_[part] + parts_[part].offset % direct_read_bytes;
}

void Window::start(std::size_t part, std::size_t slot, std::byte* to) {
    arrived_[slot] = false;
    errors_[slot].reset();
    read_bytes_ += parts_[part].read_bytes();
    reader_->start({slot, packed_file_header_bytes + parts_[part].read_begin(), {to, parts_[part].read_bytes()}});
}

Result<void> Window::load_pinned(const Progress& progress) {
    std::uint64_t begin = 0;
    std::uint64_t done = 0;
    std::deque<std::pair<std::size_t, std::size_t>> reads;  // slot and part
    std::optional<Error> error;
    const auto finish_first = [&] {
        const auto [slot, part] = reads.front();
        reads.pop_front();
        while (!arrived_[slot]) wait_for_one();
        if (errors_[slot] && !error) error = errors_[slot];
        done += parts_[part].read_bytes();
        if (progress) progress(done, plan_.pinned_bytes);
    };
    std::size_t next = 0;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
        if (!plan_.pinned[part]) {
            positions_.push_back(streamed_.size());
            streamed_.push_back(part);
            continue;
        }
        positions_.push_back(begin);
        if (reads.size() == plan_.slots) finish_first();
        start(part, next, pinned_.data() + begin);
        reads.emplace_back(next, part);
        next = (next + 1) % plan_.slots;
        begin += parts_[part].read_bytes();
    }
    while (!reads.empty()) finish_first();
    CHAOS_ASSERT(begin == plan_.pinned_bytes);
    if (error) return *error;
    return {};
}

Result<const std::byte*> Window::acquire(std::size_t part) {
    CHAOS_ASSERT(!plan_.pinned[part] && !acquired_);
    go_to(positions_[part]);
    read_ahead();
    const Slot slot = ahead_.front();
    if (!arrived_[slot.number]) {
        const auto begin = Clock::now();
        while (!arrived_[slot.number]) wait_for_one();
        waited_ += Clock::now() - begin;
    }
    if (errors_[slot.number]) {
        const Error error = *errors_[slot.number];
        drop_first();
        return error;
    }
    acquired_ = true;
    return ring_.data() + slot.number * plan_.slot_bytes + parts_[part].offset % direct_read_bytes;
}

void Window::release(std::size_t part) {
    CHAOS_ASSERT(acquired_ && streamed_[ahead_.front().place] == part);
    acquired_ = false;
    drop_first();
    read_ahead();
}

// Starts reads into all free slots. Slots are used and become free in turn.
void Window::read_ahead() {
    while (ahead_.size() < plan_.slots) {
        start(streamed_[next_place_], next_slot_, ring_.data() + next_slot_ * plan_.slot_bytes);
        ahead_.push_back({next_slot_, next_place_});
        next_place_ = (next_place_ + 1) % streamed_.size();
        next_slot_ = (next_slot_ + 1) % plan_.slots;
    }
}

void Window::wait_for_one() {
    DirectReader::Done done = reader_->wait();
    arrived_[done.tag] = true;
    errors_[done.tag] = std::move(done.error);
}

// What lies before the place in the ring is not wanted; where it is not in the ring, nothing there is.
void Window::go_to(std::size_t place) {
    while (!ahead_.empty() && ahead_.front().place != place) drop_first();
    if (ahead_.empty()) next_place_ = place;
}

void Window::drop_first() {
    while (!arrived_[ahead_.front().number]) wait_for_one();
    ahead_.pop_front();
}

}  // namespace chaos::infer
