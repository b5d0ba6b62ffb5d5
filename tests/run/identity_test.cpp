#include "run/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::run::test {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::Pair;

Digest hash_of(const std::string& text, const std::filesystem::path& folder = {}) {
    return hash(identity(parsed(text, folder)));
}

TEST(Identity, OfALanguageModel) {
    EXPECT_THAT(
        identity(parsed(text_data)),
        ElementsAre(Pair("data.context", "128"), Pair("data.held_out", "0.1"), Pair("data.kind", "text"),
                    Pair("model.ffn", "704"), Pair("model.head_width", "64"), Pair("model.heads", "4"),
                    Pair("model.kind", "llama"), Pair("model.kv_heads", "4"), Pair("model.layers", "4"),
                    Pair("model.max_context", "128"), Pair("model.norm_epsilon", "1e-05"),
                    Pair("model.rope.kind", "default"), Pair("model.rope.theta", "10000"),
                    Pair("model.tied_head", "false"), Pair("model.vocab", "0"), Pair("model.width", "256"),
                    Pair("optimizer.beta1", "0.9"), Pair("optimizer.beta2", "0.999"), Pair("optimizer.clip_norm", "0"),
                    Pair("optimizer.epsilon", "1e-08"), Pair("optimizer.kind", "adamw"),
                    Pair("optimizer.learning_rate", "0.001"), Pair("optimizer.weight_decay", "0"),
                    Pair("schedule.kind", "constant"), Pair("schedule.warmup_steps", "0"),
                    Pair("train.accumulate", "1"), Pair("train.batch", "32"), Pair("train.seed", "1")));
}

TEST(Identity, HasOnlyKeysThatApply) {
    EXPECT_THAT(
        identity(parsed("[model]\nkind = \"mlp\"\nhidden = [5, 6]\n" + image_data +
                        "[optimizer]\nkind = \"sgd\"\n[schedule]\nkind = \"cosine\"")),
        ElementsAre(Pair("data.classes", "10"), Key("data.held_out"), Key("data.kind"), Key("data.samples"),
                    Pair("data.shape", "3,32,32"), Pair("model.classes", "0"), Pair("model.hidden", "5,6"),
                    Key("model.kind"), Key("optimizer.clip_norm"), Key("optimizer.kind"),
                    Key("optimizer.learning_rate"), Pair("optimizer.momentum", "0.9"), Key("optimizer.weight_decay"),
                    Pair("schedule.final_ratio", "0.1"), Key("schedule.kind"), Key("schedule.warmup_steps"),
                    Key("train.accumulate"), Key("train.batch"), Key("train.seed"), Pair("train.steps", "1000")));
}

TEST(Identity, ChangesWithTheMathematics) {
    const Digest before = hash_of(text_data);
    for (const char* lines :
         {"[data]\ncontext = 64", "[data]\nheld_out = 0.2", "[model]\nlayers = 5", "[model]\ntied_head = true",
          "[model]\nvocab = 300", "[model]\nnorm_epsilon = 1e-6", "[model]\nrope = {theta = 20000}",
          "[model]\nrope = {kind = \"llama3\"}", "[optimizer]\nkind = \"sgd\"", "[optimizer]\nlearning_rate = 2e-3",
          "[optimizer]\nweight_decay = 0.1", "[optimizer]\nbeta2 = 0.95", "[optimizer]\nclip_norm = 1",
          "[schedule]\nkind = \"cosine\"", "[schedule]\nwarmup_steps = 5", "[train]\nbatch = 64",
          "[train]\naccumulate = 2", "[train]\nseed = 2"}) {
        const std::string text(lines);
        const bool in_data = text.starts_with("[data]\n");
        EXPECT_NE(hash_of(text_data + (in_data ? text.substr(7) : text)), before) << lines;
    }
}

TEST(Identity, DoesNotChangeWithTheRest) {
    const Digest before = hash_of(text_data);
    for (const char* line : {"steps = 2000", "threads = 3", "eval_every = 1", "verify_every = 3",
                             "checkpoint_every = 0", "keep_checkpoints = 9"}) {
        EXPECT_EQ(hash_of(text_data + "[train]\n" + line), before) << line;
    }
    EXPECT_EQ(hash_of("[data]\nfiles = \"b.txt\"", "elsewhere"), before);
}

TEST(Identity, DoesNotChangeWithTheSpelling) {
    const Digest before = hash_of(text_data);
    EXPECT_EQ(hash_of(text_data + "held_out = 1e-1\n[optimizer]\nlearning_rate = 0.00100\nweight_decay = -0.0"),
              before);
    EXPECT_EQ(hash_of(text_data + "[model]\nkv_heads = 4\nhead_width = 64\nffn = 704\nmax_context = 128"), before);
}

TEST(Identity, CountsStepsWhenTheScheduleEndsThere) {
    const std::string cosine = text_data + "[schedule]\nkind = \"cosine\"\n[train]\nsteps = ";
    EXPECT_NE(hash_of(cosine + "100"), hash_of(cosine + "200"));
}

TEST(Identity, OfInitHasTheShapeThatWasFilledIn) {
    const TemporaryFolder folder;
    folder.write("model/tokenizer.json");
    run::Run run = parsed("[model]\ninit = \"model\"\n" + text_data, folder.path());
    run.model.llama.width = 2048;
    EXPECT_EQ(identity(run).at("model.width"), "2048");
    EXPECT_FALSE(identity(run).contains("model.init"));
}

TEST(Identity, HashKeepsKeysAndValuesApart) {
    EXPECT_NE(hash({{"ab", "c"}}), hash({{"a", "bc"}}));
    EXPECT_NE(hash({{"a", "b"}, {"c", "d"}}), hash({{"a", "b\1c"}}));
    EXPECT_NE(hash({}), hash({{"", ""}}));
    // Checkpoints carry hashes, so their recipe must not change: length (8 bytes, little-endian), bytes, and so on.
    EXPECT_EQ(hash({{"a", "b"}}), sha256(std::string("\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0b", 18)));
}

}  // namespace
}  // namespace chaos::run::test
