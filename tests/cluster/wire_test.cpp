#include "base/random.h"
#include "cluster/message.h"
#include "cluster/village.h"

#include <gtest/gtest.h>

namespace chaos::cluster {
namespace {

Name name(const std::string& text) {
    return sha256(text);
}

Delta rich_delta() {
    Delta delta;
    delta.parent = name("parent");
    delta.epoch = 7;
    delta.first_step = 41;
    delta.fork = Fork::forced;
    delta.settlement = Settlement{
        .applied = 41, .holders = {{1, 2}, {3, 4}}, .founded = false, .lineage = name("l"), .from_joiners = false};
    delta.removals = {{.node = {5, 6}, .reason = Reason::failed}};
    MemberInfo info;
    info.id = {.node = {7, 8}, .incarnation = 9};
    info.institution = name("institution");
    info.address = "[2001:db8::1]:4242";
    delta.additions = {{.info = info, .credential = {1, 2, 3}, .token = JoinToken{.id = {8, 8}, .not_after = -5}}};
    delta.activations = {{.node = {1, 1}, .incarnation = 2}};
    delta.link_removals = {{.link = {{1, 2}, {3, 4}}, .reason = Reason::closed}};
    delta.link_additions = {{.id = {{1, 2}, {7, 8}}, .figures = {.rate_ab = 100, .rate_ba = 200, .delay_us = 300}}};
    delta.institutions = {{.root = name("institution"), .standing = InstitutionStanding::removed}};
    delta.revocations = {{.subject = {9, 9}, .by = name("institution")}};
    delta.speeds = {{{1, 2}, 77}};
    delta.meetings = {{.other = name("other"), .samples = 640}};
    return delta;
}

// One message of every kind, with every field filled.
std::vector<MessagePtr> every_kind() {
    const PlainSigner signer({1, 1});
    const MemberId author{.node = {1, 1}, .incarnation = 5};
    std::vector<MessagePtr> all;
    all.push_back(make_message(Hello{.member = author, .role = Role::active, .run = name("run")}));
    all.push_back(
        make_message(Heartbeat{.role = Role::active, .epoch = 3, .view = name("v"), .applied = 9, .sent_at = 1}));
    all.push_back(make_message(Bye{"closing"}));
    all.push_back(make_message(Ask{.run = name("run"), .newcomer = rich_delta().additions[0]}));
    all.push_back(make_message(Answer{.refusal = "no", .candidates = {{.node = {2, 2}, .address = "x"}}}));
    all.push_back(make_message(LinkOffer{author}));
    LinkConsent consent;
    consent.offerer = {.node = {4, 4}, .incarnation = 1};
    all.push_back(make_signed(consent, author, 0, signer));
    all.push_back(make_message(CatchUp{.view = name("v"), .epoch = 4}));
    LineSummary summary;
    summary.founder = name("f");
    summary.ancestors = {{.view = name("a"), .epoch = 1, .fork = true}};
    summary.meetings = {{.other = name("o"), .samples = 5}};
    all.push_back(make_signed(summary, author, 0, signer));
    Request request;
    request.kind = RequestKind::join;
    request.subject = author;
    request.newcomer = rich_delta().additions[0];
    request.revocation = {7, 7, 7};
    request.consents = {std::get<LinkConsent>(all[6]->body)};
    request.claims = {{.id = {{1, 1}, {4, 4}}, .figures = {.rate_ab = 1, .rate_ba = 2, .delay_us = 3}}};
    all.push_back(make_signed(request, author, 3, signer));
    Prepare prepare;
    prepare.ballot = {.round = 2, .proposer = {1, 1}};
    prepare.flush = true;
    all.push_back(make_signed(prepare, author, 1, signer));
    Accept accept;
    accept.delta = rich_delta();
    all.push_back(make_signed(accept, author, 1, signer));
    Decide decide;
    decide.delta = rich_delta();
    all.push_back(make_signed(decide, author, 1, signer));
    Promise promise;
    promise.accepted = Vote{.ballot = {.round = 1, .proposer = {1, 1}}, .delta = rich_delta()};
    promise.report.role = Role::returning;
    promise.report.address = "y";
    promise.report.down = {{.peer = {3, 3}, .reason = Reason::closed}};
    all.push_back(make_signed(promise, author, 0, signer));
    Accepted accepted;
    accepted.value = name("value");
    accepted.claims = request.claims;
    all.push_back(make_signed(accepted, author, 0, signer));
    Proof proof;
    proof.first = {1, 2, 3};
    proof.second = {4};
    all.push_back(make_signed(proof, author, 0, signer));
    History history;
    history.decisions = {std::get<Decide>(all[12]->body)};
    history.view = std::vector<std::uint8_t>{1, 2};
    history.ancestors = summary.ancestors;
    history.lost = {{.node = {2, 2}, .address = "x"}};
    all.push_back(make_signed(history, author, 0, signer));
    return all;
}

TEST(Wire, EveryKindReadsBackToTheSameBytes) {
    const std::vector<MessagePtr> all = every_kind();
    std::set<std::size_t> kinds;
    for (const MessagePtr& message : all) {
        kinds.insert(message->body.index());
        const Result<MessagePtr> read = decode_message(message->bytes);
        ASSERT_TRUE(read.ok()) << kind_of(message->body) << ": " << read.error().message;
        EXPECT_EQ((*read)->hash, message->hash);
        EXPECT_EQ((*read)->body.index(), message->body.index());
        EXPECT_EQ(make_message((*read)->body)->bytes, message->bytes) << kind_of(message->body);
    }
    EXPECT_EQ(kinds.size(), std::variant_size_v<Body>);
}

TEST(Wire, ASignatureCoversEveryByte) {
    const PlainSigner signer({1, 1});
    for (const MessagePtr& message : every_kind()) {
        if (stamp_of(message->body) == nullptr) continue;
        EXPECT_TRUE(signature_fits(*message, signer));
        for (std::size_t i = 0; i < message->bytes.size(); ++i) {
            std::vector<std::uint8_t> bytes = message->bytes;
            bytes[i] ^= 0x10;
            const Result<MessagePtr> read = decode_message(bytes);
            EXPECT_FALSE(read.ok() && signature_fits(**read, signer)) << kind_of(message->body) << " byte " << i;
        }
    }
}

TEST(Wire, CutShortOrPaddedIsRefused) {
    for (const MessagePtr& message : every_kind()) {
        for (std::size_t size = 0; size < message->bytes.size(); ++size)
            EXPECT_FALSE(decode_message(std::span(message->bytes).first(size)).ok()) << kind_of(message->body);
        std::vector<std::uint8_t> longer = message->bytes;
        longer.push_back(0);
        EXPECT_FALSE(decode_message(longer).ok());
    }
}

TEST(Wire, CredentialsAndRevocationsAreBounded) {
    // Messages with a blob of `max_credential_bytes`, and what a liar makes of them: a longer one, its count (the four
    // bytes before it) to match.
    const auto stretched = [](const MessagePtr& message, std::size_t size) {
        std::vector<std::uint8_t> bytes = message->bytes;
        const auto at = std::ranges::search_n(bytes, max_credential_bytes, 0xcc).begin() - bytes.begin();
        bytes.insert(bytes.begin() + at, size - max_credential_bytes, 0xcc);
        for (unsigned i = 0; i < 4; ++i) bytes[at - 4 + i] = static_cast<std::uint8_t>(size >> (8 * i));
        return bytes;
    };
    const std::vector<std::uint8_t> longest(max_credential_bytes, 0xcc);
    Ask ask;
    ask.newcomer.credential = longest;
    Request join;
    join.newcomer.credential = longest;
    Request revoke;
    revoke.revocation = longest;
    Accept accept;
    accept.delta.additions = {ask.newcomer};
    for (const MessagePtr& message :
         {make_message(ask), make_message(join), make_message(revoke), make_message(accept)}) {
        EXPECT_TRUE(decode_message(stretched(message, max_credential_bytes))) << kind_of(message->body);
        for (const std::size_t size : {max_credential_bytes + 1, std::size_t{100'000}})
            EXPECT_FALSE(decode_message(stretched(message, size))) << kind_of(message->body) << " " << size;
    }
}

TEST(Wire, AViewsTokensAndRevocationsAreInOrder) {
    Founding founding;
    founding.institutions = {{.root = name("institution")}};
    founding.tokens = {{.token = {.id = {2, 2}, .not_after = 9}, .node = {1, 1}},
                       {.token = {.id = {3, 3}, .not_after = 7}, .node = {1, 1}}};
    View view = *found(founding);
    view.revoked = {{.subject = {4, 4}, .by = {}}, {.subject = {4, 4}, .by = name("institution")}};
    const Result<ViewPtr> read = decode_view(encode(view));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ((*read)->tokens, view.tokens);
    EXPECT_EQ((*read)->revoked, view.revoked);
    View swapped = view;
    std::swap(swapped.tokens[0], swapped.tokens[1]);
    EXPECT_FALSE(decode_view(encode(swapped)));
    swapped = view;
    std::swap(swapped.revoked[0], swapped.revoked[1]);
    EXPECT_FALSE(decode_view(encode(swapped)));
    swapped = view;
    swapped.tokens[1] = swapped.tokens[0];
    EXPECT_FALSE(decode_view(encode(swapped))) << "a token is used once";
}

TEST(Wire, RandomDamageNeverReadsAsAnotherEncoding) {
    const std::uint64_t seed = 20261115;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<MessagePtr> all = every_kind();
    for (std::uint64_t round = 0; round < 20000; ++round) {
        const MessagePtr& message = all[random_bits(seed, 0, round) % all.size()];
        std::vector<std::uint8_t> bytes = message->bytes;
        for (std::uint64_t i = 0; i <= random_bits(seed, 1, round) % 4; ++i) {
            const std::uint64_t bits = random_bits(seed, 2 + i, round);
            bytes[bits % bytes.size()] = static_cast<std::uint8_t>(bits >> 32);
        }
        const Result<MessagePtr> read = decode_message(bytes);
        // Canonical: what reads at all is written back as the very same bytes.
        ASSERT_TRUE(!read.ok() || make_message((*read)->body)->bytes == bytes);
    }
}

}  // namespace
}  // namespace chaos::cluster
