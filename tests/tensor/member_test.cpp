// Whole members on loops of their own, each in a thread, compute one small model; some of them go in mid-text.
#include "tensor/member.h"

#include "infer/models.h"
#include "net/site.h"
#include "temporary_folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <ranges>
#include <set>
#include <thread>

namespace chaos::tensor {
namespace {

using infer::test::Ids;
using net::SecretKey;

constexpr std::chrono::seconds patience{60};

// A model's files, and what is to be known of them.
struct Files {
    explicit Files(const std::filesystem::path& path)
        : file(infer::ModelFile::open(path).value()), units(infer::FileUnits::open(file).value()) {
        infer::Pool pool{1};
        manifest = infer::manifest_of(file, units, folder.path(), pool, {}).value();
    }
    test::TemporaryFolder folder;
    infer::ModelFile file;
    infer::FileUnits units;
    infer::Manifest manifest;
};

enum class Has { files, nothing };  // of the model

// What is not the same in all tests.
struct Setting {
    cluster::Nanoseconds detect = 500 * cluster::millisecond;
    std::uint32_t links_wanted = 16;
    std::uint32_t links_allowed = 32;
    std::size_t context = 256;
    std::set<NodeId> cut_from = {};
};

// A node that runs in a thread of its own.
class Runner {
public:
    Runner(const SecretKey& institution, const std::filesystem::path& path, std::vector<std::string> join, Has has,
           bool everyone, std::uint64_t bytes_per_s, const Setting& setting) {
        const auto files = std::make_shared<Files>(path);
        Source source{.manifest = files->manifest, .files = nullptr, .image = nullptr};
        if (has == Has::files)
            source.files = std::shared_ptr<const infer::UnitSource>(files, &files->units);
        else
            source.image = infer::Image::open(folder.path(), files->manifest).value();
        const SecretKey key = SecretKey::generate();
        MemberOptions options;
        options.live.listen = {"127.0.0.1:0"};
        options.live.core.detect = setting.detect;
        options.live.core.fork_after = cluster::second;
        cut_from = setting.cut_from;
        options.live.turns_away = [this](NodeId node) {
            const std::scoped_lock lock(mutex);
            return cut_from.contains(node);
        };
        options.live.core.heartbeat = 125 * cluster::millisecond;
        options.live.core.links_wanted = setting.links_wanted;
        options.live.core.links_allowed = setting.links_allowed;
        options.live.core.may_found = join.empty();
        options.join = std::move(join);
        options.session.sequences = 4;
        options.session.context = setting.context;
        options.session.everyone = everyone;
        options.session.speed = {.weight_bytes_per_s = bytes_per_s,
                                 .prompt_bytes_per_s = bytes_per_s,
                                 .call_ns = 100,
                                 .share_permille = 1000};
        options.name = "a model";
        Subject subject{.config = files->file.config(), .tensors = infer::packed_tensors(files->file)};
        member = std::make_unique<Member>(
            loop, key, net::vouch_for(institution, key.public_key(), net::Site::some_day), options, std::move(subject),
            source,
            Member::Callbacks{.load =
                                  [path, image = source.image](const Portion& portion) {
                                      return load(image ? image->open_model() : infer::ModelFile::open(path),
                                                  portion.slice);
                                  },
                              .whole = [](bool) {},
                              .note =
                                  [this](const std::string& text) {
                                      const std::scoped_lock lock(mutex);
                                      notes += text + "\n";
                                  }});
        const auto started = member->start();
        EXPECT_TRUE(started) << started.error().message;
        address = member->live().address();
        thread = std::thread([this] {
            const auto ended = member->run();
            EXPECT_TRUE(ended) << ended.error().message;
        });
    }
    ~Runner() {
        if (thread.joinable()) leave();
    }
    [[nodiscard]] std::string said() {
        const std::scoped_lock lock(mutex);
        return notes;
    }
    void leave() {
        member->leave();
        member->leave();  // at once
        thread.join();
    }

