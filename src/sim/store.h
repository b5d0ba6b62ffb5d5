// What one node holds of the training: its state, and of the last few steps the results and states, because others may
// still need them: a member that is short of a result, a joiner, a checkpoint of a stable step.
#pragma once

#include "sim/toy.h"

#include <array>
#include <cstdint>

namespace chaos::sim {

inline constexpr std::size_t kept_steps = 6;

class Store {
public:
    explicit Store(const Toy& toy) : toy_(&toy), state_(toy) { remember(); }

    [[nodiscard]] const Toy& toy() const { return *toy_; }
    [[nodiscard]] const ToyState& state() const { return state_; }
    [[nodiscard]] std::uint64_t applied() const { return state_.applied(); }

    void apply(const ResultPtr& result) {
        results_[result->record.step % kept_steps] = result;
        state_.apply(*result);
        remember();
    }
    void load(const Snapshot& snapshot) {
        results_ = {};
        for (Snapshot& old : states_) old.floats.clear();
        state_.load(snapshot);
        remember();
    }
    void drop_result(std::uint64_t step) { results_[step % kept_steps] = nullptr; }

    // Null: not held.
    [[nodiscard]] ResultPtr result(std::uint64_t step) const {
        const ResultPtr& held = results_[step % kept_steps];
        return held != nullptr && held->record.step == step ? held : nullptr;
    }
    [[nodiscard]] const Snapshot* state_at(std::uint64_t applied) const {
        const Snapshot& held = states_[applied % kept_steps];
        return held.applied == applied && !held.floats.empty() ? &held : nullptr;
    }

private:
    void remember() { states_[applied() % kept_steps] = state_.snapshot(); }

    const Toy* toy_;
    ToyState state_;
    std::array<ResultPtr, kept_steps> results_;
    std::array<Snapshot, kept_steps> states_;
};

}  // namespace chaos::sim
