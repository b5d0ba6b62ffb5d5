#include "cli/process.h"
#include "shared.h"
#include "temporary_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::test {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> greedy = {"--temperature", "0", "--max-tokens", "24", "--threads", "1"};

std::vector<std::string> chat_with(const std::filesystem::path& model, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"chat", model.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

// What it answers to a file of lines.
Outcome chat(const std::string& lines, const std::vector<std::string>& more = greedy) {
    const TemporaryFolder folder;
    const auto input = folder.write("input", lines);
    return run_chaos(chat_with(shared("models/llama3-shakespeare"), more), folder.path(),
                     [&] { ::dup2(::open(input.c_str(), O_RDONLY), STDIN_FILENO); });
}

TEST(Chat, AnswersLineByLine) {
    CHAOS_NEED_SHARED("models");
    const Outcome once = chat("Who is king?\n");
    EXPECT_EQ(once.code, 0) << once.err;
    EXPECT_GT(once.out.size(), 10U);
    EXPECT_TRUE(once.out.ends_with("\n\n"));
    EXPECT_THAT(once.err, HasSubstr("cut off"));
    // Empty lines are no questions, and the last line need not end.
    EXPECT_EQ(chat("\n  \nWho is king?").out, once.out);
    // The same again is another conversation only after /new.
    EXPECT_EQ(chat("Who is king?\n/new\nWho is king?\n").out, once.out + once.out);
    const Outcome twice = chat("Who is king?\nAnd now?\n");
    EXPECT_TRUE(twice.out.starts_with(once.out));
    EXPECT_NE(twice.out, once.out + chat("And now?\n").out);
    EXPECT_EQ(chat("").out, "");
}

TEST(Chat, WhatIsNoTextIsAnsweredAllTheSame) {
    CHAOS_NEED_SHARED("models");
    const Outcome outcome = chat(std::string("\xFF\xC3\n\0\n\x1b[31m\n", 10));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(Chat, ATextThatDoesNotFitIsToldAndForgotten) {
    CHAOS_NEED_SHARED("models");
    const Outcome outcome = chat(std::string(100'000, 'x') + "\nWho is king?\n");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.err, HasSubstr("The context has room for"));
    EXPECT_EQ(outcome.out, "\n\n" + chat("Who is king?\n").out);
}

TEST(Chat, CtrlCEndsTheAnswerAlone) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    std::array<int, 2> input{};
    ASSERT_EQ(::pipe2(input.data(), O_CLOEXEC), 0);
    const auto say = [&](const std::string& text) {
        EXPECT_EQ(::write(input[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    };
    Process process(chat_with(shared("models/llama3-shakespeare"), {"--temperature", "0", "--threads", "1"}),
                    folder.path(), [&] { ::dup2(input[0], STDIN_FILENO); });
    ::close(input[0]);
    say("Who is king?\n");
    ASSERT_TRUE(process.wait_for_output(" ")) << process.err;
    process.signal(SIGINT);
    ASSERT_TRUE(process.wait_for_output("\n\n")) << process.err;
    // It listens on.
    const std::size_t before = process.out.size();
    say("/new\nGo on.\n");
    ::close(input[1]);
    EXPECT_EQ(process.wait(), 0) << process.err;
    EXPECT_GT(process.out.size(), before + 2);
}

TEST(Chat, AModelWithoutATemplateIsRefused) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
        std::filesystem::copy_file(shared("models/qwen3-tiny") / name, folder / name);
    const Outcome outcome = run_chaos(chat_with(folder.path(), greedy), folder.path());
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("has no chat template"));
}

}  // namespace
}  // namespace chaos::test