    static Result<LoadedSlice> load(Result<infer::ModelFile> file, const infer::Slice& slice) {
        struct Owner {
            infer::Pool pool{1};
            std::optional<infer::Model> model;
        };
        auto owner = std::make_shared<Owner>();
        if (!file) return file.error();
        CHAOS_TRY(owner->model, infer::Model::load(std::move(*file), slice, owner->pool, {}));
        return LoadedSlice{
            .model = &*owner->model, .pool = &owner->pool, .disk_bytes_per_s = 0, .owner = std::move(owner)};
    }

    // By the loop.
    template <class What>
    [[nodiscard]] auto of_loop(const What& what) {
        std::promise<decltype(what())> promise;
        asio::post(loop, [&] { promise.set_value(what()); });
        return promise.get_future().get();
    }
    [[nodiscard]] Session::State state() {
        return of_loop([&] { return member->session().state(); });
    }
    [[nodiscard]] NodeId id() { return member->live().id(); }
    [[nodiscard]] bool is_linked_with(Runner& other) {
        return of_loop([&] { return member->live().links().linked(other.id()); });
    }
    // Nothing comes of a connection between the two, until it may again.
    void cut(Runner& other) {
        for (const auto& [one, peer] : {std::pair{this, other.id()}, {&other, id()}}) {
            const std::scoped_lock lock(one->mutex);
            one->cut_from.insert(peer);
        }
        asio::post(loop, [this, peer = other.id()] { member->live().links().close(peer); });
    }
    void mend(Runner& other) {
        for (const auto& [one, peer] : {std::pair{this, other.id()}, {&other, id()}}) {
            const std::scoped_lock lock(one->mutex);
            one->cut_from.erase(peer);
        }
    }
    // Its loop does nothing until what is returned goes.
    [[nodiscard]] std::shared_ptr<void> freeze() {
        auto thaw = std::make_shared<std::promise<void>>();
        auto frozen = std::make_shared<std::promise<void>>();
        asio::post(loop, [frozen, thawed = std::make_shared<std::future<void>>(thaw->get_future())] {
            frozen->set_value();
            thawed->wait();
        });
        frozen->get_future().wait();
        return {thaw.get(), [thaw](void*) { thaw->set_value(); }};
    }

    test::TemporaryFolder folder;
    asio::io_context loop{1};
    std::unique_ptr<Member> member;
    std::string address;
    std::thread thread;
    std::mutex mutex;
    std::string notes;
    std::set<NodeId> cut_from;
};

template <class Condition>
::testing::AssertionResult comes(const Condition& condition) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > limit) return ::testing::AssertionFailure() << "it does not come";
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ::testing::AssertionSuccess();
}

class Team {
public:
    Team(const std::filesystem::path& path, std::size_t count, const Setting& common = {})
        : setting(common), path_(path) {
        for (std::size_t i = 0; i < count; ++i) add();
        EXPECT_TRUE(whole());
    }
    static constexpr std::uint64_t fast = 1'000'000'000'000;
    // Joins the first, unless somebody is named.
    void add(Has has = Has::files, bool everyone = true, std::uint64_t bytes_per_s = fast,
             std::vector<std::string> join = {}) {
        if (join.empty() && !runners.empty()) join = {runners.front()->address};
        runners.push_back(
            std::make_unique<Runner>(institution_, path_, std::move(join), has, everyone, bytes_per_s, setting));
    }
    // All compute together.
    [[nodiscard]] ::testing::AssertionResult whole() {
        ::testing::AssertionResult result = comes([&] {
            return std::ranges::all_of(runners, [&](const auto& runner) {
                const Session::State state = runner->state();
                return state.whole && state.members.size() == runners.size();
            });
        });
        return result << said();
    }
    [[nodiscard]] std::string said() {
        std::string text;
        for (const auto& runner : runners) text += "\n\n" + cluster::brief(runner->id()) + ":\n" + runner->said();
        return text;
    }
    std::vector<std::unique_ptr<Runner>> runners;
    Setting setting;  // of those that are added

private:
    SecretKey institution_ = SecretKey::generate();
    std::filesystem::path path_;
};

infer::Request request_for(const Ids& prompt, std::size_t tokens, const infer::Sampling& sampling = {}) {
    infer::Request request;
    request.prompt = prompt;
    request.max_tokens = tokens;
    request.sampling = sampling;
    request.ignore_end = true;
    return request;
}

