// One member's session among others that the test plays: what it gets, prepares and answers, in which order.
#include "tensor/session.h"

#include "infer/packed_file.h"
#include "infer/small_model.h"
#include "infer/tensor_model.h"
#include "infer/window.h"
#include "net/site.h"
#include "temporary_folder.h"
#include "tensor/division.h"
#include "tensor/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <set>

namespace chaos::tensor {
namespace {

using ::testing::HasSubstr;

const NodeId leader{1, 0};
const NodeId self{2, 0};

SessionOptions options() {
    SessionOptions options;
    options.sequences = 2;
    options.context = 32;
    options.times_patience = std::chrono::milliseconds(1);
    options.retry_pause = std::chrono::milliseconds(1);
    return options;
}

class Alone : public testing::Test {
protected:
    explicit Alone(const SessionOptions& how = options()) : options_(how) { adopt(1, leader); }

    void adopt(std::uint64_t epoch, NodeId longest_standing, const std::vector<cluster::MemberId>& more = {}) {
        auto view = std::make_shared<cluster::View>();
        view->epoch = epoch;
        for (const NodeId node : {leader, self}) {
            cluster::MemberInfo member;
            member.id.node = node;
            member.standing = cluster::Standing::active;
            member.since_epoch = node == longest_standing ? 0 : 1;
            view->members.push_back(member);
        }
        for (const cluster::MemberId& id : more) {
            cluster::MemberInfo member;
            member.id = id;
            member.standing = cluster::Standing::active;
            member.since_epoch = 2;
            view->members.push_back(member);
        }
        cluster::complete(*view);
        session_.adopted(view);
    }

