// One member's session among others that the test plays: what it gets, prepares and answers, in which order.
#include "tensor/session.h"

#include "infer/small_model.h"
#include "infer/tensor_model.h"
#include "tensor/division.h"
#include "tensor/wire.h"

#include <gtest/gtest.h>
#include <boost/asio/executor_work_guard.hpp>

namespace chaos::tensor {
namespace {

const NodeId leader{1, 0};
const NodeId self{2, 0};

SessionOptions options() {
    SessionOptions options;
    options.sequences = 2;
    options.context = 32;
    return options;
}

class Alone : public testing::Test {
protected:
    Alone() {
        auto view = std::make_shared<cluster::View>();
        view->epoch = 1;
        for (const NodeId node : {leader, self}) {
            cluster::MemberInfo member;
            member.id.node = node;
            member.standing = cluster::Standing::active;
            member.since_epoch = node == leader ? 0 : 1;
            view->members.push_back(member);
        }
        cluster::complete(*view);
        session_.adopted(view);
    }

    // Both have halves; `first` heads are the leader's.
    static wire::Work division(std::uint64_t generation, std::uint32_t first, bool ahead) {
        wire::Work message;
        wire::Division& division = *message.mutable_division();
        division.set_generation(generation);
        division.set_direct(true);
        division.set_context(32);
        division.set_sequences(2);
        division.set_batch(64);
        division.set_ahead(ahead);
        for (std::uint32_t place = 0; place < 2; ++place) {
            wire::Division::Member& member = *division.add_members();
            *member.mutable_node() = to_wire(place == 0 ? leader : self);
            member.set_parent(place);
            member.mutable_heads()->set_first(place == 0 ? 0 : first);
            member.mutable_heads()->set_count(place == 0 ? first : 4 - first);
            member.mutable_ffn()->set_first(256 * place);
            member.mutable_ffn()->set_count(256);
            member.mutable_vocab()->set_first(4 * place);
            member.mutable_vocab()->set_count(4);
        }
        return message;
    }

    struct Wish {
        infer::Slice slice;
        std::function<void(const Result<void>&)> done;
    };
    asio::io_context loop_{1};
    LinkExchange exchange_{loop_};
    std::vector<wire::Work> sent_;
    std::vector<Wish> wishes_;
    std::size_t loads_ = 0;
    std::string notes_;
    Session session_{
        loop_,
        exchange_,
        self,
        Subject{.config = infer::test::divisible_config(),
                .tensors = infer::packed_tensors(infer::test::divisible_config(), infer::Format::f32)},
        options(),
        {.send =
             [this](NodeId, const wire::Work& message) {
                 sent_.push_back(message);
                 return true;
             },
         .linked = [] { return std::vector{leader}; },
         .times = [](NodeId) { return std::optional(Echoes::Times{}); },
         .get = [this](const infer::Slice& slice,
                       std::function<void(const Result<void>&)> done) { wishes_.push_back({slice, std::move(done)}); },
         .get_rest = [] {},
         .load = [this](const Portion&) -> Result<LoadedSlice> {
             ++loads_;
             return Error{"this is a test"};
         },
         .whole = [] {},
         .note = [this](const std::string& text) { notes_ += text + "\n"; },
         .failed = [](const Error& why) { ADD_FAILURE() << why.message; }},
        std::make_shared<Gateway::Told>()};
};

// What is to come must not take the place of what everybody waits for.
TEST_F(Alone, GetsWhatIsInForceBeforeWhatIsToCome) {
    session_.received(leader, division(1 << 20, 2, false));
    session_.compute();
    ASSERT_EQ(wishes_.size(), 1U) << notes_;
    EXPECT_EQ(wishes_[0].slice.heads, (infer::Extent{2, 2}));
    session_.received(leader, division((1 << 20) + 1, 1, true));
    EXPECT_EQ(wishes_.size(), 1U);
    wishes_[0].done({});
    const auto loading = asio::make_work_guard(loop_);
    while (!session_.ready()) loop_.run_one();
    EXPECT_EQ(loads_, 1U);
}

TEST_F(Alone, PreparesWhileItComputesAndSaysWhenItIsDone) {
    session_.received(leader, division(1 << 20, 1, true));
    ASSERT_EQ(wishes_.size(), 1U);
    EXPECT_EQ(wishes_[0].slice.heads, (infer::Extent{1, 3}));
    sent_.clear();
    wishes_[0].done({});
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].prepared().generation(), 1U << 20);
    EXPECT_FALSE(session_.ready());
}

TEST_F(Alone, SaysWhyItCannotHaveItsSlice) {
    session_.received(leader, division(1 << 20, 2, false));
    session_.compute();
    sent_.clear();
    wishes_.at(0).done(Error{"the disk is full"});
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].interrupted().why(), "the disk is full");
    EXPECT_FALSE(session_.state().whole);
}

// A division that cannot be computed, and one of somebody who does not lead.
TEST_F(Alone, TakesNoNonsense) {
    wire::Work nobody = division(1 << 20, 2, false);
    nobody.mutable_division()->clear_members();
    session_.received(leader, nobody);
    EXPECT_FALSE(session_.ready());
    wire::Work beyond = division(1 << 20, 2, false);
    beyond.mutable_division()->mutable_members(1)->mutable_ffn()->set_count(1 << 30);
    session_.received(leader, beyond);
    EXPECT_FALSE(session_.ready());
    wire::Work partial = division(1 << 20, 2, false);
    partial.mutable_division()->set_whole_heads(true);
    session_.received(leader, partial);
    EXPECT_FALSE(session_.ready());
    session_.received({3, 0}, division(1 << 20, 2, false));
    EXPECT_FALSE(session_.ready());
    session_.received(leader, division(1 << 20, 2, false));
    EXPECT_TRUE(session_.ready());
}

}  // namespace
}  // namespace chaos::tensor