Ids alone(const std::filesystem::path& path, const infer::Request& request) {
    infer::test::Loaded model(path);
    auto scheduler = infer::Scheduler::make(*model.engine, {.sequences = 1, .context = 256}).value();
    Ids drawn;
    EXPECT_TRUE(scheduler.submit(request, {[&](const infer::Sampled& each) {
                                               drawn.push_back(each.token);
                                               return true;
                                           },
                                           {}}));
    while (scheduler.step()) {
    }
    return drawn;
}

// A client of one member, with a text.
class Client {
public:
    Client(Runner& runner, const infer::Request& request) : writer_(runner.member->writer()) {
        thread_ = std::jthread([this, request] {
            EXPECT_TRUE(writer_->submit(request, {[this](const infer::Sampled& each) {
                                                      const std::scoped_lock lock(mutex_);
                                                      drawn_.push_back(each.token);
                                                      return true;
                                                  },
                                                  [this](const infer::Ended& ended) { ending_ = ended.ending; }}));
            while (!ending_.load() && !gone_) (void)writer_->step();
        });
    }
    ~Client() { give_up(); }
    void give_up() {
        gone_ = true;
        writer_->wake();
        if (thread_.joinable()) thread_.join();
    }
    [[nodiscard]] std::size_t size() {
        const std::scoped_lock lock(mutex_);
        return drawn_.size();
    }
    [[nodiscard]] Ids drawn() {
        const std::scoped_lock lock(mutex_);
        return drawn_;
    }
    [[nodiscard]] ::testing::AssertionResult ends() {
        return comes([&] { return ending_.load().has_value(); });
    }

private:
    std::unique_ptr<infer::Writer> writer_;
    std::mutex mutex_;
    Ids drawn_;
    std::atomic<std::optional<infer::Ending>> ending_;
    std::atomic<bool> gone_ = false;
    std::jthread thread_;
};

TEST(Member, AnyMemberWritesTheTextOfOneAlone) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    for (const std::size_t count : {1U, 2U, 3U}) {
        Team team(path, count);
        for (const auto& runner : team.runners) {
            for (const infer::Sampling& sampling : {infer::Sampling{}, {.temperature = 0.9, .top_k = 20, .seed = 3}}) {
                const auto request = request_for(prompt, 30, sampling);
                Client client(*runner, request);
                ASSERT_TRUE(client.ends()) << runner->said();
                EXPECT_EQ(client.drawn(), alone(path, request)) << count << " members";
            }
        }
    }
}

TEST(Member, SeveralTextsAtOnceAreThoseOfOneAlone) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("llama2-tiny-q8_0");
    const auto cases = infer::test::expected("llama2-tiny")["cases"];
    Team team(path, 2);
    std::vector<infer::Request> requests;
    std::vector<std::unique_ptr<Client>> clients;
    for (std::size_t i = 0; i < 2; ++i) requests.push_back(request_for(cases[i]["ids"].get<Ids>(), 40));
    for (std::size_t i = 0; i < 2; ++i) clients.push_back(std::make_unique<Client>(*team.runners[i], requests[i]));
    for (std::size_t i = 0; i < 2; ++i) {
        ASSERT_TRUE(clients[i]->ends());
        EXPECT_EQ(clients[i]->drawn(), alone(path, requests[i]));
    }
}

TEST(Member, ATextGoesOnWhenMembersGoAndCome) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q8_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][1]["ids"].get<Ids>();
    const auto request = request_for(prompt, 200, {.temperature = 1.0, .top_k = 50, .seed = 8});
    const Ids wanted = alone(path, request);
    Team team(path, 3);
    Client client(*team.runners[1], request);
    ASSERT_TRUE(comes([&] { return client.size() > 10; }));
    team.runners[0]->leave();  // the leader
    team.runners.erase(team.runners.begin());
    const std::size_t then = client.size();
    ASSERT_TRUE(comes([&] { return client.size() > std::min(then + 10, wanted.size() - 1); }));
    team.add();
    ASSERT_TRUE(client.ends());
    EXPECT_EQ(client.drawn(), wanted);
}

