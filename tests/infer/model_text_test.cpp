#include "infer/model_text.h"

#include "infer/models.h"

#include <gtest/gtest.h>

namespace chaos::infer {
namespace {

TEST(ModelText, EveryFileOfAModelHasItsTokenizer) {
    CHAOS_NEED_SHARED("models");
    for (const auto& [model, file] : {std::pair{"llama2-tiny", "llama2-tiny-q4_0"},
                                      {"llama3-shakespeare", "llama3-shakespeare-q4_k_m"},
                                      {"qwen3-tiny", "qwen3-tiny-f16"}}) {
        const nlohmann::json wanted = test::expected(model);
        for (const auto& path : {test::folder(model), test::gguf(file)}) {
            const auto opened = ModelFile::open(path);
            ASSERT_TRUE(opened) << opened.error().message;
            const auto tokenizer = tokenizer_of(*opened);
            ASSERT_TRUE(tokenizer) << tokenizer.error().message;
            for (const auto& each : wanted["cases"])
                EXPECT_EQ(tokenizer->encode(each["prompt"].get<std::string>()), each["ids"].get<test::Ids>()) << path;
        }
    }
}

}  // namespace
}  // namespace chaos::infer
