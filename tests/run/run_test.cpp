#include "run/run.h"

#include "base/file.h"
#include "run/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::run::test {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

const std::filesystem::path repository = CHAOS_SOURCE;

TEST(Run, DefaultsNeedNothingButFiles) {
    const run::Run run = parsed(text_data);
    EXPECT_EQ(run.model.kind, "llama");
    EXPECT_EQ(run.model.llama.width, 256);
    EXPECT_EQ(run.model.llama.layers, 4);
    EXPECT_EQ(run.model.llama.rope.kind, "default");
    EXPECT_EQ(run.data.kind, "text");
    EXPECT_EQ(run.data.context, 128);
    EXPECT_TRUE(run.data.tokenizer.empty());
    EXPECT_EQ(run.optimizer.kind, "adamw");
    EXPECT_EQ(run.optimizer.learning_rate, 1e-3);
    EXPECT_EQ(run.schedule.kind, "constant");
    EXPECT_EQ(run.train.steps, 1000);
    EXPECT_EQ(run.train.seed, 1U);
}

TEST(Run, ReadsEveryTable) {
    const run::Run run = parsed(R"(
        optimizer = {kind = "sgd", momentum = 0.5}
        [model]
        layers = 2
        tied_head = true
        rope = {kind = "llama3", theta = 500000, factor = 8, original_context = 4096}
        [data]
        files = ["a.txt"]
        [schedule]
        kind = "cosine"
        final_ratio = 0
        [train]
        threads = 2
    )");
    EXPECT_EQ(run.optimizer.kind, "sgd");
    EXPECT_EQ(run.optimizer.momentum, 0.5);
    EXPECT_EQ(run.model.llama.layers, 2);
    EXPECT_TRUE(run.model.llama.tied_head);
    EXPECT_EQ(run.model.llama.rope.theta, 500000.0);
    EXPECT_EQ(run.model.llama.rope.factor, 8.0);
    EXPECT_EQ(run.model.llama.rope.original_context, 4096);
    EXPECT_EQ(run.schedule.final_ratio, 0.0);
    EXPECT_EQ(run.train.threads, 2);
}

TEST(Run, AnUnknownKeyIsNamedWithASuggestion) {
    EXPECT_EQ(error_of("[optimizer]\nkind = \"sgd\"\nlearnin_rate = 1"),
              "run.toml:3: unknown key \"optimizer.learnin_rate\"; did you mean \"learning_rate\"?");
    EXPECT_EQ(error_of("[train]\nxyzzy = 1"), "run.toml:2: unknown key \"train.xyzzy\"");
    EXPECT_EQ(error_of("[data]\nfile = \"a.txt\""), "run.toml:2: unknown key \"data.file\"; did you mean \"files\"?");
    EXPECT_EQ(error_of("[model.rope]\nthteta = 1"),
              "run.toml:2: unknown key \"model.rope.thteta\"; did you mean \"theta\"?");
}

TEST(Run, AKeyInTheWrongTableIsSentToItsOwn) {
    EXPECT_EQ(error_of("[train]\nlearning_rate = 1"),
              "run.toml:2: unknown key \"train.learning_rate\"; did you mean \"optimizer.learning_rate\"?");
    EXPECT_EQ(error_of("steps = 1"), "run.toml:1: unknown key \"steps\"; did you mean \"train.steps\"?");
}

TEST(Run, AnUnknownTableIsNamedWithASuggestion) {
    EXPECT_EQ(error_of("[modle]\nlayers = 1"), "run.toml:1: unknown table \"modle\"; did you mean \"model\"?");
    EXPECT_EQ(error_of(text_data + "[model.roap]"),
              "run.toml:3: unknown table \"model.roap\"; did you mean \"model.rope\"?");
    EXPECT_EQ(error_of("[something]"), "run.toml:1: unknown table \"something\"");
}

TEST(Run, ATableMustBeATable) {
    EXPECT_EQ(error_of("model = \"llama\""), "run.toml:1: model must be a table, not a string");
    EXPECT_EQ(error_of("[[train]]\nsteps = 1"), "run.toml:1: train must be a table, not an array");
}

TEST(Run, ATypoIsFoundBeforeItsConsequences) {
    EXPECT_EQ(error_of("[model]\nhidden = [3]\nknd = \"mlp\"\n"),
              "run.toml:3: unknown key \"model.knd\"; did you mean \"kind\"?");
}

