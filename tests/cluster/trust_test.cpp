// Who may be in: credentials, join tokens, revocations, institutions.
#include "cluster/trust.h"

#include "cluster/effect.h"
#include "cluster/village.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::cluster {
namespace {

using testing::Contains;
using testing::HasSubstr;

const Name other_institution = sha256("another institution");

JoinToken token(std::uint64_t number, std::int64_t not_after = 1'800'000'000) {
    return {.id = {.high = 0x746f6b656e, .low = number}, .not_after = not_after};
}

std::string why_not(const Result<void>& result) {
    return result ? "" : result.error().message;
}

// What a newcomer says of itself; rightly, unless the test changes it.
Newcomer stranger(unsigned number, std::vector<std::uint8_t> credential,
                  const Name& institution = Village::institution(), std::optional<JoinToken> by = {}) {
    Newcomer newcomer;
    newcomer.info.id = {.node = node(number), .incarnation = 1};
    newcomer.info.institution = institution;
    newcomer.credential = std::move(credential);
    newcomer.token = by;
    return newcomer;
}

// A node that is built with this credential, tries to come in for a while, and must not.
void expect_kept_out(Village& village, unsigned number, std::vector<std::uint8_t> credential, const std::string& why) {
    const std::uint64_t refused = village.member(0).counters().refused;
    village.give(number, std::move(credential));
    village.join(number, 0);
    village.pass(10 * second);
    EXPECT_FALSE(listed(village, 0, number)) << why;
    EXPECT_GT(village.member(0).counters().refused, refused) << why;
    EXPECT_THAT(village.member(number).why(), HasSubstr(why));
    // The log of whoever refused says it, once for each connection.
    const auto said = std::ranges::count_if(village.house(0).notes, [&](const std::string& note) {
        return note == "does not let " + brief(node(number)) + " in: " + why;
    });
    EXPECT_GE(said, 1) << why;
    EXPECT_LE(said, 2) << why;
}

// A request that a member carries for somebody else, with that member's consent to a link.
Request sponsored(Village& village, unsigned sponsor, Newcomer newcomer) {
    Request request;
    request.kind = RequestKind::join;
    request.subject = newcomer.info.id;
    LinkConsent consent;
    consent.offerer = newcomer.info.id;
    consent.epoch = village.member(sponsor).view()->epoch;
    request.consents = {std::get<LinkConsent>(signed_message(village, consent, sponsor)->body)};
    request.newcomer = std::move(newcomer);
    request.epoch = consent.epoch;
    return request;
}

InstitutionCommand revoke(NodeId subject, const Name& by = Village::institution()) {
    return {.kind = RequestKind::revoke_node, .root = {}, .revocation = revocation_of(subject, by)};
}

// ---- the way in

TEST(Trust, WhoIsNotVouchedForIsToldWhy) {
    Village village;
    populate(village, 3);
    expect_kept_out(village, 5, certificate(other_institution, node(5)), "its institution is not in the cluster");
    expect_kept_out(village, 6, certificate(Village::institution(), node(1)), "its credential is for another node");
    std::vector<std::uint8_t> forged = certificate(Village::institution(), node(7));
    forged.back() ^= 1;
    expect_kept_out(village, 7, forged, "its credential is not signed by the institution that it names");
    EXPECT_TRUE(village.settled({0, 1, 2})) << village.story();
}

TEST(Trust, NobodySpeaksForAnInstitutionThatDidNotVouchForIt) {
    Village village;
    populate(village, 3);
    Ask ask;
    ask.run = sha256("run");
    ask.newcomer = stranger(1, certificate(other_institution, node(1)));  // and says that it is of ours
    const Effect effect = hand(village, 0, 1, make_message(ask));
    EXPECT_EQ(effect.risen.refused, 1U);
    ASSERT_EQ(effect.sent<Answer>().size(), 1U);
    EXPECT_EQ(effect.sent<Answer>()[0].refusal, "its credential is of another institution than it says");
    // Once in the log, however often it asks.
    EXPECT_TRUE(effect.says("does not let"));
    EXPECT_FALSE(hand(village, 0, 1, make_message(ask)).says("does not let"));
}

TEST(Trust, AnotherClusterIsKeptApart) {
    Village village;
    populate(village, 3);
    const auto expect_dropped = [&](unsigned by, const MessagePtr& message, const std::string& why) {
        const Effect effect = hand(village, by, 2, message);
        EXPECT_EQ(effect.risen.refused, 1U) << why;
        EXPECT_TRUE(effect.says(why)) << why;
        EXPECT_TRUE(std::ranges::any_of(effect.actions, [](const Action& action) {
            const auto* closed = std::get_if<CloseLink>(&action);
            return closed != nullptr && closed->peer == node(2);
        })) << why;
    };
    expect_dropped(0, make_message(Hello{.member = village.member(2).id(), .run = sha256("another run")}),
                   "it trains another run");
    LineSummary summary;
    summary.founder = sha256("another founder");
    summary.ancestors = {{.view = sha256("another view"), .epoch = 1}};
    expect_dropped(1, signed_message(village, summary, 2), "its cluster was founded apart from ours");
}

TEST(Trust, ATokenLetsInOneNodeThatMayComeBack) {
    Village village;
    populate(village, 3);
    village.give(3, redeemed(Village::institution(), token(1), node(3)));
    village.join(3, 0);
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2, 3}); })) << village.story();
    for (const unsigned member : {0U, 1U, 2U, 3U}) {
        const UsedToken* used = village.member(member).view()->find_token(token(1).id);
        ASSERT_NE(used, nullptr);
        EXPECT_EQ(used->node, node(3));
        EXPECT_EQ(used->token.not_after, token(1).not_after);
    }
    expect_kept_out(village, 4, redeemed(Village::institution(), token(1), node(4)),
                    "its join token was used by another node");
    village.crash(3);
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2}); })) << village.story();
    expect_kept_out(village, 5, redeemed(Village::institution(), token(1), node(5)),
                    "its join token was used by another node");
    village.restart(3, false);
    village.tell(3, JoinCommand{{{.node = node(0), .address = ""}}});
    EXPECT_TRUE(village.until([&] { return village.settled({0, 1, 2, 3}); })) << village.story();
}

