#include "serve/model_generator.h"

#include "infer/model_text.h"
#include "infer/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace {

using namespace chaos;
using namespace chaos::serve;
using nlohmann::json;
using testing::HasSubstr;

// What a task says, for a test that waits.
class Heard {
public:
    serve::Sink sink() {
        return [this](Event event) {
            const std::scoped_lock lock(mutex_);
            if (std::holds_alternative<Begun>(event)) begun_ = true;
            if (auto* piece = std::get_if<Piece>(&event)) pieces_.push_back(std::move(*piece));
            if (auto* end = std::get_if<Finished>(&event)) finished_ = *end;
            if (auto* failed = std::get_if<Failed>(&event)) failed_ = *failed;
            changed_.notify_all();
        };
    }
    Finished finished() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return finished_ || failed_; });
        EXPECT_FALSE(failed_) << failed_->message;
        return finished_.value_or(Finished{});
    }
    Failed failed() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return finished_ || failed_; });
        EXPECT_TRUE(failed_);
        return failed_.value_or(Failed{});
    }
    void wait_for_pieces(std::size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return pieces_.size() >= count; });
    }
    std::string text() {
        const std::scoped_lock lock(mutex_);
        std::string text;
        for (const Piece& piece : pieces_) text += piece.text;
        return text;
    }
    std::vector<ChosenToken> tokens() {
        const std::scoped_lock lock(mutex_);
        std::vector<ChosenToken> tokens;
        for (const Piece& piece : pieces_) tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
        return tokens;
    }

private:
    std::mutex mutex_;  // the generator's threads speak, the test listens
    std::condition_variable changed_;
    bool begun_ = false;
    std::vector<Piece> pieces_;
    std::optional<Finished> finished_;
    std::optional<Failed> failed_;
};

class ModelGeneratorTest : public testing::Test {
protected:
    void load(const std::string& name, ModelGeneratorOptions options = {}) {
        loaded_ = std::make_unique<infer::test::Loaded>(infer::test::folder(name), 2);
        auto tokenizer = infer::tokenizer_of(loaded_->model->file());
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        auto format = infer::chat_format_of(loaded_->model->file());
        ASSERT_TRUE(format) << format.error().message;
        options.name = name;
        if (options.context == 0) options.context = 512;
        auto made = ModelGenerator::make(*loaded_->engine, std::move(*tokenizer), std::move(*format), options);
        ASSERT_TRUE(made) << made.error().message;
        generator_ = std::move(*made);
    }
    Ticket start(Task task, Heard& heard) {
        const auto started = generator_->start(std::move(task), heard.sink());
        EXPECT_TRUE(std::holds_alternative<Ticket>(started));
        return std::holds_alternative<Ticket>(started) ? std::get<Ticket>(started) : 0;
    }
    static Task task_of(const std::string& prompt, std::size_t max_tokens) {
        Task task;
        task.prompt.emplace<std::string>(prompt);
        task.max_tokens = max_tokens;
        task.sampling.temperature = 0.0;
        task.ignore_end = true;
        return task;
    }
    std::string text_of(Task task) {
        Heard heard;
        start(std::move(task), heard);
        heard.finished();
        return heard.text();
    }

    std::unique_ptr<infer::test::Loaded> loaded_;
    std::unique_ptr<ModelGenerator> generator_;
};