TEST(Member, WhoHasNoFilesGetsItsSliceAndGivesIt) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q8_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    const auto request = request_for(prompt, 60);
    const Ids wanted = alone(path, request);
    Team team(path, 1);
    for (int i = 0; i < 2; ++i) team.add(Has::nothing);
    ASSERT_TRUE(team.whole());
    Client client(*team.runners[2], request);
    ASSERT_TRUE(client.ends());
    EXPECT_EQ(client.drawn(), wanted);
    EXPECT_NE(team.runners[1]->said().find("of the model from others"), std::string::npos);
    // They keep copies: whoever has the files may go.
    ASSERT_TRUE(comes([&] {
        return std::ranges::all_of(team.runners | std::views::drop(1), [](const auto& runner) {
            return runner->said().find("has all of the model") != std::string::npos;
        });
    }));
    team.runners.erase(team.runners.begin());
    ASSERT_TRUE(team.whole());
    Client later(*team.runners[0], request);
    ASSERT_TRUE(later.ends());
    EXPECT_EQ(later.drawn(), wanted);
}

TEST(Member, WhoWouldSlowTheOthersPassesOn) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    const auto request = request_for(prompt, 60, {.temperature = 0.7, .top_k = 20, .seed = 5});
    const Ids wanted = alone(path, request);
    Team team(path, 0);
    for (int i = 0; i < 2; ++i) team.add(Has::files, false);
    // A model as small as this is computed before a message arrives.
    ASSERT_TRUE(comes([&] {
        const Session::State state = team.runners[1]->state();
        return state.whole && !state.computes;
    }));
    for (const auto& runner : team.runners) {
        Client client(*runner, request);
        ASSERT_TRUE(client.ends());
        EXPECT_EQ(client.drawn(), wanted);
    }
    // The one that computes goes in mid-text: the other one goes on.
    const auto longer = request_for(prompt, 200);
    Client client(*team.runners[1], longer);
    ASSERT_TRUE(comes([&] { return client.size() > 10; }));
    team.runners[0]->leave();
    ASSERT_TRUE(client.ends());
    EXPECT_EQ(client.drawn(), alone(path, longer));
}

TEST(Member, EvenTheOneThatLeadsMayOnlyPassOn) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    const auto request = request_for(prompt, 60);
    const Ids wanted = alone(path, request);
    Team team(path, 0);
    team.add(Has::files, false, 100'000);
    for (int i = 0; i < 2; ++i) team.add(Has::nothing, false);
    ASSERT_TRUE(comes([&] {
        const Session::State leader = team.runners[0]->state();
        return leader.whole && !leader.computes && team.runners[1]->state().whole && team.runners[2]->state().whole;
    }));
    std::vector<std::unique_ptr<Client>> clients;
    for (const auto& runner : team.runners) clients.push_back(std::make_unique<Client>(*runner, request));
    for (const auto& client : clients) {
        ASSERT_TRUE(client->ends());
        EXPECT_EQ(client->drawn(), wanted);
    }
}

// It computes with one that does not answer any more, and without whom nobody can be let go; to find that out takes
// longer than it has.
TEST(Member, WhoIsToldTwiceToLeaveGoesAtOnce) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    Team team(path, 2, {.detect = 2 * std::chrono::nanoseconds(patience).count()});
    Runner& leaver = *team.runners[1];
    Client client(leaver, request_for(prompt, 200));
    ASSERT_TRUE(comes([&] { return client.size() > 0; }));
    auto frozen = team.runners[0]->freeze();
    const auto left = std::async(std::launch::async, [&] { leaver.leave(); });
    EXPECT_EQ(left.wait_for(patience), std::future_status::ready);
    frozen.reset();
}

