#include "tensor/division.h"

#include "infer/small_model.h"
#include "infer/tensor_model.h"
#include "tensor/wire.h"

#include <gtest/gtest.h>

namespace chaos::tensor {
namespace {

// Two nodes with a link, the second of them with so much memory.
Result<Divided> divide_by_two(std::uint64_t memory_bytes) {
    const infer::Config config = infer::test::divisible_config();
    std::vector<Fact> facts;
    for (std::uint64_t i = 1; i <= 2; ++i) {
        Fact& fact = facts.emplace_back(Fact{.node = {i, 0}, .able = {}});
        fact.able.set_weight_bytes_per_s(1'000'000'000);
        fact.able.set_prompt_bytes_per_s(1'000'000'000);
        fact.able.set_context(32);
        fact.able.set_sequences(2);
        if (i == 2) fact.able.set_memory_bytes(memory_bytes);
        wire::Able::Link& link = *fact.able.add_links();
        *link.mutable_peer() = to_wire(NodeId{3 - i, 0});
        link.set_little_ns(20'000);
        link.set_sums_ns(20'000);
        link.set_much_ns(40'000);
    }
    return divide(config, infer::packed_tensors(config, infer::Format::f32), facts, {1, 0}, true);
}

bool says(const Divided& divided, const std::string& what) {
    return std::ranges::any_of(divided.plan.reasons,
                               [&](const std::string& reason) { return reason.find(what) != std::string::npos; });
}

TEST(Division, PromptsAreComputedByHalvesWhereverThereIsRoomForThem) {
    constexpr std::uint64_t plenty = std::uint64_t{1} << 30;
    const auto free = divide_by_two(0);
    ASSERT_TRUE(free) << free.error().message;
    EXPECT_TRUE(free->division.halves());
    const auto wide = divide_by_two(plenty);
    ASSERT_TRUE(wide) << wide.error().message;
    EXPECT_TRUE(wide->division.halves());
    EXPECT_EQ(wide->division.batch(), free->division.batch());
    EXPECT_TRUE(says(*wide, "by halves: whoever computes has room"));
    // The least that will do: whatever is spent for prompts is not there for weights.
    std::uint64_t most = plenty;
    std::uint64_t least = 1;
    while (most - least > 1) {
        const std::uint64_t middle = (least + most) / 2;
        const auto divided = divide_by_two(middle);
        (divided && divided->division.members_size() == 2 ? most : least) = middle;
    }
    const auto tight = divide_by_two(most);
    ASSERT_TRUE(tight) << tight.error().message;
    EXPECT_EQ(tight->division.members_size(), 2);
    EXPECT_FALSE(tight->division.halves());
    EXPECT_LT(tight->division.batch(), free->division.batch());
    EXPECT_TRUE(says(*tight, "not by halves: somebody has no room"));
}

// Somebody writes for all of them, though not all have a link with it.
TEST(Division, NotEverybodyHasALinkWithTheChief) {
    const infer::Config config = infer::test::divisible_config();
    std::vector<Fact> facts;
    constexpr std::uint64_t count = 5;
    for (std::uint64_t i = 0; i < count; ++i) {
        Fact& fact = facts.emplace_back(Fact{.node = {i + 1, 0}, .able = {}});
        fact.able.set_weight_bytes_per_s(i == 2 ? 100'000'000'000 : 1'000'000);
        fact.able.set_prompt_bytes_per_s(1'000'000'000);
        fact.able.set_context(32);
        fact.able.set_sequences(2);
        for (const std::uint64_t peer : {i, i + 2}) {  // a line of them
            if (peer < 1 || peer > count) continue;
            wire::Able::Link& link = *fact.able.add_links();
            *link.mutable_peer() = to_wire(NodeId{peer, 0});
            link.set_little_ns(2'000'000);
            link.set_sums_ns(2'000'000);
            link.set_much_ns(4'000'000);
        }
    }
    const auto divided =
        divide(config, infer::packed_tensors(config, infer::Format::f32), facts, facts.front().node, false);
    ASSERT_TRUE(divided) << divided.error().message;
    ASSERT_EQ(divided->division.members_size(), 1);
    EXPECT_EQ(node_from(divided->division.members(0).node()), facts[2].node);
    const auto all = divide(config, infer::packed_tensors(config, infer::Format::f32), facts, facts.front().node, true);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->division.members_size(), static_cast<int>(count));
    EXPECT_TRUE(check_division(config, all->division));
}

}  // namespace
}  // namespace chaos::tensor
