#include "base/file.h"
#include "cli/process.h"
#include "shared.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace chaos::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string joined(const json& ids) {
    std::string text;
    for (const json& id : ids) text += (text.empty() ? "" : ",") + id.dump();
    return text;
}

TEST(Eval, AgreesWithTheReferenceImplementation) {
    CHAOS_NEED_SHARED("models");
    for (const char* name : {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny"}) {
        const auto model = shared("models") / name;
        const json wanted = json::parse(read_file(model / "expected.json").value());
        json cases = wanted["cases"];
        cases.push_back(wanted["long"]);
        for (const json& each : cases) {
            const Outcome outcome =
                run_chaos({"eval", model.string(), "--ids", joined(each["ids"]), "--json"}, model.parent_path());
            ASSERT_EQ(outcome.code, 0) << outcome.err;
            const json result = json::parse(outcome.out);
            EXPECT_NEAR(result["mean_nll"].get<double>(), each["mean_nll"].get<double>(), 1e-4) << name;
            if (!each.contains("last_logits")) continue;
            ASSERT_EQ(result["last_logits"].size(), each["last_logits"].size());
            for (std::size_t i = 0; i < each["last_logits"].size(); ++i)
                ASSERT_NEAR(result["last_logits"][i].get<double>(), each["last_logits"][i].get<double>(), 1e-4);
        }
    }
}

TEST(Eval, TextsLongerThanTheContextAreCut) {
    CHAOS_NEED_SHARED("models");
    const auto model = shared("models") / "llama2-tiny";
    const TemporaryFolder folder;
    std::string text;
    for (int i = 0; i < 40; ++i) text += "KING RICHARD:\nWhat say you, my lord?\n";
    const auto file = folder.write("text.txt", text);
    const auto eval = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments = {"eval", model.string(), "--text-file", file.string()};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = run_chaos(arguments, folder.path());
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return outcome.out;
    };
    const json result = json::parse(eval({"--json", "--context", "100"}));
    const auto tokens = result["tokens"].get<std::size_t>();
    EXPECT_EQ(result["windows"], (tokens + 99) / 100);
    EXPECT_EQ(result["predicted"], tokens - (tokens + 99) / 100);
    EXPECT_THAT(eval({"--context", "100"}), HasSubstr("windows of 100 tokens, each by itself"));
}

TEST(Eval, SaysWhatIsWrong) {
    CHAOS_NEED_SHARED("models");
    const auto model = (shared("models") / "llama2-tiny").string();
    const TemporaryFolder folder;
    EXPECT_THAT(run_chaos({"eval", model}, folder.path()).err, HasSubstr("--ids or --text-file"));
    EXPECT_THAT(run_chaos({"eval", model, "--text-file", "none.txt"}, folder.path()).err, HasSubstr("none.txt"));
    EXPECT_THAT(run_chaos({"eval", model, "--ids", "-1"}, folder.path()).err, HasSubstr("there is no token -1"));
}

}  // namespace
}  // namespace chaos::test
