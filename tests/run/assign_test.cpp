#include "run/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::run::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A text run with one more line in another table.
std::string error_with(const std::string& table, const std::string& line) {
    return error_of(text_data + "[" + table + "]\n" + line + "\n");
}

TEST(Assign, AWrongTypeIsNamed) {
    EXPECT_EQ(error_with("train", "steps = \"many\""), "run.toml:4: train.steps must be a whole number, not a string");
    EXPECT_EQ(error_with("train", "steps = 10.0"),
              "run.toml:4: train.steps must be a whole number, not a decimal number");
    EXPECT_EQ(error_with("train", "steps = 2020-01-01"),
              "run.toml:4: train.steps must be a whole number, not a date or time");
    EXPECT_EQ(error_with("train", "steps = {}"), "run.toml:4: train.steps must be a whole number, not a table");
    EXPECT_EQ(error_with("train", "seed = true"), "run.toml:4: train.seed must be a whole number, not a boolean");
    EXPECT_EQ(error_with("optimizer", "learning_rate = \"1e-3\""),
              "run.toml:4: optimizer.learning_rate must be a number, not a string");
    EXPECT_EQ(error_with("model", "tied_head = 1"),
              "run.toml:4: model.tied_head must be true or false, not a whole number");
    EXPECT_EQ(error_with("model", "kind = 1"), "run.toml:4: model.kind must be a string, not a whole number");
    EXPECT_EQ(error_with("model", "init = []"), "run.toml:4: model.init must be a string, not an array");
    EXPECT_EQ(error_of("[data]\nfiles = 1"),
              "run.toml:2: data.files must be a string or an array of strings, not a whole number");
    EXPECT_EQ(error_of("[data]\nfiles = [\"a\", 1]"),
              "run.toml:2: item 2 of data.files must be a string, not a whole number");
    EXPECT_EQ(error_of("[model]\nkind = \"mlp\"\nhidden = 5\n" + image_data),
              "run.toml:3: model.hidden must be an array of whole numbers, not a whole number");
    EXPECT_EQ(error_of("[model]\nkind = \"mlp\"\nhidden = [5, 1.5]\n" + image_data),
              "run.toml:3: item 2 of model.hidden must be a whole number, not a decimal number");
}

TEST(Assign, WholeNumbersHaveLimits) {
    EXPECT_EQ(error_with("train", "steps = 0"), "run.toml:4: train.steps must be between 1 and 1000000000000, not 0");
    EXPECT_THAT(error_with("train", "steps = 1_000_000_000_001"), HasSubstr("train.steps must be between"));
    for (const char* line :
         {"batch = 0", "batch = -1", "batch = 1048577", "accumulate = 0", "seed = -1", "threads = -1", "threads = 1025",
          "eval_every = -1", "verify_every = -1", "checkpoint_every = -1", "keep_checkpoints = 0"}) {
        EXPECT_THAT(error_with("train", line), HasSubstr("must be between")) << line;
    }
    for (const char* line :
         {"width = 0", "width = 65537", "layers = 0", "layers = 1025", "heads = 0", "heads = 4097", "kv_heads = -1",
          "head_width = 4098", "ffn = -1", "ffn = 1048577", "vocab = -1", "vocab = 4194305", "max_context = 1048577"}) {
        EXPECT_THAT(error_with("model", line), HasSubstr("must be between")) << line;
    }
    EXPECT_THAT(error_of(text_data + "context = 0"), HasSubstr("data.context must be between 1 and 1048576, not 0"));
    EXPECT_THAT(error_of(text_data + "context = 1048577"), HasSubstr("data.context must be between"));
    EXPECT_THAT(error_with("schedule", "warmup_steps = -1"), HasSubstr("must be between"));
    EXPECT_THAT(error_with("model.rope", "kind = \"llama3\"\noriginal_context = 0"), HasSubstr("must be between"));
    EXPECT_THAT(error_of(image_data + "classes = 0"), HasSubstr("data.classes must be between"));
    EXPECT_THAT(error_of(image_data + "samples = 1000000001"), HasSubstr("data.samples must be between"));
    EXPECT_EQ(parsed(text_data + "[train]\nseed = 9223372036854775807").train.seed, 9223372036854775807U);
}