TEST(Trust, OfTwoWithOneTokenOneComesIn) {
    Village village;
    populate(village, 3);
    village.give(3, redeemed(Village::institution(), token(1), node(3)));
    village.give(4, redeemed(Village::institution(), token(1), node(4)));
    village.join(3, 0);
    village.join(4, 1);
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2, 3}) || village.settled({0, 1, 2, 4}); }))
        << village.story();
    village.pass(20 * second);
    EXPECT_NE(listed(village, 0, 3), listed(village, 0, 4));
}

TEST(Trust, TheFoundersTokenIsUsedUp) {
    Village village;
    village.give(0, redeemed(Village::institution(), token(1), node(0)));
    populate(village, 2);
    expect_kept_out(village, 5, redeemed(Village::institution(), token(1), node(5)),
                    "its join token was used by another node");
}

TEST(Trust, AFounderIsOfAnInstitutionItLists) {
    Village village;
    village.give(0, certificate(other_institution, node(0)));
    village.found(0);
    village.pass(second);
    EXPECT_THAT(village.house(0).notes, Contains(HasSubstr("this node's institution is not among those it lists")));
    village.give(1, {1, 2, 3});
    village.found(1);
    village.pass(second);
    EXPECT_THAT(village.house(1).notes, Contains(HasSubstr("cannot found a cluster: its credential is not signed")));
    EXPECT_EQ(village.member(1).view(), nullptr);
}

// ---- nobody takes another's word

TEST(Trust, EveryMemberLooksAtACredentialBeforeItRelaysOrVotes) {
    Village village;
    village.give(0, redeemed(Village::institution(), token(1), node(0)));
    populate(village, 4);
    const std::vector<std::pair<Newcomer, std::string>> impostors = {
        {stranger(8, certificate(other_institution, node(8))), "of another institution than it says"},
        {stranger(8, certificate(other_institution, node(8)), other_institution), "its institution is not in"},
        {stranger(8, certificate(Village::institution(), node(1))), "for another node"},
        {stranger(8, {}), "not signed by the institution"},
        {stranger(8, redeemed(Village::institution(), token(1), node(8))), "of another token than it says"},
        {stranger(8, redeemed(Village::institution(), token(1), node(8)), Village::institution(), token(1)),
         "used by another node"}};
    std::uint32_t attempt = 100;
    for (const auto& [impostor, why] : impostors) {
        // Carried by a member that lies.
        const Request request = sponsored(village, 1, impostor);
        const Effect relayed = hand(village, 0, 1, signed_message(village, request, 1, 1, ++attempt));
        expect_only(relayed, &Counters::refused, why);
        EXPECT_TRUE(relayed.says(why)) << why;
        // Proposed, and told as decided, by a member that lies.
        Accept accept;
        accept.ballot = {.round = attempt, .proposer = node(1)};
        accept.delta = planned_change(*village.member(0).view());
        accept.delta.additions = {impostor};
        accept.delta.link_additions = {{.id = link_between(node(1), node(8))}};
        const Effect voted = hand(village, 0, 1, signed_message(village, accept, 1));
        EXPECT_TRUE(voted.sent<Accepted>().empty()) << why;
        EXPECT_TRUE(voted.says(why)) << why;
        Decide decide;
        decide.ballot = accept.ballot;
        decide.delta = accept.delta;
        const Effect followed = hand(village, 0, 1, signed_message(village, decide, 1));
        EXPECT_FALSE(followed.changed) << why;
        EXPECT_TRUE(followed.says(why)) << why;
    }
    // An honest newcomer is relayed by the same way.
    const Request honest = sponsored(village, 1, stranger(8, certificate(Village::institution(), node(8))));
    EXPECT_FALSE(hand(village, 0, 1, signed_message(village, honest, 1, 1, 99)).sent<Request>().empty());
}