// It is counted as lost, and finds out when it goes on.
TEST(Member, WhoWasFrozenComesBackByItself) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    const auto request = request_for(prompt, 200);
    const Ids wanted = alone(path, request);
    Team team(path, 3);
    for (const std::size_t who : {2U, 0U}) {  // the leader, too
        Client client(*team.runners[1], request);
        Client its_own(*team.runners[who], request);
        ASSERT_TRUE(comes([&] { return client.size() > 10 && its_own.size() > 10; }));
        auto frozen = team.runners[who]->freeze();
        ASSERT_TRUE(client.ends()) << team.runners[1]->said();
        EXPECT_EQ(client.drawn(), wanted);
        EXPECT_EQ(team.runners[1]->state().members.size(), 2U);
        frozen.reset();
        ASSERT_TRUE(its_own.ends()) << team.runners[who]->said();
        EXPECT_EQ(its_own.drawn(), wanted);
        ASSERT_TRUE(team.whole());
    }
}

// Both of its ends are alive, and have links with the third.
TEST(Member, ALinkThatIsGoneCostsNobodyItsTexts) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    const auto request = request_for(prompt, 200);
    const Ids wanted = alone(path, request);
    Team team(path, 3);
    std::vector<std::unique_ptr<Client>> clients;
    for (const auto& runner : team.runners) clients.push_back(std::make_unique<Client>(*runner, request));
    for (const auto& client : clients) ASSERT_TRUE(comes([&] { return client->size() > 10; }));
    team.runners[0]->cut(*team.runners[2]);  // the leader's
    for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(clients[i]->ends()) << team.runners[i]->said();
        EXPECT_EQ(clients[i]->drawn(), wanted);
    }
    // Another one, that is asked for from the beginning over the third.
    Client later(*team.runners[2], request);
    ASSERT_TRUE(later.ends()) << team.runners[2]->said();
    EXPECT_EQ(later.drawn(), wanted);
    EXPECT_FALSE(team.runners[0]->is_linked_with(*team.runners[2]));
    team.runners[0]->mend(*team.runners[2]);
    ASSERT_TRUE(team.whole());
}

TEST(Member, ThereMayBeMoreMembersThanLinks) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    const auto request = request_for(prompt, 100);
    const Ids wanted = alone(path, request);
    for (const bool everyone : {true, false}) {
        Team team(path, 0, {.links_wanted = 2, .links_allowed = 4});
        for (int i = 0; i < 6; ++i) team.add(Has::files, everyone);
        ASSERT_TRUE(comes([&] {
            return std::ranges::all_of(team.runners, [](const auto& runner) { return runner->state().whole; });
        })) << team.said();
        Runner& leader = *team.runners[0];
        const auto links = [&] { return leader.member->live().core().view()->degree(leader.id()); };
        EXPECT_LT(leader.of_loop(links), team.runners.size() - 1);
        if (everyone) {
            ASSERT_TRUE(team.whole());
        }
        std::vector<std::unique_ptr<Client>> clients;
        for (const auto& runner : team.runners) clients.push_back(std::make_unique<Client>(*runner, request));
        for (std::size_t i = 0; i < clients.size(); ++i) {
            ASSERT_TRUE(clients[i]->ends()) << team.runners[i]->said();
            EXPECT_EQ(clients[i]->drawn(), wanted);
        }
    }
}

// The smaller side has more views meanwhile than the larger one.
TEST(Member, TwoSidesComeTogetherAgain) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    const auto request = request_for(prompt, 60);
    const Ids wanted = alone(path, request);
    Team team(path, 4);
    for (const std::size_t here : {0U, 1U, 2U}) team.runners[here]->cut(*team.runners[3]);
    const auto alone_with = [&](std::size_t members) {
        return comes([&] {
            const Session::State state = team.runners[3]->state();
            return state.whole && state.members.size() == members;
        });
    };
    ASSERT_TRUE(alone_with(1)) << team.runners[3]->said();
    for (const std::size_t there : {0U, 1U, 2U}) team.setting.cut_from.insert(team.runners[there]->id());
    for (int times = 0; times < 2; ++times) {
        team.add(Has::files, true, Team::fast, {team.runners[3]->address});
        ASSERT_TRUE(alone_with(2)) << team.runners[3]->said();
        team.runners.pop_back();
        ASSERT_TRUE(alone_with(1)) << team.runners[3]->said();
    }
    for (const std::size_t here : {0U, 1U, 2U}) team.runners[here]->mend(*team.runners[3]);
    ASSERT_TRUE(team.whole());
    for (const auto& runner : team.runners) {
        Client client(*runner, request);
        ASSERT_TRUE(client.ends()) << runner->said();
        EXPECT_EQ(client.drawn(), wanted);
    }
}

