// What a running member refuses: each kind of bad message changes nothing, is counted by its cause, and is refused in
// words; and what a member must not get away with.
#include "cluster/compose.h"
#include "cluster/member.h"

#include "cluster/effect.h"
#include "cluster/village.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::cluster {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A newcomer shows the consents it was given. Nobody can make it show more than it asked for.
TEST(Rejection, ConsentsThatNobodyAskedFor) {
    const PlainSigner signer(node(0));
    Identity identity;
    identity.member = {.node = node(0), .incarnation = 1};
    Member newcomer({}, identity, signer, std::nullopt, std::nullopt, 0);
    Nanoseconds now = 0;
    const auto tell = [&](const Event& event) { return newcomer.step(event, ++now); };
    (void)tell(JoinCommand{{{.node = node(1), .address = ""}}});
    for (unsigned i = 1; i <= 100; ++i) {
        (void)tell(LinkUp{node(i)});
        (void)tell(Received{.from = node(i), .message = make_message(Answer{})});
        LinkConsent consent;
        consent.offerer = identity.member;
        const MemberId author{.node = node(i), .incarnation = 1};
        (void)tell(Received{.from = node(i), .message = make_signed(consent, author, 0, PlainSigner(node(i)))});
    }
    now += 2 * second;
    for (const Action& action : tell(Tick{})) {
        const auto* send = std::get_if<Send>(&action);
        EXPECT_FALSE(send != nullptr && std::holds_alternative<Request>(send->message->body));
    }
    EXPECT_EQ(newcomer.counters().refused, 100U);
}

Request leave_of(Village& village, unsigned number) {
    Request request;
    request.kind = RequestKind::leave;
    request.subject = village.member(number).id();
    return request;
}
Request request_for_link(RequestKind kind, unsigned x, unsigned y) {
    Request request;
    request.kind = kind;
    request.link = link_between(node(x), node(y));
    return request;
}
Prepare prepare_for(const View& view, std::uint32_t round, unsigned proposer) {
    Prepare prepare;
    prepare.parent = view.name;
    prepare.epoch = view.epoch + 1;
    prepare.ballot = {.round = round, .proposer = node(proposer)};
    return prepare;
}
Accepted vote_for(const View& view, std::uint32_t round, unsigned proposer, std::string_view value) {
    Accepted vote;
    vote.parent = view.name;
    vote.epoch = view.epoch + 1;
    vote.ballot = {.round = round, .proposer = node(proposer)};
    vote.value = sha256(value);
    return vote;
}

bool said_anywhere(const Village& village, const std::string& words) {
    return std::ranges::any_of(village.houses, [&](const auto& entry) {
        return std::ranges::any_of(entry.second.notes,
                                   [&](const std::string& note) { return note.find(words) != std::string::npos; });
    });
}

// ---- messages that change nothing

TEST(Rejection, ForgedSignatures) {
    Village village;
    populate(village, 4);
    const View& view = *village.member(0).view();
    Accept accept;
    accept.ballot = {.round = 3, .proposer = node(1)};
    accept.delta = planned_change(view);
    Decide decide;
    decide.ballot = accept.ballot;
    decide.delta = accept.delta;
    Proof proof;
    History history;
    LineSummary summary;
    summary.founder = view.founder;
    LinkConsent consent;
    consent.offerer = village.member(0).id();
    const std::vector<Body> bodies = {
        leave_of(village, 1), prepare_for(view, 3, 1), accept, decide, proof, history, summary, consent};
    for (const Body& body : bodies)
        expect_only(hand(village, 0, 1, signed_message(village, body, 1, 2)), &Counters::forged, kind_of(body));
    EXPECT_TRUE(village.settled({0, 1, 2, 3}));
}

TEST(Rejection, OneChangedByteSpoilsASignature) {
    Village village;
    populate(village, 3);
    const MessagePtr honest = signed_message(village, leave_of(village, 1), 1);
    Request other = std::get<Request>(honest->body);
    other.subject = village.member(2).id();
    expect_only(hand(village, 0, 1, make_message(other)), &Counters::forged, "another's leave");
}

