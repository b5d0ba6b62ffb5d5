// What members say of themselves and of others: what is planned with, what is computed, and what is refused.
#include "tensor/division.h"

#include "infer/small_model.h"
#include "infer/tensor_model.h"
#include "tensor/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace chaos::tensor {
namespace {

using ::testing::HasSubstr;

const infer::Config config = infer::test::divisible_config();

wire::Able able_of(NodeId node, const std::vector<NodeId>& nodes) {
    wire::Able able;
    able.set_weight_bytes_per_s(1'000'000'000);
    able.set_context(32);
    able.set_sequences(2);
    for (const NodeId peer : nodes) {
        if (peer == node) continue;
        wire::Able::Link& link = *able.add_links();
        *link.mutable_peer() = to_wire(peer);
        link.set_little_ns(50'000);
        link.set_much_ns(90'000);
    }
    return able;
}

TEST(Able, IsRefusedWhereItCannotBeMeant) {
    const std::vector<NodeId> nodes = {{1, 0}, {2, 0}};
    const wire::Able sound = able_of(nodes[0], nodes);
    EXPECT_TRUE(check_able(config, sound));
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    const std::vector<std::function<void(wire::Able&)>> changes = {
        [](wire::Able& able) { able.set_context(0); },
        [](wire::Able& able) { able.set_context(static_cast<std::uint64_t>(config.max_context) + 1); },
        [](wire::Able& able) { able.set_sequences(0); },
        [](wire::Able& able) { able.set_sequences(129); },
        [](wire::Able& able) { able.set_weight_bytes_per_s(0); },
        [](wire::Able& able) { able.set_weight_bytes_per_s(most); },
        [](wire::Able& able) { able.set_prompt_bytes_per_s(most); },
        [](wire::Able& able) { able.set_phase_ns(std::uint64_t{1} << 51); },
        [](wire::Able& able) { able.set_memory_bytes(most); },
        [](wire::Able& able) { able.set_program_bytes(most); },
        [](wire::Able& able) { able.set_disk_bytes_per_s(most); },
        [](wire::Able& able) { able.set_share_permille(1001); },
        [](wire::Able& able) { able.mutable_links(0)->set_little_ns(most); },
        [](wire::Able& able) { able.mutable_links(0)->set_much_ns(most); },
        [](wire::Able& able) { able.mutable_links(0)->set_sums_ns(most); },
        [](wire::Able& able) {
            while (able.links_size() < 1000) *able.add_links() = able.links(0);
        },
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
        wire::Able able = sound;
        changes[i](able);
        const auto checked = check_able(config, able);
        ASSERT_FALSE(checked) << "change " << i;
        EXPECT_THAT(checked.error().message, HasSubstr("it says that"));
    }
}

// The worst that passes does not keep two others from computing.
TEST(Divisions, AreMadeWhateverOneSays) {
    const std::vector<NodeId> nodes = {{1, 0}, {2, 0}, {3, 0}};
    const auto tensors = infer::packed_tensors(config, infer::Format::f32);
    constexpr std::uint64_t long_ns = 600'000'000'000;
    const std::vector<std::function<void(wire::Able&)>> changes = {
        [](wire::Able&) {},
        [](wire::Able& able) { able.clear_links(); },
        [](wire::Able& able) {
            able.set_weight_bytes_per_s(1000);
            able.set_phase_ns(long_ns);
            able.set_share_permille(1);
        },
        [](wire::Able& able) {
            for (wire::Able::Link& link : *able.mutable_links()) {
                link.set_little_ns(long_ns);
                link.set_sums_ns(long_ns);
            }
        },
        [](wire::Able& able) {
            able.set_memory_bytes(1);
            able.set_program_bytes(std::uint64_t{1} << 50);
        },
        [](wire::Able& able) {
            able.set_weight_bytes_per_s(std::uint64_t{1} << 48);
            able.set_memory_bytes(100'000'000);
            able.set_disk_bytes_per_s(std::uint64_t{1} << 48);
            able.set_context(1);
            able.set_sequences(1);
        },
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
        std::vector<Fact> facts;
        for (const NodeId node : nodes) facts.push_back({.node = node, .able = able_of(node, nodes)});
        changes[i](facts.back().able);
        EXPECT_TRUE(check_able(config, facts.back().able)) << "change " << i;
        for (const bool everyone : {false, true}) {
            const auto divided = divide(config, tensors, facts, nodes[0], everyone);
            ASSERT_TRUE(divided) << "change " << i << ": " << divided.error().message;
            const auto sound = check_division(config, divided->division);
            EXPECT_TRUE(sound) << "change " << i << ": " << sound.error().message;
        }
    }
}

class ADivision : public testing::Test {
protected:
    ADivision() {
        division_.set_direct(true);
        division_.set_context(32);
        division_.set_sequences(2);
        division_.set_batch(64);
        for (std::uint32_t place = 0; place < 4; ++place) {
            wire::Division::Member& member = *division_.add_members();
            *member.mutable_node() = to_wire(NodeId{place + 1, 0});
            member.mutable_heads()->set_first(place);
            member.mutable_heads()->set_count(1);
            member.mutable_ffn()->set_first(place < 2 ? 256 * place : 0);  // who has nothing of it is anywhere
            member.mutable_ffn()->set_count(place < 2 ? 256 : 0);
            member.mutable_vocab()->set_first(2 * place);
            member.mutable_vocab()->set_count(2);
        }
        EXPECT_EQ(refusal(), "");
    }
    wire::Division::Member& member(int place) { return *division_.mutable_members(place); }
    void set_parents(const std::vector<std::uint32_t>& parents) {
        division_.set_direct(false);
        for (int place = 0; place < 4; ++place) member(place).set_parent(parents[static_cast<std::size_t>(place)]);
    }
    // Why not; empty: it can be computed.
    [[nodiscard]] std::string refusal() const {
        const Result<void> checked = check_division(config, division_);
        return checked ? "" : checked.error().message;
    }
    wire::Division division_;
};

TEST_F(ADivision, GivesEveryPartOnce) {
    member(1).mutable_heads()->set_first(2);
    EXPECT_THAT(refusal(), HasSubstr("twice, or lacks some"));  // two have the third head, nobody the second
    member(2).mutable_heads()->set_first(1);
    EXPECT_EQ(refusal(), "");  // in whatever order
    member(0).mutable_ffn()->set_count(0);
    EXPECT_THAT(refusal(), HasSubstr("lacks"));
    member(1).mutable_ffn()->set_first(0);
    member(1).mutable_ffn()->set_count(512);
    EXPECT_EQ(refusal(), "");
    member(3).mutable_vocab()->set_count(1);
    EXPECT_THAT(refusal(), HasSubstr("lacks"));
}

TEST_F(ADivision, GivesWholeHeadsToAllOrNobody) {
    division_.set_whole_heads(true);
    EXPECT_THAT(refusal(), HasSubstr("lacks a part of a head"));
    for (int place = 0; place < 4; ++place) {
        member(place).mutable_vocab()->set_first(0);
        member(place).mutable_vocab()->set_count(8);
    }
    EXPECT_EQ(refusal(), "");
    division_.set_whole_heads(false);
    EXPECT_THAT(refusal(), HasSubstr("twice"));
}

TEST_F(ADivision, HasEveryMemberOnceAndNotTooMany) {
    *member(1).mutable_node() = member(3).node();
    EXPECT_THAT(refusal(), HasSubstr("a member twice"));
    *member(1).mutable_node() = to_wire(NodeId{7, 7});
    EXPECT_EQ(refusal(), "");
    // A division as long as a message, each with the one before it above it: to say no takes no time.
    division_.set_direct(false);
    for (std::uint32_t place = 4; place < 100'000; ++place) {
        wire::Division::Member& one = *division_.add_members();
        *one.mutable_node() = to_wire(NodeId{0, place});
        one.set_parent(place - 1);
    }
    EXPECT_THAT(refusal(), HasSubstr("makes no sense"));
}

TEST_F(ADivision, HasOneWayForItsSums) {
    for (const std::vector<std::uint32_t>& tree : std::vector<std::vector<std::uint32_t>>{
             {0, 0, 0, 0}, {3, 3, 3, 3}, {1, 2, 3, 3}, {0, 0, 1, 1}, {2, 0, 2, 1}}) {
        set_parents(tree);
        EXPECT_EQ(refusal(), "");
    }
    for (const std::vector<std::uint32_t>& other : std::vector<std::vector<std::uint32_t>>{
             {0, 1, 0, 1}, {1, 0, 0, 0}, {0, 2, 1, 0}, {1, 2, 3, 0}, {0, 0, 0, 4}}) {
        set_parents(other);
        EXPECT_THAT(refusal(), HasSubstr("no way for its sums"));
    }
    division_.set_direct(true);  // parents count for nothing
    EXPECT_EQ(refusal(), "");
}

TEST_F(ADivision, TellsTheLongestMessage) {
    infer::Config large = config;
    large.vocab = 128'000;
    large.width = 8192;
    // All logits of two texts and of what was guessed, with their tokens; the sums of a batch, with commands.
    const std::uint64_t logits = 18 * 8 * 128'000;
    EXPECT_GT(longest_message_bytes(large, division_), logits);
    EXPECT_LT(longest_message_bytes(large, division_), 2 * logits);
    division_.set_whole_heads(true);
    const std::uint64_t sums = 64 * 8 * 8192;
    EXPECT_GT(longest_message_bytes(large, division_), sums + max_commands_bytes);
    EXPECT_LT(longest_message_bytes(large, division_), sums + 2 * max_work_bytes);
}

// Two nodes with a link, the second of them with so much memory.
Result<Divided> divide_by_two(std::uint64_t memory_bytes) {
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