TEST(Run, InitBringsItsTokenizer) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() / "model");
    const std::string text = "[model]\ninit = \"model\"\n";
    EXPECT_EQ(error_of(text + text_data, folder.path()),
              "run.toml:2: model.init: there is no file " + (folder.path() / "model/tokenizer.json").string());
    EXPECT_TRUE(parsed(text + "[data]\nkind = \"synthetic\"", folder.path()).data.tokenizer.empty());
    folder.write("model/tokenizer.json");
    const run::Run run = parsed(text + text_data, folder.path());
    EXPECT_EQ(run.model.kind, "llama");
    EXPECT_EQ(run.model.init, folder.path() / "model");
    EXPECT_EQ(run.data.tokenizer, folder.path() / "model/tokenizer.json");
}

TEST(Run, PathsThatAreKnownAreNotLookedFor) {
    const std::string text =
        "[model]\npath = \"net.pt\"\n[data]\nkind = \"idx\"\nfiles = \"*.img\"\nlabels = [\"a\", \"b\"]\n";
    const Places places = {
        {"model.path", {"/m/net.pt"}}, {"data.files", {"/d/1", "/d/2"}}, {"data.labels", {"/d/a", "/d/b"}}};
    const auto run = parse_run(text, "run.toml", places);
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(run->model.path, "/m/net.pt");
    EXPECT_THAT(run->data.files, ElementsAre("/d/1", "/d/2"));
    EXPECT_THAT(run->data.labels, ElementsAre("/d/a", "/d/b"));

    const auto error = [&](const std::string& key, const std::vector<std::filesystem::path>& paths) {
        Places others = places;
        others.erase(key);
        if (!paths.empty()) others[key] = paths;
        const auto other = parse_run(text, "run.toml", others);
        return other.ok() ? "" : other.error().message;
    };
    EXPECT_EQ(error("model.path", {}), "run.toml:2: model.path: it is not known what it stands for here");
    EXPECT_EQ(error("model.path", {"a", "b"}), "run.toml:2: model.path must name one path, not 2");
    EXPECT_EQ(error("data.labels", {"a"}),
              "run.toml:6: data.labels must name one file for each of data.files: 1 instead of 2");
}

TEST(Run, IsReadFromAFile) {
    const TemporaryFolder folder;
    folder.write("run.toml", text_data);
    const auto run = read_run(folder.path() / "run.toml");
    ASSERT_TRUE(run.ok());
    EXPECT_THAT(run->data.files, ElementsAre(folder.path() / "a.txt"));
}

TEST(Run, AMissingFileIsNamed) {
    const auto run = read_run("/no/such/run.toml");
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.error().message, "cannot read /no/such/run.toml: No such file or directory");
}

TEST(Run, ErrorsNameTheFileAsItWasGiven) {
    const TemporaryFolder folder;
    folder.write("run.toml", "steps = \n");
    const auto run = read_run(folder.path() / "run.toml");
    ASSERT_FALSE(run.ok());
    EXPECT_THAT(run.error().message, StartsWith((folder.path() / "run.toml:1: ").string()));
}

TEST(Run, ExamplesAreValid) {
    const auto shakespeare = read_run(repository / "examples/shakespeare.toml");
    ASSERT_TRUE(shakespeare.ok()) << shakespeare.error().message;
    EXPECT_EQ(shakespeare->model.kind, "llama");
    EXPECT_EQ(shakespeare->model.llama.layers, 4);
    EXPECT_EQ(shakespeare->model.llama.width, 256);
    EXPECT_EQ(shakespeare->train.steps, 300);
    const auto mnist = read_run(repository / "examples/mnist.toml");
    ASSERT_TRUE(mnist.ok()) << mnist.error().message;
    EXPECT_EQ(mnist->model.kind, "mlp");
    EXPECT_EQ(mnist->data.kind, "idx");
}

TEST(Run, ExamplesOfTheDocumentAreValid) {
    const auto document = read_file(repository / "docs/run-file.md");
    ASSERT_TRUE(document.ok()) << document.error().message;
    const TemporaryFolder folder;
    folder.write("books/one.txt");
    folder.write("cifar-10-batches-bin/data_batch_1.bin");
    std::vector<std::string> kinds;
    const std::string begin = "```toml\n";
    for (std::size_t at = document->find(begin); at != std::string::npos; at = document->find(begin, at + 1)) {
        const std::size_t from = at + begin.size();
        kinds.push_back(parsed(document->substr(from, document->find("```", from) - from), folder.path()).model.kind);
    }
    EXPECT_THAT(kinds, ElementsAre("llama", "resnet18"));
}

}  // namespace
}  // namespace chaos::run::test