TEST(Rejection, NobodyAsksOrOffersInTheNameOfAnother) {
    Village village;
    populate(village, 3);
    Ask ask;
    ask.run = sha256("run");
    ask.newcomer.info.id = village.member(2).id();
    expect_only(hand(village, 0, 1, make_message(ask)), &Counters::forged, "Ask");
    expect_only(hand(village, 0, 1, make_message(LinkOffer{village.member(2).id()})), &Counters::forged, "LinkOffer");
}

TEST(Rejection, AReplayedRequestIsSeenOnce) {
    Village village;
    populate(village, 3);
    Request request;
    request.kind = RequestKind::speed;
    request.subject = village.member(1).id();
    request.value = 1200;
    const MessagePtr message = signed_message(village, request, 1);
    const Effect first = hand(village, 0, 1, message);
    EXPECT_EQ(first.counted(), 0U);
    EXPECT_FALSE(first.sent<Request>().empty());  // relayed
    expect_only(hand(village, 0, 1, message), &Counters::repeated, "from the same neighbour");
    expect_only(hand(village, 0, 2, message), &Counters::repeated, "from another neighbour");
}

TEST(Rejection, ARequestReplayedAfterItsTimeIsStale) {
    Village village;
    populate(village, 4);
    // Not yet seen by anybody: as if it had been held back.
    const MessagePtr old_leave = signed_message(village, leave_of(village, 3), 3, 3, 77);
    village.tell(3, LeaveCommand{});
    ASSERT_TRUE(village.until([&] { return village.house(3).left && village.settled({0, 1, 2}); })) << village.story();
    expect_only(hand(village, 0, 1, old_leave), &Counters::stale, "the leave of one who has left");
    // It comes back: what its earlier life asked for does not concern the new one.
    village.restart(3, false);
    village.house(3).left = false;
    village.tell(3, JoinCommand{{{.node = node(0), .address = ""}}});
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2, 3}); })) << village.story();
    expect_only(hand(village, 2, 1, old_leave), &Counters::stale, "the leave of an earlier life");
    EXPECT_TRUE(listed(village, 0, 3));
}

TEST(Rejection, OldEpochs) {
    Village village;
    populate(village, 3);
    const ViewPtr old = village.member(0).view();
    village.join(3, 0);
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2, 3}); })) << village.story();
    Accept accept;
    accept.ballot = {.round = 9, .proposer = node(1)};
    accept.delta = planned_change(*old);
    Decide decide;
    decide.ballot = accept.ballot;
    decide.delta = accept.delta;
    expect_only(hand(village, 0, 1, signed_message(village, prepare_for(*old, 9, 1), 1)), &Counters::stale, "Prepare");
    expect_only(hand(village, 0, 1, signed_message(village, accept, 1)), &Counters::stale, "Accept");
    expect_only(hand(village, 0, 1, signed_message(village, decide, 1)), &Counters::stale, "Decide");
    expect_only(hand(village, 0, 1, signed_message(village, vote_for(*old, 9, 0, "value"), 1)), &Counters::stale,
                "a vote that nobody asked for");
    Promise promise;
    promise.parent = old->name;
    expect_only(hand(village, 0, 1, signed_message(village, promise, 1)), &Counters::stale,
                "a promise that nobody asked for");
}

TEST(Rejection, BallotsOfOthers) {
    Village village;
    populate(village, 3);
    const View& view = *village.member(0).view();
    ASSERT_EQ(view.longest_standing(), node(0));
    Accept usurped;  // round 0 belongs to the longest-standing member
    usurped.ballot = {.round = 0, .proposer = node(1)};
    usurped.delta = planned_change(view);
    expect_only(hand(village, 2, 1, signed_message(village, usurped, 1)), &Counters::stale, "round 0");
    // A ballot is proposed by its proposer, and by a member.
    expect_only(hand(village, 0, 1, signed_message(village, prepare_for(view, 4, 2), 1)), &Counters::stale,
                "another's");
    expect_only(hand(village, 0, 1, signed_message(village, prepare_for(view, 4, 7), 1)), &Counters::stale, "nobody's");
}