// ---- the way out

TEST(Trust, ARevokedNodeNeverComesBack) {
    Village village;
    populate(village, 4);
    village.tell(0, revoke(node(2)));
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 3}); })) << village.story();
    ASSERT_TRUE(village.until([&] { return !village.house(2).excluded.empty(); })) << village.story();
    EXPECT_TRUE(village.until([&] {
        return std::ranges::none_of(village.links, [](LinkId link) { return link.touches(node(2)); });
    })) << "its links are closed";
    village.crash(2);
    const std::uint64_t refused = village.member(0).counters().refused;
    village.restart(2, false);
    village.tell(2, JoinCommand{{{.node = node(0), .address = ""}}});
    ASSERT_TRUE(village.until([&] { return village.member(0).counters().refused > refused; })) << village.story();
    village.pass(20 * second);
    EXPECT_TRUE(village.settled({0, 1, 3}));
    EXPECT_EQ(village.member(2).role(), Role::joining);
    EXPECT_THAT(village.house(2).notes, Contains(HasSubstr("this node was revoked")));
    EXPECT_THAT(village.member(2).why(), HasSubstr("this node was revoked"));
}

TEST(Trust, ANodeThatIsNotThereIsRevokedAllTheSame) {
    Village village;
    populate(village, 3);
    village.tell(1, revoke(node(5)));
    ASSERT_TRUE(village.until([&] { return village.member(2).view()->revokes(node(5), Village::institution()); }))
        << village.story();
    expect_kept_out(village, 5, certificate(Village::institution(), node(5)), "this node was revoked");
}

TEST(Trust, ARevokedTokenTakesOutWhoCameInByIt) {
    Village village;
    populate(village, 3);
    village.give(3, redeemed(Village::institution(), token(1), node(3)));
    village.join(3, 0);
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2, 3}); })) << village.story();
    village.tell(0, revoke(token(1).id));
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2}); })) << village.story();
    ASSERT_TRUE(village.until([&] { return !village.house(3).excluded.empty(); })) << village.story();
    village.crash(3);
    expect_kept_out(village, 3, redeemed(Village::institution(), token(1), node(3)), "its join token was revoked");
    village.crash(3);
    // The node itself is as good as before.
    village.give(3, certificate(Village::institution(), node(3)));
    village.join(3, 0);
    EXPECT_TRUE(village.until([&] { return village.settled({0, 1, 2, 3}); })) << village.story();
}

TEST(Trust, OnlyTheInstitutionThatVouchedForANodeRevokesIt) {
    Village village;
    populate(village, 3);
    village.tell(
        0, InstitutionCommand{.kind = RequestKind::admit_institution, .root = other_institution, .revocation = {}});
    ASSERT_TRUE(village.until([&] { return village.member(0).view()->institution_in(other_institution); }));

    Request request;
    request.kind = RequestKind::revoke_node;
    request.subject.node = node(2);
    request.epoch = village.member(0).view()->epoch;
    const auto expect_refused = [&](const Name& by, std::vector<std::uint8_t> bytes, const std::string& why) {
        request.name = by;
        request.revocation = std::move(bytes);
        const Effect effect = hand(village, 0, 1, signed_message(village, request, 1));
        expect_only(effect, &Counters::refused, why);
        EXPECT_TRUE(effect.says(why)) << why;
    };
    const Name ours = Village::institution();
    expect_refused(ours, {}, "not signed by the institution");
    expect_refused(ours, revocation_of(node(1), ours), "of another node, or by another institution");
    expect_refused(ours, revocation_of(node(2), other_institution), "of another node, or by another institution");
    expect_refused(other_institution, revocation_of(node(2), other_institution), "revokes its own nodes only");
    const Name unknown = sha256("a third institution");
    expect_refused(unknown, revocation_of(node(2), unknown), "the institution that revokes it is not in the cluster");
    EXPECT_TRUE(hand(village, 0, revoke(node(2), other_institution)).says("an institution revokes its own nodes only"));
    // What it revokes while the node is away holds for its own credentials only.
    village.tell(0, revoke(node(6), other_institution));
    ASSERT_TRUE(village.until([&] { return village.member(0).view()->revokes(node(6), other_institution); }));
    expect_kept_out(village, 6, certificate(other_institution, node(6)), "this node was revoked");
    village.crash(6);
    village.give(6, certificate(ours, node(6)));
    village.join(6, 0);
    EXPECT_TRUE(village.until([&] { return village.settled({0, 1, 2, 6}); })) << village.story();
}