TEST(Assign, NumbersHaveLimits) {
    EXPECT_EQ(error_with("optimizer", "beta1 = 1"),
              "run.toml:4: optimizer.beta1 must be at least 0 and less than 1, not 1");
    EXPECT_EQ(error_with("optimizer", "learning_rate = 0.0"),
              "run.toml:4: optimizer.learning_rate must be more than 0 and at most 1000, not 0");
    EXPECT_EQ(error_with("schedule", "kind = \"cosine\"\nfinal_ratio = 1.5"),
              "run.toml:5: schedule.final_ratio must be between 0 and 1, not 1.5");
    for (const char* line : {"beta1 = -0.1", "beta2 = 1.0", "epsilon = 0", "epsilon = 1e-40", "weight_decay = -1",
                             "clip_norm = -1", "clip_norm = 1e10", "learning_rate = 1001"}) {
        EXPECT_THAT(error_with("optimizer", line), HasSubstr(" must be ")) << line;
    }
    EXPECT_THAT(error_with("optimizer", "kind = \"sgd\"\nmomentum = 1"), HasSubstr("less than 1"));
    EXPECT_THAT(error_with("model", "norm_epsilon = 0"), HasSubstr("model.norm_epsilon must be between"));
    EXPECT_THAT(error_with("model.rope", "theta = 0"), HasSubstr("model.rope.theta must be between"));
    EXPECT_THAT(error_of("[model]\nkind = \"alexnet\"\ndropout = 1\n" + image_data), HasSubstr("less than 1"));
    EXPECT_THAT(error_of(text_data + "held_out = -0.1"), HasSubstr("data.held_out must be between"));
}

TEST(Assign, NumbersAreFinite) {
    EXPECT_EQ(error_with("optimizer", "learning_rate = nan"),
              "run.toml:4: optimizer.learning_rate must be a finite number, not nan");
    EXPECT_EQ(error_with("optimizer", "clip_norm = -inf"),
              "run.toml:4: optimizer.clip_norm must be a finite number, not -inf");
}

TEST(Assign, AWholeNumberIsANumber) {
    EXPECT_EQ(parsed(text_data + "[optimizer]\nlearning_rate = 1").optimizer.learning_rate, 1.0);
}

TEST(Assign, AnUnknownKindListsAllAndSuggestsOne) {
    EXPECT_EQ(error_with("model", "kind = \"lama\""),
              "run.toml:4: model.kind must be llama, mlp, resnet18, resnet34, resnet50, resnet101, vgg11, vgg16, "
              "alexnet or torchscript, not \"lama\"; did you mean \"llama\"?");
    EXPECT_EQ(error_with("optimizer", "kind = \"rmsprop_of_1985\""),
              "run.toml:4: optimizer.kind must be adamw or sgd, not \"rmsprop_of_1985\"");
    EXPECT_EQ(error_with("schedule", "kind = \"\\n\""),
              "run.toml:4: schedule.kind must be constant or cosine, not \"?\"");
    EXPECT_THAT(error_of("[data]\nkind = \"txt\""), HasSubstr("did you mean \"text\"?"));
    EXPECT_THAT(error_with("model.rope", "kind = \"yarn\""), HasSubstr("must be default or llama3, not \"yarn\""));
    EXPECT_THAT(error_of("[model]\nkind = \"vgg11\"\nnorm = \"layer\"\n" + image_data), HasSubstr("group or batch"));
}