TEST(Rejection, ABallotBelowThePromisedOneIsToldWhatBarsIt) {
    Village village;
    populate(village, 3);
    const View& view = *village.member(0).view();
    const Effect high = hand(village, 0, 1, signed_message(village, prepare_for(view, 5, 1), 1));
    ASSERT_EQ(high.sent<Promise>().size(), 1U);
    EXPECT_EQ(high.sent<Promise>()[0].ballot, (Ballot{.round = 5, .proposer = node(1)}));

    const Effect low = hand(village, 0, 2, signed_message(village, prepare_for(view, 4, 2), 2));
    ASSERT_EQ(low.sent<Promise>().size(), 1U);
    EXPECT_EQ(low.sent<Promise>()[0].ballot, (Ballot{.round = 5, .proposer = node(1)}));
    Accept accept;
    accept.ballot = {.round = 4, .proposer = node(2)};
    accept.delta = planned_change(view);
    const Effect vote = hand(village, 0, 2, signed_message(village, accept, 2));
    ASSERT_EQ(vote.sent<Accepted>().size(), 1U);
    EXPECT_EQ(vote.sent<Accepted>()[0].value, Name{});
    EXPECT_EQ(vote.sent<Accepted>()[0].promised, (Ballot{.round = 5, .proposer = node(1)}));
    for (const Effect* effect : {&low, &vote}) {
        EXPECT_FALSE(effect->changed);
        EXPECT_TRUE(std::ranges::none_of(effect->actions,
                                         [](const Action& action) { return std::holds_alternative<Persist>(action); }));
    }
}

TEST(Rejection, AViewThatCannotFollowIsNotVotedForAndTheLogSaysWhy) {
    Village village;
    populate(village, 3);
    Accept accept;
    accept.ballot = {.round = 2, .proposer = node(1)};
    accept.delta = planned_change(*village.member(0).view());
    accept.delta.removals = {{.node = node(9), .reason = Reason::left}};
    const Effect effect = hand(village, 0, 1, signed_message(village, accept, 1));
    EXPECT_EQ(effect.risen.refused, 1U);
    EXPECT_FALSE(effect.changed);
    EXPECT_TRUE(effect.sent<Accepted>().empty());
    EXPECT_TRUE(effect.says("does not vote for a view proposed by"));
}

TEST(Rejection, Garbage) {
    Village village;
    populate(village, 2);
    expect_only(hand(village, 0, ReceivedGarbage{node(1)}), &Counters::malformed, "bytes that are no message");
    const MessagePtr whole = signed_message(village, leave_of(village, 1), 1);
    for (std::size_t size = 0; size < whole->bytes.size(); ++size) {
        const Result<MessagePtr> cut = decode_message(std::span(whole->bytes).first(size));
        ASSERT_FALSE(cut) << size;
        EXPECT_FALSE(cut.error().message.empty()) << size;
    }
}

TEST(Rejection, WithoutAConnectionThereIsNoMessage) {
    Village village;
    populate(village, 2);
    expect_only(hand(village, 0, 9, make_message(Bye{.reason = "x"})), &Counters::stale, "from a stranger");
}

// ---- requests that are not allowed

TEST(Rejection, ANonMemberAsksForNothing) {
    Village village;
    populate(village, 3);
    const MemberId stranger{.node = node(9), .incarnation = 1};
    Request leave;
    leave.kind = RequestKind::leave;
    leave.subject = stranger;
    for (const Request& request : {leave, request_for_link(RequestKind::disconnect, 0, 1)})
        expect_only(hand(village, 0, 1, make_signed(request, stranger, 1, PlainSigner(node(9)))), &Counters::stale,
                    "by a stranger");
}

TEST(Rejection, OnlyAnEndOfALinkSpeaksForIt) {
    Village village;
    populate(village, 3);
    ASSERT_NE(village.member(0).view()->find(link_between(node(0), node(1))), nullptr);
    for (const RequestKind kind : {RequestKind::disconnect, RequestKind::link_down, RequestKind::link_up}) {
        const Request request = request_for_link(kind, 0, 1);
        expect_only(hand(village, 0, 2, signed_message(village, request, 2)), &Counters::refused, "by a third");
    }
    Request request = request_for_link(RequestKind::disconnect, 0, 1);
    request.stamp.author = village.member(2).id();
    const Fitness fit = fitness(*village.member(0).view(), request, nullptr);
    EXPECT_EQ(fit.kind, Fitness::Kind::refused);
    EXPECT_EQ(fit.why, "only an end of a link may speak for it");
    village.pass(5 * second);
    EXPECT_NE(village.member(0).view()->find(link_between(node(0), node(1))), nullptr);
}

