#include "node/fetch.h"

#include "node/teacher.h"

#include <gmock/gmock.h>

#include <boost/asio/post.hpp>

namespace chaos::node {
namespace {

using test::Teacher;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace std::chrono_literals;

constexpr const char* dead_address = "localhost:1";

Description some_description(std::size_t bytes = 100) {
    Description description;
    description.run_text = "[data]\nkind = \"synthetic\"\n";
    description.files["model.path/net.pt"] = std::string(bytes, 'x');
    description.identity = {{"model.kind", "torchscript"}, {"train.batch", "8"}};
    description.data = {{.key = "data.files", .path = "a.txt", .bytes = 3, .hash = sha256("abc")}};
    return description;
}

class Fetch : public ::testing::Test {
protected:
    std::unique_ptr<Teacher> teacher(const Description& description = some_description()) {
        return std::make_unique<Teacher>(loop, description.identity, encode(description));
    }
    Result<Description> fetch(std::vector<std::string> addresses) {
        options.addresses = std::move(addresses);
        options.note = [this](const std::string& text) { notes += text + "\n"; };
        return fetch_description(loop, key, credential, options);
    }
    std::string error(std::vector<std::string> addresses) {
        const auto fetched = fetch(std::move(addresses));
        EXPECT_FALSE(fetched);
        return fetched ? "" : fetched.error().message;
    }
    bool wait(const std::function<bool()>& condition) {
        const auto limit = std::chrono::steady_clock::now() + 30s;
        while (!condition() && std::chrono::steady_clock::now() < limit) {
            loop.restart();
            loop.run_one_for(100ms);
        }
        return condition();
    }

    net::asio::io_context loop{1};
    net::SecretKey key = net::SecretKey::generate();
    net::Credential credential = net::vouch_for(Teacher::institution(), key.public_key(), 4'000'000'000);
    FetchOptions options;
    std::string notes;
};

TEST_F(Fetch, WhatAMemberDescribesArrivesAndTheLinkEnds) {
    const auto member = teacher(some_description(3 << 20));  // several pieces
    const auto fetched = fetch({member->address});
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_EQ(*fetched, some_description(3 << 20));
    EXPECT_TRUE(wait([&] { return member->closed == 1; }));
    EXPECT_THAT(member->ups, SizeIs(1));

    // The same node comes again at once, over another link.
    const auto again = fetch({member->address});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *fetched);
}

TEST_F(Fetch, TheIdentityAloneIsToldEvenWhereTheRestCannotBe) {
    Teacher member(loop, {{"train.batch", "8"}}, Error{"it is too large"});
    options.addresses = {member.address};
    const auto identity = fetch_agreed(loop, key, credential, options);
    ASSERT_TRUE(identity) << identity.error().message;
    EXPECT_EQ(*identity, (run::Identity{{"train.batch", "8"}}));
}

TEST_F(Fetch, ADeadAddressIsPassedOver) {
    const auto member = teacher();
    const auto fetched = fetch({dead_address, member->address});
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_EQ(*fetched, some_description());
}

TEST_F(Fetch, NobodyIsThere) {
    options.limit = 4s;
    EXPECT_THAT(error({dead_address}), HasSubstr("nobody told what is trained: localhost:1: cannot connect"));
    EXPECT_THAT(notes, HasSubstr("cannot ask localhost:1 what is trained: "));
    EXPECT_EQ(std::ranges::count(notes, '\n'), 1) << notes;  // it is tried several times, and told once
    EXPECT_THAT(error({}), HasSubstr("no address"));
}

TEST_F(Fetch, WhatIsNoAddressIsNotTried) {
    EXPECT_THAT(error({dead_address, "nonsense"}), HasSubstr("\"nonsense\" is no address"));
    EXPECT_EQ(notes, "");
}

TEST_F(Fetch, ARefusalIsFinalAndTold) {
    Teacher refusing(loop, {}, Error{"the model is too large"});
    EXPECT_THAT(error({refusing.address}), HasSubstr(refusing.address + ": the model is too large"));
    EXPECT_EQ(refusing.asked, 1);

    const auto member = teacher();
    EXPECT_TRUE(fetch({refusing.address, member->address}));
}

TEST_F(Fetch, WhoIsNotLetInIsToldWhy) {
    const auto member = teacher();
    member->refuses = "your institution is not one of us";
    options.limit = 4s;
    EXPECT_THAT(error({member->address}), HasSubstr("your institution is not one of us"));
}

TEST_F(Fetch, ALinkThatBreaksIsDialledAgain) {
    const auto member = teacher();
    member->closes_first = true;
    const auto fetched = fetch({member->address});
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_GE(member->ups.size(), 2U);
}

TEST_F(Fetch, WhoDoesNotAnswerIsNotWaitedFor) {
    const auto mute = teacher();
    mute->answers = [](cluster::NodeId, const elastic::wire::RunAsk&) {};
    options.silence = 200ms;
    const auto member = teacher();
    const auto fetched = fetch({mute->address, member->address});
    ASSERT_TRUE(fetched) << fetched.error().message;
}

TEST_F(Fetch, AMemberThatTakesItsTimeHearsThatSomebodyWaits) {
    const auto slow = teacher();
    std::function<void()> answer;
    slow->answers = [&](cluster::NodeId from, const elastic::wire::RunAsk& ask) {
        answer = [&, from, ask] { slow->describer.received(from, ask); };
    };
    slow->on_heartbeat = [&] {
        if (slow->heartbeats == 3) answer();
    };
    const auto fetched = fetch({slow->address});
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_EQ(slow->asked, 1);
}

TEST_F(Fetch, WhatIsNotAsAnnouncedIsNotBelieved) {
    const auto liar = teacher();
    const auto bytes = std::make_shared<const std::string>(*encode(some_description()));
    Digest hash = sha256("something else");
    std::shared_ptr<const std::string> content = bytes;
    liar->answers = [&](cluster::NodeId from, const elastic::wire::RunAsk& ask) {
        elastic::wire::Work message;
        message.mutable_run_answer()->set_transfer(ask.transfer());
        message.mutable_run_answer()->set_hash(elastic::to_wire(hash));
        EXPECT_TRUE(liar->links.send_work(from, elastic::bytes_of(message)));
        EXPECT_TRUE(liar->transfers.send(from, net::BulkKind::state, ask.transfer(), std::as_bytes(std::span(*content)),
                                         content));
    };
    EXPECT_THAT(error({liar->address}), HasSubstr("what it sent is not what it announced"));
    content = std::make_shared<const std::string>("\xff nonsense");
    hash = sha256(*content);
    EXPECT_THAT(error({liar->address}), HasSubstr("no description of a run"));
    content = bytes;
    hash = sha256(*content);
    EXPECT_TRUE(fetch({liar->address}));
}

TEST_F(Fetch, AStoppedLoopEndsIt) {
    const auto mute = teacher();
    mute->answers = [this](cluster::NodeId, const elastic::wire::RunAsk&) { loop.stop(); };
    EXPECT_THAT(error({mute->address}), HasSubstr("stopped"));
}

}  // namespace
}  // namespace chaos::node