TEST(Assign, ListsHaveLimits) {
    EXPECT_EQ(error_of("[model]\nkind = \"mlp\"\nhidden = []\n" + image_data),
              "run.toml:3: model.hidden must have between 1 and 64 items, not 0");
    EXPECT_EQ(error_of("[model]\nkind = \"mlp\"\nhidden = [1, 0]\n" + image_data),
              "run.toml:3: item 2 of model.hidden must be between 1 and 1048576, not 0");
    EXPECT_EQ(error_of("[model]\nkind = \"mlp\"\n" + image_data + "shape = [1, 1, 1, 1, 1]"),
              "run.toml:5: data.shape must have between 1 and 4 items, not 5");
    EXPECT_EQ(error_of("[data]\nfiles = []"), "run.toml:2: data.files must not be empty");
}

TEST(Assign, PathsAreRelativeToTheFolder) {
    EXPECT_THAT(parsed("[data]\nfiles = \"a.txt\"", "some/folder").data.files, ElementsAre("some/folder/a.txt"));
    EXPECT_THAT(parsed("[data]\nfiles = [\"b.txt\", \"/c/a.txt\"]", "some").data.files,
                ElementsAre("some/b.txt", "/c/a.txt"));
    EXPECT_EQ(error_of("[data]\nfiles = \"\""), "run.toml:2: data.files must not be empty");
    EXPECT_EQ(error_of("[data]\nfiles = [\"a\\u0000b\"]"),
              "run.toml:2: item 1 of data.files must be a path, not \"a?b\"");
}

TEST(Assign, WildcardsNameFiles) {
    const TemporaryFolder folder;
    for (const char* name : {"texts/2.txt", "texts/1.txt", "texts/3.md"}) folder.write(name);
    EXPECT_THAT(parsed("[data]\nfiles = [\"z.txt\", \"texts/?.txt\"]", folder.path()).data.files,
                ElementsAre(folder.path() / "z.txt", folder.path() / "texts/1.txt", folder.path() / "texts/2.txt"));
    EXPECT_EQ(error_of("[data]\nfiles = \"texts/*.csv\"", folder.path()),
              "run.toml:2: data.files: no file matches " + (folder.path() / "texts/*.csv").string());
    EXPECT_EQ(
        error_of("[data]\nfiles = \"none/*.txt\"", folder.path()),
        "run.toml:2: data.files: cannot list " + (folder.path() / "none").string() + ": No such file or directory");
    EXPECT_EQ(error_of("[data]\nfiles = [\"*/1.txt\"]", folder.path()),
              "run.toml:2: item 1 of data.files may have * and ? only in the last part of the path \"*/1.txt\"");
}

TEST(Assign, WildcardsWorkBesideTheRunFile) {
    const TemporaryFolder folder;
    folder.write("1.txt");
    EXPECT_THAT(parsed("[data]\nfiles = \"*.txt\"", folder.path()).data.files, ElementsAre(folder.path() / "1.txt"));
}

TEST(Assign, FilesOtherThanDataMustExist) {
    const TemporaryFolder folder;
    folder.write("file");
    const std::string path = folder.path().string();
    EXPECT_EQ(error_of("[model]\npath = \"none.pt\"\n" + image_data, folder.path()),
              "run.toml:2: model.path: there is no file " + path + "/none.pt");
    EXPECT_EQ(error_of(text_data + "tokenizer = \"none.json\"", folder.path()),
              "run.toml:3: data.tokenizer: there is no file " + path + "/none.json");
    EXPECT_EQ(error_of("[model]\ninit = \"none\"\n" + text_data, folder.path()),
              "run.toml:2: model.init: there is no folder " + path + "/none");
    EXPECT_EQ(error_of("[model]\ninit = \"file\"\n" + text_data, folder.path()),
              "run.toml:2: model.init: there is no folder " + path + "/file");
    EXPECT_EQ(parsed(text_data + "tokenizer = \"file\"", folder.path()).data.tokenizer, folder.path() / "file");
}

}  // namespace
}  // namespace chaos::run::test
