#include "base/file.h"
#include "cli/process.h"
#include "shared.h"
#include "synthetic_model.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace chaos::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json expected(const std::filesystem::path& model) {
    return json::parse(read_file(model / "expected.json").value());
}

Outcome generate(const std::filesystem::path& model, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"generate", model.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_chaos(arguments, model.parent_path());
}

TEST(Generate, ContinuesAsTheReferenceImplementationDoes) {
    CHAOS_NEED_SHARED("models");
    for (const char* name : {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny"}) {
        const auto model = shared("models") / name;
        const json wanted = expected(model);
        for (const json& each : wanted["cases"]) {
            const Outcome outcome = generate(
                model, {"--prompt", each["prompt"].get<std::string>(), "--max-tokens", "48", "--ignore-eos", "--json"});
            ASSERT_EQ(outcome.code, 0) << outcome.err;
            const json result = json::parse(outcome.out);
            EXPECT_EQ(result["prompt_ids"], each["ids"]) << name;
            json all = result["prompt_ids"];
            for (const json& id : result["ids"]) all.push_back(id);
            EXPECT_EQ(all, each["greedy_ids"]) << name;
            // Also behind a prompt whose last characters are tokens byte by byte.
            EXPECT_EQ(each["prompt"].get<std::string>() + result["text"].get<std::string>(),
                      each["greedy_text"].get<std::string>())
                << name;
        }
    }
}

TEST(Generate, TakesTextOrNumbers) {
    CHAOS_NEED_SHARED("models");
    const auto model = shared("models") / "qwen3-tiny";
    const json each = expected(model)["cases"][0];
    const auto prompt = each["prompt"].get<std::string>();
    const Outcome shown = generate(model, {"--prompt", prompt, "--max-tokens", "48", "--ignore-eos"});
    EXPECT_EQ(prompt + shown.out, each["greedy_text"].get<std::string>() + "\n");
    const Outcome file =
        generate(shared("models") / "gguf" / "qwen3-tiny-f16.gguf", {"--prompt", prompt, "--max-tokens", "48"});
    EXPECT_EQ(file.out, shown.out);
    const Outcome numbers = generate(model, {"--ids", "477,707,27", "--max-tokens", "2", "--json"});
    EXPECT_EQ(json::parse(numbers.out)["prompt_ids"], json({477, 707, 27}));
    EXPECT_EQ(json::parse(numbers.out)["ids"].size(), 2U);
}

TEST(Generate, StopsWhereItIsTold) {
    CHAOS_NEED_SHARED("models");
    const auto model = shared("models") / "qwen3-tiny";
    const std::string prompt = "KING RICHARD:\n";
    const json all = json::parse(generate(model, {"--prompt", prompt, "--max-tokens", "48", "--json"}).out);
    const auto text = all["text"].get<std::string>();
    const std::string word = text.substr(text.size() / 2, 3);
    const json cut =
        json::parse(generate(model, {"--prompt", prompt, "--max-tokens", "48", "--stop", word, "--json"}).out);
    EXPECT_EQ(cut["ending"], "stop");
    EXPECT_EQ(cut["text"].get<std::string>(), text.substr(0, text.find(word)));
    const json full =
        json::parse(generate(model, {"--prompt", prompt, "--max-tokens", "600", "--ignore-eos", "--json"}).out);
    EXPECT_EQ(full["ending"], "context");
    EXPECT_EQ(full["prompt_ids"].size() + full["ids"].size(), 513U);
}

TEST(Generate, SeedsAndThreadsAndSpeculation) {
    CHAOS_NEED_SHARED("models");
    const auto model = shared("models") / "llama2-tiny";
    const auto ids = [&](std::vector<std::string> more) {
        const std::vector<std::string> always = {"--prompt", "The king is", "--max-tokens", "60",    "--temperature",
                                                 "0.9",      "--top-k",     "50",           "--json"};
        more.insert(more.end(), always.begin(), always.end());
        const Outcome outcome = generate(model, more);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return json::parse(outcome.out)["ids"];
    };
    const json first = ids({"--seed", "1"});
    EXPECT_EQ(first, ids({"--seed", "1", "--threads", "1", "--no-speculation"}));
    EXPECT_NE(first, ids({"--seed", "2"}));
}

TEST(Generate, StaysWithinTheMemoryItIsGiven) {
    const TemporaryFolder folder;
    const auto model = folder / "model.gguf";
    ASSERT_TRUE(bench::write_synthetic_model(model, {.layers = 5, .vocabulary = 8000}));
    const auto answer = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments = {"--ids", "1,2,3", "--max-tokens", "4", "--ignore-eos", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = generate(model, arguments);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return json::parse(outcome.out);
    };
    const json whole = answer({});
    EXPECT_FALSE(whole.contains("window"));
    const std::string cache = (folder / "cache").string();
    for (const std::uint64_t megabytes : {60U, 100U}) {
        const json windowed = answer({"--memory", std::to_string(megabytes) + "MB", "--cache", cache});
        EXPECT_EQ(windowed["ids"], whole["ids"]);
        const json& window = windowed["window"];
        EXPECT_LT(window["peak_resident_bytes"].get<std::uint64_t>(), megabytes * 1'100'000) << window;
        EXPECT_GT(window["streamed_bytes_per_token"].get<std::uint64_t>(), 180'000'000 - megabytes * 1'000'000);
        // What was read ahead when the first token was there is not read for the last one, and the other way round.
        const auto planned = window["streamed_bytes_per_token"].get<double>();
        EXPECT_NEAR(window["read_bytes_per_token"].get<double>(), planned, planned / 5.0);
        EXPECT_GT(window["expected_seconds_per_token"].get<double>(), 0.0);
    }
    const Outcome small = generate(model, {"--ids", "1", "--memory", "9MB", "--cache", cache});
    EXPECT_EQ(small.code, 2);
    EXPECT_THAT(small.err, HasSubstr("a memory of 9.0 MB is too small"));
    const Outcome odd = generate(model, {"--ids", "1", "--memory", "much"});
    EXPECT_EQ(odd.code, 2);
    EXPECT_THAT(odd.err, HasSubstr("--memory takes a size like 2GB"));
}

TEST(Generate, SaysWhatIsWrong) {
    CHAOS_NEED_SHARED("models");
    const auto model = shared("models") / "llama2-tiny";
    const auto refusal = [&](const std::vector<std::string>& more) {
        const Outcome outcome = generate(model, more);
        EXPECT_EQ(outcome.code, 2);
        EXPECT_EQ(outcome.out, "");
        return outcome.err;
    };
    EXPECT_THAT(refusal({}), HasSubstr("--prompt or --ids"));
    EXPECT_THAT(refusal({"--ids", "1,,2"}), HasSubstr("--ids takes numbers"));
    EXPECT_THAT(refusal({"--ids", "1,99999"}), HasSubstr("there is no token 99999"));
    EXPECT_THAT(refusal({"--prompt", "a", "--top-p", "2"}), HasSubstr("top-p must be"));
    EXPECT_THAT(refusal({"--prompt", "a", "--kv", "q4"}), HasSubstr("--kv takes f16 or f32"));
    std::string word;
    for (int i = 0; i < 600; ++i) word += " word";
    EXPECT_THAT(refusal({"--prompt", word}), HasSubstr("tokens, the model's context only 512"));
    const TemporaryFolder folder;
    EXPECT_THAT(generate(folder / "nothing", {"--prompt", "a"}).err, HasSubstr("does not exist"));
}

}  // namespace
}  // namespace chaos::test
