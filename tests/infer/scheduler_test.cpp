#include "infer/scheduler.h"

#include "infer/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace chaos::infer {
namespace {

using nlohmann::json;
using test::expected;
using test::Ids;
using test::Loaded;
using ::testing::HasSubstr;

// What came of a request.
struct Told {
    Ids tokens;
    std::optional<Ended> ended;

    Listener listener() {
        return {[this](const Sampled& sampled) {
                    tokens.push_back(sampled.token);
                    return true;
                },
                [this](const Ended& end) { ended = end; }};
    }
};

Request request(const Ids& prompt, std::size_t max_tokens, const Sampling& sampling = {}) {
    Request asked;
    asked.prompt = prompt;
    asked.max_tokens = max_tokens;
    asked.sampling = sampling;
    asked.ignore_end = true;
    return asked;
}

Scheduler make(Loaded& model, const Scheduler::Options& options) {
    auto made = Scheduler::make(*model.engine, options);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
}

Ids alone(Loaded& model, const Request& asked, bool speculate, std::uint64_t* right = nullptr) {
    Scheduler scheduler = make(model, {.sequences = 1, .context = 512, .speculate = speculate});
    Told told;
    EXPECT_TRUE(scheduler.submit(asked, told.listener()));
    while (scheduler.step()) {
    }
    EXPECT_TRUE(told.ended);
    if (right != nullptr) *right = scheduler.guessed_right();
    return told.tokens;
}

TEST(Requests, AreRefusedWhereTheyWouldDoHarm) {
    const Request sound = request({1, 2, 3}, 5);
    EXPECT_TRUE(check(sound, 3, 4));
    EXPECT_FALSE(check(sound, 2, 4));
    EXPECT_FALSE(check(sound, 3, 3));
    Request drawn = sound;
    drawn.drawn = 3;
    EXPECT_FALSE(check(drawn, 3, 4));
    Request biased = sound;
    biased.preferences.bias[1 << 30] = 1.0;
    EXPECT_FALSE(check(biased, 3, 4));
    Request listed = sound;
    listed.wanted.top = max_top + 1;
    EXPECT_FALSE(check(listed, 3, 4));
}

TEST(Scheduler, SpeculationChangesNoToken) {
    CHAOS_NEED_SHARED("models");
    std::uint64_t all_right = 0;
    for (const char* name : {"llama2-tiny-q8_0", "qwen3-tiny-q4_0", "llama3-shakespeare-f16"}) {
        Loaded model(test::gguf(name));
        const json wanted = expected(std::string(name).substr(0, std::string(name).rfind('-')));
        for (const json& each : wanted["cases"])
            for (const double temperature : {0.0, 0.7}) {
                const auto asked =
                    request(each["ids"].get<Ids>(), 60, {.temperature = temperature, .top_p = 0.9, .seed = 5});
                std::uint64_t right = 0;
                EXPECT_EQ(alone(model, asked, false), alone(model, asked, true, &right)) << name << each["prompt"];
                all_right += right;
            }
    }
    EXPECT_GT(all_right, 50U);
}

TEST(Scheduler, RequestsDoNotDisturbEachOther) {
    CHAOS_NEED_SHARED("models");
    Loaded model(test::gguf("qwen3-tiny-q4_0"));
    const json wanted = expected("qwen3-tiny");
    std::vector<Request> asked;
    for (const json& each : wanted["cases"]) {
        asked.push_back(request(each["ids"].get<Ids>(), 40 + 3 * asked.size(),
                                {.temperature = asked.size() % 2 == 0 ? 0.0 : 0.8, .seed = asked.size()}));
    }
    asked.push_back(request(wanted["long"]["ids"].get<Ids>(), 30));
    std::vector<Ids> apart;
    for (const Request& each : asked) apart.push_back(alone(model, each, false));

    Scheduler scheduler = make(model, {.sequences = 3, .context = 512});
    std::vector<Told> told(asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) ASSERT_TRUE(scheduler.submit(asked[i], told[i].listener()));
    std::size_t most = 0;
    while (scheduler.step()) most = std::max(most, scheduler.active());
    EXPECT_EQ(most, 3U);
    for (std::size_t i = 0; i < asked.size(); ++i) {
        EXPECT_EQ(told[i].tokens, apart[i]) << "request " << i;
        ASSERT_TRUE(told[i].ended);
        EXPECT_EQ(told[i].ended->ending, Ending::length);
        EXPECT_EQ(told[i].ended->tokens, asked[i].max_tokens);
    }
}

TEST(Scheduler, APrefixIsComputedOnce) {
    CHAOS_NEED_SHARED("models");
    Loaded model(test::gguf("qwen3-tiny-q8_0"));
    const auto ids = expected("qwen3-tiny")["long"]["ids"].get<Ids>();
    const Ids first(ids.begin(), ids.begin() + 100);
    Ids second = first;
    second.insert(second.end(), ids.rbegin(), ids.rbegin() + 20);
    const Ids wanted = alone(model, request(second, 20), true);

    Scheduler scheduler = make(model, {.sequences = 2, .context = 512});
    std::vector<Told> told(4);
    ASSERT_TRUE(scheduler.submit(request(first, 300), told[0].listener()));
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(scheduler.step());
    // Beside it, copied from it; then in the sequence that was used before.
    ASSERT_TRUE(scheduler.submit(request(second, 20), told[1].listener()));
    while (!told[1].ended) ASSERT_TRUE(scheduler.step());
    EXPECT_EQ(told[1].ended->reused_tokens, 100U);
    EXPECT_EQ(told[1].tokens, wanted);
    ASSERT_TRUE(scheduler.submit(request(second, 20), told[2].listener()));
    while (!told[2].ended) ASSERT_TRUE(scheduler.step());
    EXPECT_EQ(told[2].ended->reused_tokens, 119U);
    EXPECT_EQ(told[2].tokens, wanted);
    EXPECT_FALSE(told[0].ended);
    // A conversation that goes on from what was said.
    Ids third = second;
    third.insert(third.end(), wanted.begin(), wanted.end());
    third.push_back(7);
    ASSERT_TRUE(scheduler.submit(request(third, 5), told[3].listener()));
    while (!told[3].ended) ASSERT_TRUE(scheduler.step());
    EXPECT_GE(told[3].ended->reused_tokens, second.size() + wanted.size() - 1);
    EXPECT_EQ(told[3].tokens, alone(model, request(third, 5), false));
}

TEST(Scheduler, WhatIsCancelledEndsAtOnceAndDisturbsNobody) {
    CHAOS_NEED_SHARED("models");
    Loaded model(test::gguf("qwen3-tiny-q8_0"));
    const json wanted = expected("qwen3-tiny");
    const auto asked = request(wanted["cases"][0]["ids"].get<Ids>(), 60);
    Scheduler scheduler = make(model, {.sequences = 2, .context = 512});
    std::vector<Told> told(4);
    const auto first = scheduler.submit(asked, told[0].listener());
    const auto second = scheduler.submit(request(wanted["cases"][1]["ids"].get<Ids>(), 60), told[1].listener());
    const auto third = scheduler.submit(asked, told[2].listener());
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(scheduler.step());
    scheduler.cancel(*second);
    scheduler.cancel(*third);
    scheduler.cancel(*third);
    EXPECT_EQ(told[1].ended->ending, Ending::cancelled);
    EXPECT_EQ(told[2].ended->ending, Ending::cancelled);
    EXPECT_EQ(told[2].ended->tokens, 0U);
    EXPECT_EQ(scheduler.active(), 1U);
    // One that cancels itself, and one that has enough.
    Told& own = told[3];
    Scheduler::Id id = 0;
    Listener listener = own.listener();
    listener.on_token = [&](const Sampled& sampled) {
        own.tokens.push_back(sampled.token);
        if (own.tokens.size() == 3) scheduler.cancel(id);
        return true;
    };
    id = *scheduler.submit(asked, listener);
    while (scheduler.step()) {
    }
    EXPECT_EQ(own.ended->ending, Ending::cancelled);
    EXPECT_EQ(own.tokens.size(), 3U);
    EXPECT_EQ(told[0].tokens, alone(model, asked, false));

    Told enough;
    listener = enough.listener();
    listener.on_token = [&](const Sampled&) { return false; };
    ASSERT_TRUE(scheduler.submit(asked, listener));
    while (scheduler.step()) {
    }
    EXPECT_EQ(enough.ended->ending, Ending::stop);
    EXPECT_EQ(enough.ended->tokens, 1U);
}

TEST(Scheduler, AFullSequenceEndsItsText) {
    CHAOS_NEED_SHARED("models");
    Loaded model(test::gguf("qwen3-tiny-q8_0"));
    const auto ids = expected("qwen3-tiny")["long"]["ids"].get<Ids>();
    const Ids prompt(ids.begin(), ids.begin() + 20);
    const Ids wanted = alone(model, request(prompt, 13), false);
    for (const bool speculate : {false, true}) {
        Scheduler scheduler = make(model, {.sequences = 1, .context = 32, .speculate = speculate});
        Told told;
        ASSERT_TRUE(scheduler.submit(request(prompt, 100), told.listener()));
        while (scheduler.step()) {
        }
        // 12 tokens find room, and the last of them is followed by one more.
        EXPECT_EQ(told.ended->ending, Ending::context);
        EXPECT_EQ(told.tokens, wanted);
        EXPECT_THAT(scheduler.submit(request(ids, 1), {}).error().message, HasSubstr("has room for 32"));
        EXPECT_THAT(scheduler.submit(request({}, 1), {}).error().message, HasSubstr("empty"));
        EXPECT_THAT(scheduler.submit(request({-1}, 1), {}).error().message, HasSubstr("no token -1"));
    }
}

TEST(Scheduler, AnEndTokenEndsTheText) {
    CHAOS_NEED_SHARED("models");
    Loaded model(test::gguf("qwen3-tiny-q8_0"));
    const Ids prompt = {5, 6, 7};
    // So hot that every token comes soon.
    Request asked = request(prompt, 509, {.temperature = 100.0, .seed = 1});
    for (asked.sampling.seed = 1; asked.sampling.seed < 20; ++asked.sampling.seed) {
        const Ids all = alone(model, asked, false);
        const auto end = std::find(all.begin(), all.end(), 1);
        if (end == all.end() || end + 1 == all.end()) continue;
        asked.ignore_end = false;
        EXPECT_EQ(alone(model, asked, false), Ids(all.begin(), end + 1));
        return;
    }
    FAIL() << "no end token came";
}

}  // namespace
}  // namespace chaos::infer