    // The last of this kind that was sent; nothing there of if there is none.
    template <class Has>
    [[nodiscard]] wire::Work last_sent(const Has& has) const {
        const auto found = std::ranges::find_if(sent_.rbegin(), sent_.rend(), has);
        return found == sent_.rend() ? wire::Work() : *found;
    }
    [[nodiscard]] wire::Division last_division() const {
        return last_sent([](const wire::Work& each) { return each.has_division(); }).division();
    }
    static wire::Work able(std::uint64_t context, std::uint64_t taken) {
        wire::Work message;
        wire::Able& able = *message.mutable_able();
        able.set_weight_bytes_per_s(1'000'000'000);
        able.set_prompt_bytes_per_s(1'000'000'000);
        able.set_context(context);
        able.set_sequences(2);
        able.set_taken(taken);
        *able.add_links()->mutable_peer() = to_wire(self);
        return message;
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

    // A text of three tokens, so many bytes longer than it need be.
    static wire::Work ask(std::uint64_t number, std::size_t more_bytes, std::size_t tokens = 1) {
        infer::Request request;
        request.prompt = {2, 3, 4};
        request.max_tokens = tokens;
        request.ignore_end = true;
        wire::Work message;
        wire::Ask& ask = *message.mutable_ask();
        ask = to_wire(request);
        ask.set_generation(1 << 20);
        ask.set_number(number);
        if (more_bytes == 0) return message;
        // A field that nobody knows.
        std::string bytes = ask.SerializeAsString() + "\xfa\x3f";
        for (std::size_t left = more_bytes; left > 0; left >>= 7)
            bytes.push_back(static_cast<char>((left & 127) | (left > 127 ? 128 : 0)));
        bytes.append(more_bytes, 'x');
        EXPECT_TRUE(ask.ParseFromString(bytes));
        return message;
    }
    virtual Result<LoadedSlice> load(const infer::Slice&) { return Error{"this is a test"}; }

    struct Wish {
        infer::Slice slice;
        std::function<void(const Result<void>&)> done;
    };
    SessionOptions options_;
    asio::io_context loop_{1};
    LinkExchange exchange_{loop_};
    std::vector<wire::Work> sent_;
    std::vector<Wish> wishes_;
    std::size_t loads_ = 0;
    bool reachable_ = true;
    bool echoes_ = true;
    bool whole_ = false;
    bool gets_rest_ = false;
    bool may_fail_ = false;
    bool failed_ = false;
    std::string notes_;
    Session session_{
        loop_,
        exchange_,
        self,
        Subject{.config = infer::test::divisible_config(),
                .tensors = infer::packed_tensors(infer::test::divisible_config(), infer::Format::f32)},
        options_,
        {.send =
             [this](NodeId, const wire::Work& message) {
                 if (reachable_) sent_.push_back(message);
                 return reachable_;
             },
         .carried = [](NodeId) { return std::uint64_t{0}; },
         .linked = [] { return std::vector{leader}; },
         .times = [this](NodeId) { return echoes_ ? std::optional(Echoes::Times{}) : std::nullopt; },
         .get = [this](const infer::Slice& slice,
                       std::function<void(const Result<void>&)> done) { wishes_.push_back({slice, std::move(done)}); },
         .get_ahead =
             [this](const infer::Slice& slice, std::function<void(const Result<void>&)> done) {
                 wishes_.push_back({slice, std::move(done)});
             },
         .get_rest = [this] { gets_rest_ = true; },
         .busy =
             [this](bool busy) {
                 if (busy) gets_rest_ = false;
             },
         .load = [this](const Portion& portion) -> Result<LoadedSlice> {
             ++loads_;
             return load(portion.slice);
         },
         .whole = [this](bool whole) { whole_ = whole; },
         .note = [this](const std::string& text) { notes_ += text + "\n"; },
         .failed =
             [this](const Error& why) {
                 if (!may_fail_) ADD_FAILURE() << why.message;
                 failed_ = true;
             }},
        std::make_shared<Gateway::Told>()};
};

// All compute.
class Everybody : public Alone {
protected:
    Everybody()
        : Alone([] {
              SessionOptions all = options();
              all.everyone = true;
              all.speed = {.weight_bytes_per_s = 1'000'000'000,
                           .prompt_bytes_per_s = 1'000'000'000,
                           .call_ns = 100,
                           .share_permille = 1000};
              return all;
          }()) {}
};

TEST_F(Everybody, WhoLeadsPlansAnewOnceItKnowsHowFarANeighbourIs) {
    echoes_ = false;
    adopt(2, self);
    session_.received(leader, able(32, 0));
    ASSERT_EQ(last_division().members_size(), 1) << notes_;
    echoes_ = true;
    session_.measured(leader);
    EXPECT_EQ(last_division().members_size(), 2) << notes_;
}

// The leader computes alone, and tells it what clients of its own ask for.
class Asker : public Alone {
protected:
    void begin(std::uint64_t generation) {
        wire::Work alone = division(generation, 4, false);
        alone.mutable_division()->mutable_members()->RemoveLast();
        wire::Division::Member& all = *alone.mutable_division()->mutable_members(0);
        all.mutable_ffn()->set_count(512);
        all.mutable_vocab()->set_count(8);
        sent_.clear();
        session_.received(leader, alone);
        session_.compute();
        ASSERT_TRUE(session_.state().whole) << notes_;
    }
    void ask_for_four() {
        infer::Request request;
        request.prompt = {2, 3, 4};
        request.max_tokens = 4;
        session_.ask(1, request);
    }
    // The tokens are 5, as many as there are, after so many others.
    static wire::Work told(std::uint64_t drawn, std::size_t tokens) {
        wire::Work message;
        message.mutable_told()->set_generation(1 << 20);
        message.mutable_told()->set_number(1);
        message.mutable_told()->set_drawn(drawn);
        while (tokens-- > 0) message.mutable_told()->add_sampled()->set_token(5);
        return message;
    }
    [[nodiscard]] wire::Ask asked() const {
        return last_sent([](const wire::Work& each) { return each.has_ask(); }).ask();
    }
    [[nodiscard]] bool has_interrupted() const {
        return last_sent([](const wire::Work& each) { return each.has_interrupted(); }).has_interrupted();
    }
};

TEST_F(Asker, WhatComesOutOfItsTurnInterrupts) {
    begin(1 << 20);
    ask_for_four();
    session_.received(leader, told(0, 1));
    EXPECT_FALSE(has_interrupted());
    // Of the second nothing has come.
    session_.received(leader, told(2, 1));
    EXPECT_TRUE(has_interrupted());
    session_.received(leader, told(1, 1));
    begin((1 << 20) + 1);
    EXPECT_EQ(asked().drawn(), 1U);
    EXPECT_EQ(asked().tokens_size(), 4);
}

TEST_F(Asker, NoEndComesBeforeItsTokens) {
    begin(1 << 20);
    ask_for_four();
    wire::Work end = told(4, 0);
    end.mutable_told()->mutable_ended()->set_tokens(4);
    session_.received(leader, end);
    EXPECT_TRUE(has_interrupted());
    EXPECT_EQ(session_.state().texts, 1U);
}

TEST_F(Asker, WhatDidNotGetAwayIsAskedForAgain) {
    begin(1 << 20);
    reachable_ = false;
    ask_for_four();
    reachable_ = true;
    EXPECT_EQ(asked().number(), 0U);
    while (!has_interrupted()) loop_.run_one();
    begin((1 << 20) + 1);
    EXPECT_EQ(asked().number(), 1U);
}

// Its earlier life counted its texts from one, too.
TEST_F(Asker, WhatAnEarlierLifeAskedForIsNotItsOwn) {
    begin(1 << 20);
    ask_for_four();
    wire::Work foreign = told(0, 1);
    foreign.mutable_told()->set_incarnation(7);
    session_.received(leader, foreign);
    session_.received(leader, told(0, 1));
    EXPECT_FALSE(has_interrupted()) << notes_;
}

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

// One error does not last for ever where there is nobody else.
TEST_F(Alone, WhoLeadsTriesAgainWhereNobodyCouldLoad) {
    adopt(2, self);
    session_.compute();
    ASSERT_EQ(wishes_.size(), 1U) << notes_;
    wishes_[0].done(Error{"the disk is full"});
    EXPECT_THAT(notes_, HasSubstr("waits for others"));
    while (!session_.ready()) loop_.run_one();
    session_.compute();
    EXPECT_EQ(wishes_.size(), 2U) << notes_;
}

// What is being loaded is read from where room would be made.
TEST_F(Alone, LoadsWhatIsInForceBeforeItGetsWhatIsToCome) {
    session_.received(leader, division(1 << 20, 2, false));
    session_.compute();
    ASSERT_EQ(wishes_.size(), 1U) << notes_;
    wishes_[0].done({});
    session_.received(leader, division((1 << 20) + 1, 1, true));
    EXPECT_EQ(wishes_.size(), 1U);
    const auto loading = asio::make_work_guard(loop_);
    while (!session_.ready()) loop_.run_one();
}

// Its own line divided later than the one that it comes to.
TEST_F(Alone, ItsOwnLineCountsForNothingInAnother) {
    constexpr std::uint64_t there = std::uint64_t{3} << 20;
    constexpr std::uint64_t here = std::uint64_t{9} << 20;
    session_.received(leader, division(here, 2, false));
    session_.compute();
    ASSERT_EQ(wishes_.size(), 1U) << notes_;
    session_.excluded();
    EXPECT_FALSE(session_.state().whole);
    sent_.clear();
    adopt(3, leader);
    const std::uint64_t taken = last_sent([](const wire::Work& each) { return each.has_able(); }).able().taken();
    EXPECT_GE(taken, here);
    session_.received(leader, division(there, 2, false));
    EXPECT_FALSE(session_.ready());
    // The same number in both lines is not the same division.
    session_.received(leader, division(here, 2, false));
    EXPECT_FALSE(session_.ready());
    session_.received(leader, division(taken + 1, 2, false));
    EXPECT_TRUE(session_.ready());
}

TEST_F(Alone, WhoLeadsDividesLaterThanAnybodyHasTakenUp) {
    adopt(2, self);
    session_.compute();
    const std::uint64_t before = session_.state().generation;
    ASSERT_GT(before, 0U) << notes_;
    const std::uint64_t theirs = std::uint64_t{9} << 20;
    session_.received(leader, able(32, theirs));
    EXPECT_GT(last_division().generation(), theirs) << notes_;
    // Who says what nobody can have taken up has no part.
    for (const std::uint64_t never : {std::uint64_t{1} << 62, UINT64_MAX}) {
        session_.received(leader, able(32, never));
        EXPECT_LT(last_division().generation(), theirs + 10);
        EXPECT_EQ(place_of(last_division(), leader), static_cast<std::size_t>(last_division().members_size()));
    }
}

// Who is linked, but has no part.
TEST_F(Alone, WhoIsNoMemberInterruptsNothing) {
    adopt(2, self);
    session_.compute();
    ASSERT_TRUE(session_.state().generation > 0) << notes_;
    const std::string before = notes_;
    sent_.clear();
    wire::Work message;
    message.mutable_interrupted()->set_generation(session_.state().generation);
    session_.received({3, 0}, message);
    message.mutable_interrupted()->set_why("of no reason");
    session_.received({3, 0}, message);
    EXPECT_FALSE(session_.ready());
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(notes_, before);
    session_.received(leader, message);
    EXPECT_THAT(notes_, HasSubstr("of no reason"));
}

TEST_F(Alone, WhoLeadsSaysWhyOthersHaveNoPart) {
    adopt(2, self);
    const wire::Division told = last_division();
    EXPECT_THAT(reasons_from(told.reasons()),
                testing::Contains(cluster::brief(leader) + " is left out: it has not said yet what it can do"));
}

TEST_F(Asker, WhoHasNoPartKnowsWhy) {
    begin(1 << 20);
    EXPECT_EQ(session_.state().left_out, "");
    wire::Work again = division(1 << 20, 4, false);
    again.mutable_division()->mutable_members()->RemoveLast();
    wire::Division::Member& all = *again.mutable_division()->mutable_members(0);
    all.mutable_ffn()->set_count(512);
    all.mutable_vocab()->set_count(8);
    again.mutable_division()->add_reasons("of no interest");
    again.mutable_division()->add_reasons(cluster::brief(self) + " is left out: it has no memory for its part");
    session_.received(leader, again);
    EXPECT_EQ(session_.state().reasons.size(), 2U);
    EXPECT_EQ(session_.state().left_out, "it has no memory for its part");
}

// Nobody stops the others for ever.
TEST_F(Alone, WhoInterruptsAgainAndAgainIsLeftOut) {
    adopt(2, self);
    session_.received(leader, able(32, 0));
    std::uint64_t before = 0;
    int divided = 0;
    for (; before != last_division().generation() && divided < 20; ++divided) {
        before = last_division().generation();
        wire::Work message;
        message.mutable_interrupted()->set_generation(before);
        session_.received(leader, message);
    }
    EXPECT_LT(divided, 10) << notes_;
    EXPECT_THAT(notes_, HasSubstr(cluster::brief(leader) + " interrupts the others again and again"));
    EXPECT_EQ(place_of(last_division(), leader), static_cast<std::size_t>(last_division().members_size()));
}

TEST_F(Alone, WhoHasTakenUpEverLaterDivisionsIsLeftOut) {
    adopt(2, self);
    std::uint64_t before = 0;
    int divided = 0;
    for (; divided < 20; ++divided) {
        session_.received(leader, able(32, last_division().generation() + 1));
        if (before == last_division().generation()) break;
        before = last_division().generation();
    }
    EXPECT_LT(divided, 10) << notes_;
    EXPECT_THAT(notes_, HasSubstr(cluster::brief(leader) + " interrupts the others again and again"));
}

// Who is behind asks; nothing is divided anew for that.
TEST_F(Alone, WhoLeadsTellsItsDivisionAgain) {
    adopt(2, self);
    session_.compute();
    sent_.clear();
    wire::Work behind;
    behind.mutable_interrupted()->set_generation(1);
    session_.received(leader, behind);
    EXPECT_EQ(last_division().generation(), session_.state().generation) << notes_;
}

TEST_F(Alone, WhoHeardOfNoDivisionAsksAgain) {
    sent_.clear();
    const auto asked = [&] { return last_sent([](const wire::Work& each) { return each.has_interrupted(); }); };
    while (!asked().has_interrupted()) loop_.run_one();
    session_.received(leader, division(1 << 20, 2, false));
    session_.compute();
    sent_.clear();
    loop_.run_one();
    EXPECT_FALSE(asked().has_interrupted());
}

TEST_F(Alone, WhoNeverAnswersEchoesSilencesNobody) {
    echoes_ = false;
    session_.link_up(leader);
    sent_.clear();
    const auto told = [&] { return last_sent([](const wire::Work& each) { return each.has_able(); }); };
    while (!told().has_able()) loop_.run_one();
    EXPECT_EQ(told().able().links_size(), 0);
}

// The texts of the others would end, or fail.
TEST_F(Alone, WhoOffersLessThanTheGroupHasPassesOn) {
    adopt(2, self);
    session_.compute();
    ASSERT_EQ(last_division().context(), 32U) << notes_;
    for (const std::uint64_t context : {16U, 64U}) {
        wire::Work newcomer = able(context, 0);
        newcomer.mutable_able()->set_weight_bytes_per_s(1'000'000'000'000);
        session_.received(leader, newcomer);
        adopt(context, self);  // it plans
        if (session_.ready()) session_.compute();
        EXPECT_EQ(last_division().context(), 32U) << notes_;
        EXPECT_EQ(place_of(last_division(), leader) < static_cast<std::size_t>(last_division().members_size()),
                  context > 32)
            << context << "\n"
            << notes_;
    }
}

TEST_F(Alone, WhoOffersLessSaysSo) {
    wire::Work longer = division(1 << 20, 4, false);
    longer.mutable_division()->mutable_members()->RemoveLast();
    longer.mutable_division()->set_context(64);
    wire::Division::Member& all = *longer.mutable_division()->mutable_members(0);
    all.mutable_ffn()->set_count(512);
    all.mutable_vocab()->set_count(8);
    session_.received(leader, longer);
    ASSERT_TRUE(session_.ready()) << notes_;
    session_.compute();
    EXPECT_TRUE(whole_);
    EXPECT_TRUE(session_.state().offers_less);
    EXPECT_NE(notes_.find("it offers 2 texts of 32 tokens"), std::string::npos) << notes_;
    session_.excluded();
    EXPECT_FALSE(whole_);
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

// Whoever does not lead now may lead later: what it says is looked at before it is kept.
TEST_F(Alone, KeepsNoNonsense) {
    wire::Work nobody = division(1 << 20, 2, false);
    nobody.mutable_division()->clear_members();
    session_.received({3, 0}, nobody);
    EXPECT_THAT(notes_, HasSubstr(cluster::brief(NodeId{3, 0}) + ": a division of the model makes no sense"));
    wire::Work wordy = division(1 << 20, 2, false);
    wordy.mutable_division()->set_exchange(std::string(1 << 20, 'x'));
    session_.received({4, 0}, wordy);
    EXPECT_THAT(notes_, HasSubstr(cluster::brief(NodeId{4, 0}) + ": a division of the model is too long"));
}

// What went by way of others comes later than what was said after it.
TEST_F(Alone, AnOlderDivisionDoesNotTakeThePlaceOfANewerOne) {
    constexpr std::uint64_t later = std::uint64_t{9} << 20;
    adopt(2, self);
    session_.received(leader, division(later + 1, 1, false));
    session_.received(leader, division(later, 2, false));
    adopt(3, leader);
    session_.compute();
    ASSERT_FALSE(wishes_.empty()) << notes_;
    EXPECT_EQ(wishes_.back().slice.heads, (infer::Extent{1, 3}));
}

// Whoever says what cannot be meant is named, and has no part; what it says is not kept.
TEST_F(Alone, LeavesOutByNameWhoSaysWhatCannotBe) {
    wire::Work message;
    message.mutable_able()->set_weight_bytes_per_s(1'000'000);
    message.mutable_able()->set_context(0);
    message.mutable_able()->set_sequences(1);
    session_.received(leader, message);
    session_.received(leader, message);
    EXPECT_THAT(notes_, HasSubstr(cluster::brief(leader) + " is left out"));
    EXPECT_THAT(notes_, HasSubstr("the tokens of a text are 0"));
    EXPECT_EQ(std::ranges::count(notes_, '\n'), 1);  // once
    message.mutable_able()->set_context(32);
    session_.received(leader, message);
    message.mutable_able()->set_phase_ns(std::uint64_t{1} << 51);
    session_.received(leader, message);
    EXPECT_THAT(notes_, HasSubstr("the nanoseconds of its phases"));
}

// Nobody waits for ever for what was not taken.
TEST_F(Alone, AnswersWhatItDoesNotTake) {
    const auto refusal = [&](const wire::Work& message) {
        sent_.clear();
        session_.received(leader, message);
        if (sent_.empty()) return std::string();
        EXPECT_EQ(sent_[0].told().generation(), message.ask().generation());
        EXPECT_EQ(sent_[0].told().number(), message.ask().number());
        const infer::Ended ended = ended_from(sent_[0].told().ended());
        EXPECT_EQ(ended.ending, infer::Ending::failed);
        return ended.error;
    };
    wire::Work biased = ask(1, 0);
    (*biased.mutable_ask()->mutable_bias())[1 << 30] = 1.0;
    EXPECT_THAT(refusal(biased), HasSubstr("there is no token"));
    EXPECT_THAT(refusal(ask(2, max_text_bytes)), HasSubstr("longer than a message"));
    for (std::uint64_t number = 3; number < 3 + 1024; ++number) ASSERT_EQ(refusal(ask(number, 0)), "");
    EXPECT_THAT(refusal(ask(2000, 0)), HasSubstr("too many texts"));
    // What is not wanted any more makes room.
    wire::Work drop;
    drop.mutable_drop()->set_generation(biased.ask().generation());
    drop.mutable_drop()->set_number(3);
    session_.received(leader, drop);
    EXPECT_EQ(refusal(ask(2001, 0)), "");
    EXPECT_THAT(refusal(ask(2002, 0)), HasSubstr("too many texts"));
    // What another member asks for has room of its own.
    session_.received({3, 0}, ask(1, 0));
    EXPECT_EQ(sent_.size(), 1U);
}

TEST_F(Alone, LetsOnlySoMuchWait) {
    constexpr std::size_t each = 3 << 20;
    std::size_t taken = 0;
    for (std::uint64_t number = 1; number <= 40; ++number) {
        sent_.clear();
        session_.received(leader, ask(number, each));
        if (sent_.empty()) ++taken;
    }
    EXPECT_EQ(taken, (std::size_t{64} << 20) / each);
}

// It computes alone, for another that has no slice and asks it.
class Chief : public Alone {
protected:
    static wire::Work all(std::uint64_t generation) {
        wire::Work message = division(generation, 2, false);
        message.mutable_division()->set_sequences(4);
        auto& members = *message.mutable_division()->mutable_members();
        members.DeleteSubrange(0, 1);
        members[0].set_parent(0);
        members[0].mutable_heads()->set_first(0);
        members[0].mutable_heads()->set_count(4);
        members[0].mutable_ffn()->set_first(0);
        members[0].mutable_ffn()->set_count(512);
        members[0].mutable_vocab()->set_first(0);
        members[0].mutable_vocab()->set_count(8);
        return message;
    }
    Result<LoadedSlice> load(const infer::Slice& slice) override {
        struct Owner {
            infer::Pool pool{1};
            std::optional<infer::Model> model;
        };
        auto owner = std::make_shared<Owner>();
        const infer::Config config = infer::test::divisible_config();
        const auto path = folder_.path() / "model.gguf";
        CHAOS_CHECK(infer::write_gguf(path, infer::test::small_metadata(config, false),
                                      infer::test::small_tensors(config, infer::StoredType::f32)));
        CHAOS_TRY(auto file, infer::ModelFile::open(path));
        CHAOS_TRY(owner->model, infer::Model::load(std::move(file), slice, owner->pool, {}));
        return LoadedSlice{
            .model = &*owner->model, .pool = &owner->pool, .disk_bytes_per_s = 0, .owner = std::move(owner)};
    }
    // Until texts can be computed.
    void begin() { begin(all(1 << 20)); }
    void begin(const wire::Work& division) {
        session_.received(leader, division);
        session_.compute();
        ASSERT_EQ(wishes_.size(), 1U) << notes_;
        wishes_[0].done({});
        const auto loading = asio::make_work_guard(loop_);
        while (!session_.ready()) loop_.run_one();
        session_.compute();
        ASSERT_TRUE(session_.state().whole) << notes_;
    }
    test::TemporaryFolder folder_;
};

// Of long texts only as many begin at once as a message carries; the others begin with the next passes.
TEST_F(Chief, BeginsNoMoreAtOnceThanAMessageCarries) {
    begin();
    sent_.clear();
    // The first begins at once, and alone; what comes meanwhile waits for the end of its pass.
    for (std::uint64_t number = 1; number <= 3; ++number) session_.received(leader, ask(number, 600 << 10, 8));
    std::vector<std::set<std::uint64_t>> passes;
    while (session_.ready()) {
        sent_.clear();
        session_.compute();
        std::set<std::uint64_t>& told = passes.emplace_back();
        for (const wire::Work& each : sent_)
            if (each.told().sampled_size() > 0) told.insert(each.told().number());
    }
    using Numbers = std::set<std::uint64_t>;
    ASSERT_GE(passes.size(), 3U) << notes_;
    EXPECT_EQ(passes[0], Numbers{1});
    EXPECT_EQ(passes[1], (Numbers{1, 2}));
    EXPECT_EQ(passes[2], (Numbers{1, 2, 3}));
}

// It would delay every pass.
TEST_F(Chief, GetsWhatIsNotNeededWhenNothingElseIsToBeDone) {
    begin();
    EXPECT_TRUE(gets_rest_);
    session_.received(leader, ask(1, 0, 3));
    EXPECT_FALSE(gets_rest_);
    while (session_.ready()) session_.compute();
    EXPECT_FALSE(gets_rest_);
    // It goes on soon after.
    while (!gets_rest_) loop_.run_one();
}

// Whoever has the last token has the end, too.
TEST_F(Chief, TellsTheEndWithTheLastToken) {
    begin();
    sent_.clear();
    session_.received(leader, ask(1, 0, 3));
    while (session_.ready()) session_.compute();
    std::uint64_t drawn = 0;
    bool ended = false;
    for (const wire::Work& each : sent_) {
        if (!each.has_told()) continue;
        EXPECT_EQ(each.told().drawn(), drawn);
        EXPECT_FALSE(ended);
        drawn += static_cast<std::uint64_t>(each.told().sampled_size());
        ended = each.told().has_ended();
        EXPECT_EQ(ended, drawn == 3);
    }
    EXPECT_TRUE(ended);
}

// Nobody would say that its texts are not wanted any more, and others wait for their room.
TEST_F(Chief, WhoIsGoneKeepsNoRoom) {
    const NodeId third{3, 0};
    adopt(2, leader, {{.node = third, .incarnation = 1}});
    begin();
    wire::Work asked = ask(1, 0, 20);
    asked.mutable_ask()->set_incarnation(1);
    session_.received(third, asked);
    session_.compute();
    ASSERT_TRUE(session_.ready());
    adopt(3, leader);
    for (int passes = 0; session_.ready(); ++passes) {
        ASSERT_LT(passes, 3) << notes_;
        session_.compute();
    }
    EXPECT_TRUE(session_.state().whole) << notes_;
}

TEST_F(Chief, WhoBeganAnewHearsOfItsOwnTextsAlone) {
    const NodeId third{3, 0};
    adopt(2, leader, {{.node = third, .incarnation = 1}});
    begin();
    wire::Work asked = ask(1, 0, 20);
    asked.mutable_ask()->set_incarnation(1);
    session_.received(third, asked);
    session_.compute();
    adopt(3, leader, {{.node = third, .incarnation = 2}});
    wire::Work anew = ask(1, 0, 2);
    anew.mutable_ask()->set_incarnation(2);
    session_.received(third, anew);
    sent_.clear();
    while (session_.ready()) session_.compute();
    int tokens = 0;
    for (const wire::Work& each : sent_) {
        if (!each.has_told() || each.told().incarnation() != 2) continue;
        EXPECT_EQ(each.told().drawn(), static_cast<std::uint64_t>(tokens));
        tokens += each.told().sampled_size();
    }
    EXPECT_EQ(tokens, 2);
}

TEST_F(Chief, WhatCannotBeToldInterrupts) {
    begin();
    session_.received(leader, ask(1, 0, 3));
    reachable_ = false;
    session_.compute();
    EXPECT_FALSE(session_.state().whole);
}

// Its weights are streamed from a disk.
class Streaming : public Chief {
protected:
    Result<LoadedSlice> load(const infer::Slice& slice) override {
        struct Owner {
            infer::Pool pool{1};
            std::optional<infer::Model> model;
        };
        auto owner = std::make_shared<Owner>();
        const infer::Config config = infer::test::divisible_config();
        const auto path = folder_.path() / "model.gguf";
        CHAOS_CHECK(infer::write_gguf(path, infer::test::small_metadata(config, false),
                                      infer::test::small_tensors(config, infer::StoredType::f32)));
        CHAOS_TRY(auto file, infer::ModelFile::open(path));
        const std::vector<infer::PackedTensor> tensors = infer::packed_tensors(file, slice);
        const std::vector<infer::Part> parts = infer::parts_of(tensors, 1 << 16);
        CHAOS_TRY(packed_, infer::packed_file(file, tensors, {.path = folder_.path() / "packed"}, owner->pool, {}));
        infer::WindowPlan plan;
        plan.batch.tokens = 64;
        plan.pinned.assign(parts.size(), false);
        plan.slots = infer::min_slots;
        for (const infer::Part& part : parts) {
            plan.slot_bytes = std::max(plan.slot_bytes, part.read_bytes());
            plan.streamed_bytes += part.bytes;
        }
        CHAOS_TRY(auto window, infer::Window::open(packed_, parts, plan, {}));
        owner->model = infer::Model::in_window(std::move(file), slice, std::move(window));
        return LoadedSlice{
            .model = &*owner->model, .pool = &owner->pool, .disk_bytes_per_s = 0, .owner = std::move(owner)};
    }
    std::filesystem::path packed_;
};

// Others go on without this node: the text is not over.
TEST_F(Streaming, WhatItsDiskFailsAtIsNoEndOfAText) {
    begin();
    sent_.clear();
    session_.received(leader, ask(1, 0, 20));
    session_.compute();
    may_fail_ = true;
    std::filesystem::resize_file(packed_, 0);
    while (!failed_ && session_.ready()) session_.compute();
    ASSERT_TRUE(failed_) << notes_;
    for (const wire::Work& each : sent_) EXPECT_FALSE(each.told().has_ended()) << each.told().ended().error();
}

// It computes a half, and the test is the leader, chief and other half.
class Half : public Chief {
protected:
    Half() { exchange_.connect(site_.links); }

    // As soon as it is waited for.
    void tell(std::uint64_t number, const std::vector<std::byte>& bytes) {
        auto soon = std::make_shared<asio::steady_timer>(loop_, std::chrono::milliseconds(1));
        soon->async_wait([this, number, bytes, soon](boost::system::error_code) {
            const net::BulkHead head{.kind = net::BulkKind::gradients,
                                     .bytes = static_cast<std::uint32_t>(bytes.size()),
                                     .first = 1 << 20,
                                     .second = number,
                                     .third = bytes.size(),
                                     .fourth = 0,
                                     .fifth = 0};
            const auto place = exchange_.place_for(leader, head);
            if (place.kind != net::BulkReceiver::Place::Kind::here) return tell(number, bytes);
            std::ranges::copy(bytes, place.at.begin());
            exchange_.arrived(leader, head);
        });
    }

    net::Site site_{loop_};
};

TEST_F(Half, AnOlderReadyDoesNotTakeThePlaceOfANewerOne) {
    wire::Work by_self = division(1 << 20, 2, false);
    by_self.mutable_division()->set_chief(1);
    begin(by_self);
    for (const std::uint64_t generation : {1 << 20, (1 << 20) - 1}) {
        wire::Work ready;
        ready.mutable_ready()->set_generation(generation);
        session_.received(leader, ready);
    }
    session_.received(leader, ask(1, 0));
    EXPECT_TRUE(last_sent([](const wire::Work& each) { return each.has_begin(); }).has_begin());
}

// What one member says ends no other.
TEST_F(Half, LogitsThatMakeNoSenseInterruptTheDivision) {
    begin(division(1 << 20, 2, false));
    wire::Work message;
    message.mutable_begin()->set_generation(1 << 20);
    wire::Command& command = *message.mutable_begin()->mutable_commands()->add_commands();
    *command.mutable_asker() = to_wire(leader);
    *command.mutable_ask() = ask(1, 0).ask();
    session_.received(leader, message);
    const auto config = infer::test::divisible_config();
    constexpr std::size_t tokens = 3;
    const auto sums = static_cast<std::uint64_t>(2 * config.layers);
    for (std::uint64_t number = 1; number <= sums; ++number)
        tell(number, std::vector<std::byte>(tokens * static_cast<std::size_t>(config.width) * sizeof(std::int64_t)));
    // A list of one entry: at place 0 a byte, which is too few for logits.
    std::vector<std::byte> nonsense(2 * sizeof(std::uint64_t) + 1);
    nonsense[sizeof(std::uint64_t)] = std::byte{1};
    tell(sums + 1, nonsense);
    sent_.clear();
    while (session_.ready()) session_.compute();
    EXPECT_FALSE(session_.state().whole);
    EXPECT_EQ(last_sent([](const wire::Work& each) { return each.has_interrupted(); }).interrupted().generation(),
              1U << 20);
}

}  // namespace
}  // namespace chaos::tensor