TEST_F(ModelGeneratorTest, SaysWhatTheReferenceSays) {
    CHAOS_NEED_SHARED("models");
    for (const char* name : {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny"}) {
        load(name);
        // All at once: what runs beside a task changes nothing.
        const json cases = infer::test::expected(name)["cases"];
        std::vector<std::unique_ptr<Heard>> all;
        for (const json& one : cases) {
            Task task = task_of(one["prompt"], one["greedy_ids"].size() - one["ids"].size());
            task.client = std::to_string(all.size() % 3);
            all.push_back(std::make_unique<Heard>());
            start(std::move(task), *all.back());
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            const Finished finished = all[i]->finished();
            EXPECT_EQ(finished.reason, Finished::Reason::length);
            EXPECT_EQ(finished.prompt_tokens, cases[i]["ids"].size());
            EXPECT_EQ(cases[i]["prompt"].get<std::string>() + all[i]->text(),
                      cases[i]["greedy_text"].get<std::string>())
                << name;
        }
        EXPECT_EQ(generator_->load().running, 0U);
        EXPECT_GT(generator_->load().batches, 0U);
        generator_.reset();
    }
}

TEST_F(ModelGeneratorTest, Converses) {
    CHAOS_NEED_SHARED("models");
    load("llama3-shakespeare");
    ASSERT_TRUE(generator_->facts().chat);
    const json expected = infer::test::expected("llama3-shakespeare")["chat"];
    Task task = task_of("", 20);
    task.prompt.emplace<Conversation>(Conversation{nlohmann::ordered_json::parse(expected["messages"].dump())});
    Heard heard;
    start(task, heard);
    const Finished first = heard.finished();
    EXPECT_GT(first.prompt_tokens, 10U);
    EXPECT_NE(heard.text(), "");
    // Its tokens are still there.
    Heard again;
    start(task, again);
    EXPECT_EQ(again.finished().cached_tokens, first.prompt_tokens - 1);
    EXPECT_EQ(again.text(), heard.text());
    EXPECT_EQ(generator_->load().cached_tokens, first.prompt_tokens - 1);
}

TEST_F(ModelGeneratorTest, TemplatesGetTheirVariables) {
    CHAOS_NEED_SHARED("models");
    load("llama3-shakespeare");
    auto tokenizer = infer::tokenizer_of(loaded_->model->file()).value();
    const std::size_t wanted = tokenizer.encode("JULIET: O Romeo, Romeo!", false).size();
    auto format = text::ChatFormat::parse({{"default", "{{ messages[0].content }}{{ word }}"}}, {}, "a");
    ASSERT_TRUE(format) << format.error().message;
    generator_ = std::move(ModelGenerator::make(*loaded_->engine, std::move(tokenizer),
                                                std::optional(std::move(*format)), {.name = "a", .context = 512}))
                     .value();
    Task task = task_of("", 1);
    const auto said = nlohmann::ordered_json::parse(R"([{"role": "user", "content": "JULIET:"}])");
    task.prompt.emplace<Conversation>(Conversation{said, {{"word", " O Romeo, Romeo!"}}});
    Heard heard;
    start(task, heard);
    EXPECT_EQ(heard.finished().prompt_tokens, wanted);
}

TEST_F(ModelGeneratorTest, StopsAtTexts) {
    CHAOS_NEED_SHARED("models");
    load("llama3-shakespeare");
    const std::string whole = text_of(task_of("KING RICHARD:\n", 40));
    const std::size_t at = whole.find("and");
    ASSERT_NE(at, std::string::npos);
    Task task = task_of("KING RICHARD:\n", 40);
    task.stop = {"never said", "and"};
    Heard heard;
    start(task, heard);
    EXPECT_EQ(heard.finished().reason, Finished::Reason::stop);
    EXPECT_EQ(heard.text(), whole.substr(0, at));
}

TEST_F(ModelGeneratorTest, ObeysSeedsBiasAndPenalties) {
    CHAOS_NEED_SHARED("models");
    load("llama3-shakespeare");
    Task warm = task_of("KING RICHARD:\n", 30);
    warm.sampling.temperature = 1.5;
    warm.sampling.seed = 7;
    const std::string seven = text_of(warm);
    EXPECT_EQ(text_of(warm), seven);
    warm.sampling.seed = 8;
    EXPECT_NE(text_of(warm), seven);

    Task biased = task_of("KING RICHARD:\n", 5);
    biased.sampling.bias = {{50, 100.0}};
    biased.logprobs = true;
    Heard heard;
    start(biased, heard);
    heard.finished();
    const auto tokens = heard.tokens();
    ASSERT_EQ(tokens.size(), 5U);
    for (const ChosenToken& token : tokens) EXPECT_EQ(token.chance.bytes, tokens[0].chance.bytes);
    biased.sampling.presence_penalty = 2.0;
    biased.sampling.frequency_penalty = 2.0;
    biased.sampling.bias = {{50, 20.0}};
    EXPECT_NE(text_of(biased), heard.text());
}

TEST_F(ModelGeneratorTest, TellsHowLikelyTokensAre) {
    CHAOS_NEED_SHARED("models");
    load("llama2-tiny");
    Task task = task_of("KING RICHARD:\n", 12);
    task.logprobs = true;
    task.top_logprobs = 3;
    Heard heard;
    start(task, heard);
    heard.finished();
    const auto tokens = heard.tokens();
    ASSERT_EQ(tokens.size(), 12U);
    std::string text;
    for (const ChosenToken& token : tokens) {
        ASSERT_EQ(token.top.size(), 3U);
        EXPECT_EQ(token.top[0].bytes, token.chance.bytes);  // it takes the likeliest
        EXPECT_LE(token.chance.logprob, 0.0);
        EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
        text += token.chance.bytes;
    }
    EXPECT_EQ(text, heard.text());
}

TEST_F(ModelGeneratorTest, AFullContextEndsTheText) {
    CHAOS_NEED_SHARED("models");
    load("llama3-shakespeare", {.name = "", .parallel = 1, .context = 32, .max_waiting = 1});
    Task task = task_of("KING RICHARD:\n", 1000);
    task.max_tokens = {};
    Heard heard;
    start(task, heard);
    const Finished finished = heard.finished();
    EXPECT_EQ(finished.reason, Finished::Reason::length);
    EXPECT_EQ(finished.prompt_tokens + finished.completion_tokens, 33U);  // nothing needs to follow the last
    Task large = task_of("", 1);
    for (int i = 0; i < 40; ++i) std::get<std::string>(large.prompt) += "KING RICHARD:\n";
    Heard refused;
    start(large, refused);
    EXPECT_EQ(refused.failed().kind, Failed::Kind::too_long);
    EXPECT_THAT(refused.failed().message, HasSubstr("32 tokens"));
    Heard empty;
    task.prompt.emplace<std::vector<TokenId>>();
    start(task, empty);
    EXPECT_EQ(empty.failed().kind, Failed::Kind::prompt);
}

TEST_F(ModelGeneratorTest, TasksWaitCancelledOnesDoNot) {
    CHAOS_NEED_SHARED("models");
    load("llama3-shakespeare", {.name = "", .parallel = 1, .context = 1024, .max_waiting = 2});
    Task endless = task_of("KING RICHARD:\n", 1000);
    Heard running;
    const Ticket first = start(endless, running);
    running.wait_for_pieces(1);
    Heard waits;
    Heard leaves;
    start(task_of("ROMEO:\n", 3), waits);
    const Ticket gone = start(endless, leaves);
    Heard refused;
    const auto busy = generator_->start(endless, refused.sink());
    ASSERT_TRUE(std::holds_alternative<Busy>(busy));
    EXPECT_GE(std::get<Busy>(busy).retry_after_s, 1U);
    EXPECT_EQ(generator_->load().running, 1U);
    EXPECT_EQ(generator_->load().waiting, 2U);
    generator_->cancel(gone);
    generator_->cancel(first);
    generator_->cancel(12345);
    EXPECT_EQ(waits.finished().completion_tokens, 3U);
    EXPECT_EQ(leaves.text(), "");
    EXPECT_EQ(generator_->load().waiting, 0U);
}

TEST_F(ModelGeneratorTest, EndsWhateverRuns) {
    CHAOS_NEED_SHARED("models");
    load("llama3-shakespeare");
    std::vector<std::unique_ptr<Heard>> all;
    const Task task = task_of("KING RICHARD:\n", 400);
    for (int i = 0; i < 12; ++i) {
        all.push_back(std::make_unique<Heard>());
        start(task, *all.back());
    }
    all[0]->wait_for_pieces(1);
    generator_.reset();
}

}  // namespace