TEST(Trust, AnInstitutionIsAdmittedAndItsRemovalTakesItsMembersOut) {
    Village village;
    populate(village, 3);
    expect_kept_out(village, 3, certificate(other_institution, node(3)), "its institution is not in the cluster");
    village.tell(
        0, InstitutionCommand{.kind = RequestKind::admit_institution, .root = other_institution, .revocation = {}});
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2, 3}); })) << village.story();
    village.tell(
        1, InstitutionCommand{.kind = RequestKind::remove_institution, .root = other_institution, .revocation = {}});
    ASSERT_TRUE(village.until([&] { return village.settled({0, 1, 2}); })) << village.story();
    EXPECT_FALSE(village.member(0).view()->institution_in(other_institution));
    village.pass(20 * second);
    EXPECT_FALSE(village.house(3).excluded.empty());
    EXPECT_TRUE(village.settled({0, 1, 2}));
    EXPECT_EQ(village.member(3).role(), Role::joining);
    EXPECT_THAT(village.member(3).why(), HasSubstr("its institution was removed from the cluster"));
}

// ---- the view's memory

TEST(Trust, OfTooManyUsedTokensTheOneThatEndsSoonestIsForgotten) {
    View view;
    view.name = sha256("full");
    view.institutions = {{.root = Village::institution()}};
    MemberInfo founder;
    founder.id = {.node = node(0), .incarnation = 1};
    founder.standing = Standing::active;
    founder.institution = Village::institution();
    view.members = {founder};
    for (std::uint64_t i = 0; i < max_tokens; ++i)
        view.tokens.push_back({.token = token(i, i == 77 ? 5 : 10), .node = node(0)});
    complete(view);
    Delta delta;
    delta.parent = view.name;
    delta.epoch = 1;
    delta.additions = {stranger(1, {}, Village::institution(), token(max_tokens, 3))};
    delta.link_additions = {{.id = link_between(node(0), node(1))}};
    const Result<ViewPtr> next = apply(view, &view, delta);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ((*next)->tokens.size(), max_tokens);
    EXPECT_EQ((*next)->find_token(token(77).id), nullptr);
    ASSERT_NE((*next)->find_token(token(max_tokens).id), nullptr) << "the one just used is not forgotten at once";
    EXPECT_EQ((*next)->find_token(token(max_tokens).id)->node, node(1));
    const Result<ViewPtr> read = decode_view(encode(**next));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ((*read)->tokens, (*next)->tokens);
}

TEST(Trust, TheViewSaysWhomItLetsIn) {
    View view;
    view.institutions = {{.root = Village::institution()},
                         {.root = other_institution, .standing = InstitutionStanding::removed}};
    std::ranges::sort(view.institutions, {}, &Institution::root);
    view.revoked = {{.subject = node(1), .by = Village::institution()}, {.subject = node(2), .by = {}}};
    view.tokens = {{.token = token(1), .node = node(3)}};
    const Vouched ours{.institution = Village::institution()};
    const Vouched by_token{.institution = Village::institution(), .token = token(1)};
    EXPECT_EQ(why_not(admits(view, node(0), ours)), "");
    EXPECT_EQ(why_not(admits(view, node(0), {.institution = sha256("x")})), "its institution is not in the cluster");
    EXPECT_EQ(why_not(admits(view, node(0), {.institution = other_institution})),
              "its institution was removed from the cluster");
    EXPECT_EQ(why_not(admits(view, node(1), ours)), "this node was revoked");
    EXPECT_EQ(why_not(admits(view, node(2), ours)), "this node was expelled");
    EXPECT_EQ(why_not(admits(view, node(3), by_token)), "");
    EXPECT_EQ(why_not(admits(view, node(4), by_token)), "its join token was used by another node");
}

}  // namespace
}  // namespace chaos::cluster