TEST(Member, WhoHasRoomForShorterTextsDoesNotEndThoseOfOthers) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    const auto request = request_for(prompt, 200);
    const Ids wanted = alone(path, request);
    Team team(path, 2);
    Client client(*team.runners[1], request);
    ASSERT_TRUE(comes([&] { return client.size() > 10; }));
    team.setting.context = 64;
    team.add();
    ASSERT_TRUE(client.ends());
    EXPECT_EQ(client.drawn(), wanted);
    Runner& newcomer = *team.runners[2];
    ASSERT_TRUE(comes([&] { return newcomer.state().offers_less; })) << newcomer.said();
    const auto shorter = request_for(prompt, 20);
    Client its_own(newcomer, shorter);
    ASSERT_TRUE(its_own.ends());
    EXPECT_EQ(its_own.drawn(), alone(path, shorter));
    // Who has room for longer ones learns that the others have not.
    team.setting.context = 512;
    team.add();
    Runner& last = *team.runners[3];
    ASSERT_TRUE(comes([&] { return last.state().whole; })) << last.said();
    const auto refused = last.member->writer()->submit(request_for(Ids(300, 1), 1), {});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("has room for 256"), std::string::npos) << refused.error().message;
}

// Nobody is as fast as these say they are; they find out, and say so before anything is asked of them.
TEST(Member, WhatATokenTakesIsFoundOutBeforeOneIsAskedFor) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    Team team(path, 2);
    const auto says = [&] {
        return std::ranges::all_of(team.runners, [](const auto& runner) {
            return runner->said().find("computes with 1 other") != std::string::npos;
        });
    };
    ASSERT_TRUE(comes(says));
    const Session::State state = team.runners[0]->state();
    EXPECT_EQ(state.passes, 0U);
    const infer::ModelFile file = infer::ModelFile::open(path).value();
    // Of its own part alone, at the speed that it claims, it would take next to nothing.
    const double claimed = static_cast<double>(infer::packed_bytes(infer::packed_tensors(file))) / Team::fast;
    EXPECT_GT(state.predicted_s, 2.0 * claimed);
    const auto agree = [&] { return team.runners[0]->state().predicted_s == team.runners[1]->state().predicted_s; };
    EXPECT_TRUE(comes(agree));
    // Tokens that have come do not change what was expected.
    Client first(*team.runners[1], request_for({1, 2, 3}, 20));
    ASSERT_TRUE(first.ends());
    const double expected = team.runners[0]->state().predicted_s;
    Client second(*team.runners[1], request_for({1, 2, 3}, 20));
    ASSERT_TRUE(second.ends());
    EXPECT_EQ(team.runners[0]->state().predicted_s, expected);
}

TEST(Member, WhatIsCancelledMakesRoom) {
    CHAOS_NEED_SHARED("models");
    const auto path = infer::test::gguf("qwen3-tiny-q4_0");
    const Ids prompt = infer::test::expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    Team team(path, 2);
    auto writer = team.runners[1]->member->writer();
    std::size_t tokens = 0;
    std::size_t ended = 0;
    std::vector<infer::Writer::Id> ids;
    for (int i = 0; i < 8; ++i)  // twice as many as there is room for
        ids.push_back(writer
                          ->submit(request_for(prompt, 200), {[&](const infer::Sampled&) {
                                                                  ++tokens;
                                                                  return true;
                                                              },
                                                              [&](const infer::Ended&) { ++ended; }})
                          .value());
    while (tokens < 20) (void)writer->step();
    for (std::size_t i = 0; i < 7; ++i) writer->cancel(ids[i]);
    EXPECT_EQ(ended, 7U);
    const std::size_t before = tokens;
    while (ended < 8) (void)writer->step();
    EXPECT_GT(tokens, before);
    ASSERT_TRUE(comes([&] { return team.runners[1]->state().texts == 0; }));
}

}  // namespace
}  // namespace chaos::tensor
