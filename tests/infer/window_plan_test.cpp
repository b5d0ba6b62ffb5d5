#include "infer/window_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

namespace chaos::infer {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t mega = 1'000'000;
constexpr std::array<Batch, 3> batches = {{{256, 40 * mega}, {64, 10 * mega}, {16, 3 * mega}}};

std::vector<PackedTensor> some_tensors() {
    std::vector<PackedTensor> tensors;
    std::uint64_t offset = 0;
    for (int layer = 0; layer < 12; ++layer) {
        for (const auto& [rows, columns] : {std::pair{1000, 1024}, {256, 1024}, {4096, 1024}, {1024, 4096}}) {
            const Matrix shape{Format::q4_0, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns),
                               nullptr};
            tensors.push_back({"some", shape, offset});
            offset += packed_bytes(shape.format, shape.rows, shape.columns);
        }
    }
    return tensors;
}

WindowNeeds needs_of(std::uint64_t budget, std::span<const Part> parts) {
    return {.budget_bytes = budget,
            .program_bytes = 20 * mega,
            .cache_bytes = 5 * mega,
            .batches = batches,
            .parts = parts};
}

std::uint64_t ring_bytes(const WindowPlan& plan) {
    return plan.slots * plan.slot_bytes;
}

TEST(WindowPlan, PartsAreAllPanelsInOrder) {
    const auto tensors = some_tensors();
    for (const std::uint64_t bytes : {1U, 100'000U, 2'000'000U, 1'000'000'000U}) {
        std::uint64_t end = 0;
        std::size_t panels = 0;
        for (const Part& part : parts_of(tensors, bytes)) {
            const Matrix& shape = tensors[part.tensor].shape;
            const std::uint64_t panel = panel_bytes(shape.format, shape.columns);
            if (part.first_panel == 0) panels = 0;
            EXPECT_EQ(part.first_panel, panels);
            EXPECT_EQ(part.offset, end);
            EXPECT_EQ(part.offset, tensors[part.tensor].offset + part.first_panel * panel);
            EXPECT_EQ(part.bytes, part.panels * panel);
            EXPECT_TRUE(part.bytes <= bytes || part.panels == 1);
            EXPECT_LE(part.read_begin(), part.offset);
            EXPECT_GE(part.read_begin() + part.read_bytes(), part.offset + part.bytes);
            panels += part.panels;
            end += part.bytes;
        }
        EXPECT_EQ(end, packed_bytes(tensors));
    }
}

TEST(WindowPlan, StaysWithinTheBudgetAndSpreadsWhatIsStreamed) {
    const auto tensors = some_tensors();
    const auto parts = parts_of(tensors, 200'000);
    const std::uint64_t all = packed_bytes(tensors);
    const auto seed = std::random_device()();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 200; ++i) {
        const std::uint64_t budget = 29 * mega + random() % (all + 50 * mega);
        SCOPED_TRACE("seed " + std::to_string(seed) + ", budget " + std::to_string(budget));
        const auto plan = plan_window(needs_of(budget, parts));
        ASSERT_TRUE(plan) << plan.error().message;
        if (plan->resident) {
            EXPECT_LE(25 * mega + plan->batch.bytes + all, budget);
            continue;
        }
        EXPECT_LE(25 * mega + plan->batch.bytes + ring_bytes(*plan) + plan->pinned_bytes, budget);
        // Nothing more would have fitted in.
        EXPECT_GT(25 * mega + plan->batch.bytes + ring_bytes(*plan) + plan->pinned_bytes + 2 * plan->slot_bytes,
                  budget);
        std::uint64_t pinned = 0;
        std::uint64_t seen = 0;
        std::uint64_t streamed = 0;
        const double share = static_cast<double>(plan->pinned_bytes) / static_cast<double>(all);
        for (std::size_t part = 0; part < parts.size(); ++part) {
            seen += parts[part].read_bytes();
            (plan->pinned[part] ? pinned : streamed) += parts[part].read_bytes();
            EXPECT_NEAR(static_cast<double>(pinned), share * static_cast<double>(seen),
                        static_cast<double>(ring_bytes(*plan) + 2 * plan->slot_bytes));
        }
        EXPECT_EQ(pinned, plan->pinned_bytes);
        EXPECT_EQ(streamed, plan->streamed_bytes);
    }
}

TEST(WindowPlan, AllThatFitsIsResident) {
    const auto tensors = some_tensors();
    const auto parts = parts_of(tensors, 200'000);
    const auto plan = plan_window(needs_of(65 * mega + packed_bytes(tensors), parts));
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->resident);
    EXPECT_EQ(plan->batch.tokens, 256U);
    EXPECT_THAT(plan->explanation, HasSubstr("all weights fit"));
}

TEST(WindowPlan, ALittleMemoryComputesFewerTokensAtOnce) {
    const auto tensors = some_tensors();
    const auto parts = parts_of(tensors, 200'000);
    EXPECT_EQ(plan_window(needs_of(30 * mega, parts))->batch.tokens, 16U);
    EXPECT_EQ(plan_window(needs_of(66 * mega, parts))->batch.tokens, 64U);
}

TEST(WindowPlan, RefusesTooLittleAndSaysTheLeast) {
    const auto tensors = some_tensors();
    const auto parts = parts_of(tensors, 200'000);
    const auto refused = plan_window(needs_of(27 * mega, parts));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("a memory of 27.0 MB is too small: the program takes 20.0 MB, keys "
                                                   "and values 5.0 MB, activations 3.0 MB, and weights need 295 kB"));
    EXPECT_THAT(refused.error().message, HasSubstr("give 29MB or more"));
    const auto least = plan_window(needs_of(29 * mega, parts));
    ASSERT_TRUE(least);
    EXPECT_EQ(least->slots, min_slots);
}

}  // namespace
}  // namespace chaos::infer