TEST(Rejection, ALinkNeedsTheConsentOfBothEnds) {
    Village village;
    village.options.links_wanted = 1;
    populate(village, 4);
    const View& view = *village.member(0).view();
    for (unsigned x = 0; x < 4; ++x)
        for (unsigned y = x + 1; y < 4; ++y) {
            if (view.find(link_between(node(x), node(y))) != nullptr) continue;
            Request request = request_for_link(RequestKind::connect, x, y);
            const unsigned to = x == 0 ? 3 - (y == 3 ? 1 : 0) : 0;
            if (!village.links.contains(link_between(node(to), node(x)))) continue;
            expect_only(hand(village, to, x, signed_message(village, request, x)), &Counters::refused, "no consent");
            LinkConsent self_made;  // in the name of the other end, by the wrong key
            self_made.offerer = village.member(x).id();
            self_made.stamp = {.author = village.member(y).id(), .attempt = 0, .signature = {}};
            request.consents = {self_made};
            expect_only(hand(village, to, x, signed_message(village, request, x)), &Counters::refused,
                        "forged consent");
        }
}

TEST(Rejection, NobodySpeaksForAnotherMember) {
    Village village;
    populate(village, 3);
    Request activate;
    activate.kind = RequestKind::activate;
    activate.subject = village.member(1).id();
    Request speed;
    speed.kind = RequestKind::speed;
    speed.subject = village.member(1).id();
    for (const Request& request : {leave_of(village, 1), activate, speed})
        expect_only(hand(village, 0, 2, signed_message(village, request, 2)), &Counters::refused, "for another");
}

TEST(Rejection, ARefusedCommandSaysWhy) {
    Village village;
    populate(village, 2);
    const auto says = [&](const Event& event, const std::string& words) { return hand(village, 0, event).says(words); };
    EXPECT_TRUE(says(DisconnectCommand{node(9)}, "there is no such link"));
    EXPECT_TRUE(says(ConnectCommand{node(9)}, "it is not another member"));
    EXPECT_TRUE(says(InstitutionCommand{.kind = RequestKind::revoke_node, .root = {}, .revocation = {1, 2}},
                     "not signed by the institution"));
    EXPECT_TRUE(says(FoundCommand{}, "this node has one already"));
}

TEST(Rejection, NewcomersAreRefusedInWords) {
    Village village;
    populate(village, 3);
    const auto answer_to = [&](const Ask& ask) {
        const Effect effect = hand(village, 0, 1, make_message(ask));
        EXPECT_EQ(effect.risen.refused, 1U);
        EXPECT_FALSE(effect.changed);
        const std::vector<Answer> answers = effect.sent<Answer>();
        return answers.size() == 1 ? answers[0].refusal : std::string("no answer");
    };
    Ask ask;
    ask.newcomer.info.id = village.member(1).id();
    ask.newcomer.info.institution = Village::institution();
    ask.newcomer.credential = certificate(Village::institution(), node(1));
    ask.run = sha256("another run");
    EXPECT_EQ(answer_to(ask), "this cluster trains another run");
    ask.run = sha256("run");
    ++ask.newcomer.info.id.incarnation;  // the same key running twice
    EXPECT_EQ(answer_to(ask), "this key is a member already, by another life that has not been missed yet");
}

// ---- what has consequences

TEST(Rejection, ADoubleVoteIsProvenAndExpels) {
    Village village;
    populate(village, 4);
    const View& view = *village.member(0).view();
    for (const char* value : {"one", "other"})
        village.tell(0, Received{.from = node(1), .message = signed_message(village, vote_for(view, 7, 3, value), 1)});
    ASSERT_TRUE(village.until([&] { return village.settled({0, 2, 3}); })) << village.story();
    for (const unsigned number : {0U, 2U, 3U})
        EXPECT_THAT(village.house(number).notes, Contains(HasSubstr("voted twice in one ballot")));
    EXPECT_TRUE(village.member(0).view()->revokes(node(1), Village::institution()));
    EXPECT_TRUE(village.until([&] { return !village.house(1).excluded.empty(); })) << village.story();
    // For good, in any life.
    village.crash(1);
    village.restart(1, false);
    village.tell(1, JoinCommand{{{.node = node(0), .address = ""}, {.node = node(2), .address = ""}}});
    village.pass(20 * second);
    EXPECT_FALSE(listed(village, 0, 1));
    EXPECT_THAT(village.house(1).notes, Contains(HasSubstr("this node was expelled")));
}

