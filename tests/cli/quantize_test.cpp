#include "base/file.h"
#include "cli/process.h"
#include "shared.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace chaos::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(Quantize, WhatItWritesWorks) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    for (const char* name : {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny"}) {
        const auto model = shared("models") / name;
        const json wanted = json::parse(read_file(model / "expected.json").value());
        std::string ids;
        for (const json& id : wanted["long"]["ids"]) ids += (ids.empty() ? "" : ",") + id.dump();
        const double exact = wanted["long"]["mean_nll"].get<double>();
        for (const auto& [type, distance] : {std::pair{"f16", 0.001}, {"q8_0", 0.02}, {"q4_0", 0.25}}) {
            const Outcome done = run_chaos({"quantize", model.string(), "a.gguf", "--type", type}, folder.path());
            ASSERT_EQ(done.code, 0) << done.err;
            EXPECT_EQ(done.out, "wrote a.gguf\n");
            const Outcome eval = run_chaos({"eval", "a.gguf", "--ids", ids, "--json"}, folder.path());
            ASSERT_EQ(eval.code, 0) << eval.err;
            EXPECT_NEAR(json::parse(eval.out)["mean_nll"].get<double>(), exact, distance) << name << " " << type;
        }
        // The last is a Q4_0; the tokenizer is inside.
        const auto prompt = wanted["cases"][0]["prompt"].get<std::string>();
        const Outcome text =
            run_chaos({"generate", "a.gguf", "--prompt", prompt, "--max-tokens", "8", "--json"}, folder.path());
        ASSERT_EQ(text.code, 0) << text.err;
        EXPECT_EQ(json::parse(text.out)["prompt_ids"], wanted["cases"][0]["ids"]) << name;
    }
}

TEST(Quantize, SaysWhatIsWrong) {
    const TemporaryFolder folder;
    EXPECT_THAT(run_chaos({"quantize", "in", "out.gguf", "--type", "q3"}, folder.path()).err,
                HasSubstr("--type takes q4_0, q8_0 or f16"));
    EXPECT_THAT(run_chaos({"quantize", "in", "out.gguf", "--type", "q4_0"}, folder.path()).err,
                HasSubstr("in does not exist"));
}

}  // namespace
}  // namespace chaos::test
