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

// A node that runs in a thread of its own.
class Runner {
public:
    Runner(const SecretKey& institution, const std::filesystem::path& path, std::vector<std::string> join, Has has,
           bool everyone, std::uint64_t bytes_per_s, cluster::Nanoseconds detect) {
        const auto files = std::make_shared<Files>(path);
        Source source{.manifest = files->manifest, .files = nullptr, .image = nullptr};
        if (has == Has::files)
            source.files = std::shared_ptr<const infer::UnitSource>(files, &files->units);
        else
            source.image = infer::Image::open(folder.path(), files->manifest).value();
        const SecretKey key = SecretKey::generate();
        MemberOptions options;
        options.live.listen = {"127.0.0.1:0"};
        options.live.core.detect = detect;
        options.live.core.heartbeat = 125 * cluster::millisecond;
        options.live.core.links_wanted = 16;
        options.live.core.may_found = join.empty();
        options.join = std::move(join);
        options.session.sequences = 4;
        options.session.context = 256;
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
                              .whole = [] {},
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

    [[nodiscard]] Session::State state() {
        std::promise<Session::State> promise;
        asio::post(loop, [&] { promise.set_value(member->session().state()); });
        return promise.get_future().get();
    }

    test::TemporaryFolder folder;
    asio::io_context loop{1};
    std::unique_ptr<Member> member;
    std::string address;
    std::thread thread;
    std::mutex mutex;
    std::string notes;
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
    Team(const std::filesystem::path& path, std::size_t count, cluster::Nanoseconds detect = 500 * cluster::millisecond)
        : path_(path), detect_(detect) {
        for (std::size_t i = 0; i < count; ++i) add();
        EXPECT_TRUE(whole());
    }
    static constexpr std::uint64_t fast = 1'000'000'000'000;
    void add(Has has = Has::files, bool everyone = true, std::uint64_t bytes_per_s = fast) {
        runners.push_back(std::make_unique<Runner>(
            institution_, path_, runners.empty() ? std::vector<std::string>{} : std::vector{runners.front()->address},
            has, everyone, bytes_per_s, detect_));
    }
    // All compute together.
    [[nodiscard]] ::testing::AssertionResult whole() {
        ::testing::AssertionResult result = comes([&] {
            return std::ranges::all_of(runners, [&](const auto& runner) {
                const Session::State state = runner->state();
                return state.whole && state.members.size() == runners.size();
            });
        });
        for (const auto& runner : runners)
            result << "\n\n" << cluster::brief(runner->member->live().id()) << ":\n" << runner->said();
        return result;
    }
    std::vector<std::unique_ptr<Runner>> runners;

private:
    SecretKey institution_ = SecretKey::generate();
    std::filesystem::path path_;
    cluster::Nanoseconds detect_;
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
    Team team(path, 2, 2 * std::chrono::nanoseconds(patience).count());
    Runner& leaver = *team.runners[1];
    Client client(leaver, request_for(prompt, 200));
    ASSERT_TRUE(comes([&] { return client.size() > 0; }));
    std::promise<void> frozen;
    std::promise<void> thaw;
    asio::post(team.runners[0]->loop, [&] {
        frozen.set_value();
        thaw.get_future().wait();
    });
    frozen.get_future().wait();
    const auto left = std::async(std::launch::async, [&] { leaver.leave(); });
    EXPECT_EQ(left.wait_for(patience), std::future_status::ready);
    thaw.set_value();
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