TEST(Rejection, TwoOffersInOneBallotAreADoubleVote) {
    Village village;
    populate(village, 4);
    Accept accept;
    accept.ballot = {.round = 7, .proposer = node(1)};
    accept.delta = planned_change(*village.member(0).view());
    const MessagePtr first = signed_message(village, accept, 1);
    ++accept.delta.first_step;
    village.tell(0, Received{.from = node(1), .message = first});
    village.tell(0, Received{.from = node(1), .message = signed_message(village, accept, 1)});
    EXPECT_TRUE(village.until([&] { return !listed(village, 0, 1) && !listed(village, 2, 1); })) << village.story();
    EXPECT_TRUE(said_anywhere(village, "voted twice in one ballot"));
}

TEST(Rejection, WhatLooksLikeADoubleVoteButIsNone) {
    Village village;
    populate(village, 4);
    const View& view = *village.member(0).view();
    const auto expect_no_proof = [&](const Accepted& one, const Accepted& other, unsigned signed_by) {
        hand(village, 0, 1, signed_message(village, one, 1));
        const Effect effect = hand(village, 0, 1, signed_message(village, other, 1, signed_by));
        EXPECT_TRUE(effect.sent<Proof>().empty());
        EXPECT_FALSE(effect.changed);
    };
    expect_no_proof(vote_for(view, 7, 3, "one"), vote_for(view, 8, 3, "other"), 1);  // in another ballot
    Accepted refusal = vote_for(view, 9, 3, "one");
    refusal.value = Name{};
    expect_no_proof(vote_for(view, 9, 3, "one"), refusal, 1);
    Accepted with_claims = vote_for(view, 10, 3, "one");
    with_claims.claims = {{.id = link_between(node(0), node(1))}};
    expect_no_proof(vote_for(view, 10, 3, "one"), with_claims, 1);                     // the same vote, told again
    expect_no_proof(vote_for(view, 11, 3, "one"), vote_for(view, 11, 3, "other"), 2);  // the second by another's key

    // Nor is anybody framed by what is no proof.
    Proof framed;
    framed.first = signed_message(village, vote_for(view, 12, 3, "one"), 1)->bytes;
    framed.second = signed_message(village, vote_for(view, 12, 3, "other"), 1, 2)->bytes;
    expect_only(hand(village, 0, 2, signed_message(village, framed, 2)), &Counters::refused, "a forged vote");
    framed.second = signed_message(village, vote_for(view, 13, 3, "other"), 1)->bytes;
    expect_only(hand(village, 0, 2, signed_message(village, framed, 2)), &Counters::refused, "two ballots");
    framed.second = signed_message(village, vote_for(view, 12, 3, "other"), 3)->bytes;
    expect_only(hand(village, 0, 2, signed_message(village, framed, 2)), &Counters::stale, "two authors");
    framed.second = {1, 2, 3};
    expect_only(hand(village, 0, 2, signed_message(village, framed, 2)), &Counters::refused, "garbage");
    village.pass(5 * second);
    EXPECT_TRUE(listed(village, 0, 1));
}

TEST(Rejection, ADisconnectThatCutsTheGraphIsAScaleInAndSaysSo) {
    Village village;
    village.options.links_wanted = 1;
    populate(village, 3);
    while (village.member(0).view()->degree(node(2)) > 1) {
        const NodeId peer = village.member(0).view()->neighbours(node(2))[0];
        village.tell(2, DisconnectCommand{peer});
        ASSERT_TRUE(village.until([&] {
            return village.member(0).view()->find(link_between(node(2), peer)) == nullptr;
        })) << village.story();
        ASSERT_TRUE(listed(village, 0, 2));
    }
    EXPECT_FALSE(said_anywhere(village, "scale-in"));
    village.tell(2, DisconnectCommand{village.member(0).view()->neighbours(node(2))[0]});
    ASSERT_TRUE(village.until([&] { return !listed(village, 0, 2); })) << village.story();
    EXPECT_TRUE(said_anywhere(village, "cuts off " + brief(node(2)) + ": this is a scale-in")) << village.story();
    EXPECT_TRUE(village.until([&] { return village.settled({0, 1}); })) << village.story();
}

}  // namespace
}  // namespace chaos::cluster
