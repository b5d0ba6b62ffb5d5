#include "node/description.h"

#include "data/files.h"
#include "elastic/describer.h"
#include "state/hugging_face.h"
#include "toy_engine/toy_engine.h"

#include "proto/elastic.pb.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace chaos::node {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

std::string content(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

std::string some_text(char letter) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += static_cast<char>('a' + (letter + i * i) % 26);
    return text;
}

elastic::Trainer open(const run::Run& run) {
    auto trainer = elastic::Trainer::open(run, toy::make_toy_engine({}));
    if (!trainer) throw std::runtime_error(trainer.error().message);
    return std::move(*trainer);
}

// A member's machine, in `there`, and a newcomer's, in `here`.
class Descriptions : public ::testing::Test {
protected:
    // As it arrives.
    Description described(const std::string& run_text) {
        const fs::path run_file = there.write("runs/run.toml", run_text);
        auto run = run::read_run(run_file);
        if (!run) throw std::runtime_error(run.error().message);
        const elastic::Trainer trainer = open(*run);
        const auto description = describe(run_file, trainer);
        if (!description) throw std::runtime_error(description.error().message);
        EXPECT_EQ(description->run(), run::hash(trainer.identity()));
        const auto bytes = encode(*description);
        EXPECT_TRUE(bytes);
        const auto decoded = decode_description(*bytes);
        if (!decoded) throw std::runtime_error(decoded.error().message);
        EXPECT_EQ(*decoded, *description);
        return *decoded;
    }
    run::Run installed(const Description& description, const fs::path& data = {}) {
        const auto run = install(description, here / "node", data);
        if (!run) throw std::runtime_error(run.error().message);
        EXPECT_EQ(content(here / "node/run.toml"), description.run_text);
        const auto same = check_same_run(open(*run).identity(), description.identity);
        EXPECT_TRUE(same) << same.error().message;
        return *run;
    }
    std::string error(const Description& description, const fs::path& data = {}) {
        const auto run = install(description, here / "node", data);
        EXPECT_FALSE(run);
        EXPECT_FALSE(fs::exists(here / "node/run.toml"));
        return run ? "" : run.error().message;
    }

    const TemporaryFolder there;
    const TemporaryFolder here;
};

constexpr const char* text_run = R"([model]
width = 16
heads = 2
[data]
files = ["../data/*.txt", "more.txt"]
context = 8
)";

TEST_F(Descriptions, TextIsFoundBelowTheNodesFolder) {
    there.write("data/b.txt", some_text('b'));
    there.write("data/a.txt", some_text('a'));
    there.write("runs/more.txt", some_text('c'));
    const Description description = described(text_run);
    ASSERT_EQ(description.data.size(), 3U);
    EXPECT_EQ(description.data[0].path, "../data/a.txt");
    EXPECT_EQ(description.data[0].key, "data.files");
    EXPECT_EQ(description.data[0].bytes, 400U);
    EXPECT_EQ(description.data[2].path, "more.txt");
    EXPECT_TRUE(description.files.empty());

    here.write("node/data/a.txt", some_text('a'));
    here.write("node/data/b.txt", some_text('b'));
    here.write("node/data/unknown.txt", "which the cluster does not have");
    here.write("node/more.txt", some_text('c'));
    EXPECT_THAT(installed(description).data.files,
                ElementsAre(here / "node/data/a.txt", here / "node/data/b.txt", here / "node/more.txt"));
}

TEST_F(Descriptions, TextIsFoundInAFolderByPathOrByName) {
    there.write("data/a.txt", some_text('a'));
    there.write("data/b.txt", some_text('b'));
    there.write("runs/more.txt", some_text('c'));
    const Description description = described(text_run);
    here.write("texts/data/a.txt", some_text('a'));
    here.write("texts/b.txt", some_text('b'));
    here.write("texts/more.txt", some_text('c'));
    here.write("node/more.txt", "another");  // what differs is passed over
    EXPECT_THAT(installed(description, here / "texts").data.files,
                ElementsAre(here / "texts/data/a.txt", here / "texts/b.txt", here / "texts/more.txt"));
}

TEST_F(Descriptions, WhatWasFoundIsFoundAgainWithoutBeingToldWhere) {
    there.write("data/a.txt", some_text('a'));
    there.write("data/b.txt", some_text('b'));
    there.write("runs/more.txt", some_text('c'));
    const Description description = described(text_run);
    EXPECT_FALSE(*node::installed(here / "node"));
    here.write("texts/a.txt", some_text('a'));
    here.write("texts/b.txt", some_text('b'));
    here.write("texts/more.txt", some_text('c'));
    const std::vector<fs::path> files = installed(description, here / "texts").data.files;
    EXPECT_THAT(files, ElementsAre(here / "texts/a.txt", here / "texts/b.txt", here / "texts/more.txt"));
    const auto kept = node::installed(here / "node");
    ASSERT_TRUE(kept) << kept.error().message;
    ASSERT_TRUE(*kept);
    EXPECT_EQ(**kept, description);
    EXPECT_EQ(installed(**kept).data.files, files);
}

// The founder's paths lead nowhere there.
TEST_F(Descriptions, AFolderTellsItsRunAndSettingsWhereverFilesLie) {
    there.write("data/a.txt", some_text('a'));
    there.write("runs/more.txt", some_text('c'));
    there.write("runs/mine.json", state::byte_tokenizer_json());
    std::string text = text_run;
    text.insert(text.find("context"), "tokenizer = \"mine.json\"\n");
    const Description description = described(text);
    here.write("texts/a.txt", some_text('a'));
    here.write("texts/more.txt", some_text('c'));
    const run::Run run = installed(description, here / "texts");
    EXPECT_FALSE(run::read_run(here / "node/run.toml"));
    const auto settings = settings_of(description, here / "node");
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(*settings, open(run).agreed());
    const auto again = run_in(here / "node");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->data.files, run.data.files);
    EXPECT_EQ(again->data.tokenizer, run.data.tokenizer);

    // And of who has a run file of its own.
    fs::create_directory(here / "own");
    fs::copy_file(there / "runs/run.toml", here / "own/run.toml");
    ASSERT_TRUE(keep_place(there / "runs/run.toml", here / "own"));
    const auto own = run_in(here / "own");
    ASSERT_TRUE(own) << own.error().message;
    EXPECT_EQ(own->data.files.size(), 2U);
    EXPECT_EQ(own->data.tokenizer, there / "runs/mine.json");
}

TEST_F(Descriptions, TextIsFoundBelowTheCurrentFolder) {
    there.write("data/a.txt", some_text('a'));
    there.write("data/b.txt", some_text('b'));
    there.write("runs/more.txt", some_text('c'));
    const Description description = described(text_run);
    here.write("data/a.txt", some_text('a'));
    here.write("data/b.txt", some_text('b'));
    here.write("more.txt", some_text('c'));
    const fs::path before = fs::current_path();
    fs::current_path(here.path());
    const auto run = install(description, "node", {});
    fs::current_path(before);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->data.files.size(), 3U);
}

TEST_F(Descriptions, WhatIsLackingIsListed) {
    there.write("data/a.txt", some_text('a'));
    there.write("data/b.txt", some_text('b'));
    there.write("runs/more.txt", some_text('c'));
    const Description description = described(text_run);
    here.write("texts/b.txt", some_text('x'));
    here.write("texts/more.txt", "short");
    const std::string problem = error(description, here / "texts");
    EXPECT_THAT(problem, HasSubstr("--data FOLDER"));
    EXPECT_THAT(problem,
                HasSubstr("../data/a.txt, 400 bytes, SHA-256 " + hex(sha256(some_text('a'))) + ": there is no " +
                          (here / "node/data/a.txt").string() + "; there is no " +
                          (here / "texts/data/a.txt").string() + "; there is no " + (here / "texts/a.txt").string()));
    EXPECT_THAT(problem, HasSubstr((here / "texts/b.txt").string() + " has as many bytes, but another content"));
    EXPECT_THAT(problem, HasSubstr((here / "texts/more.txt").string() + " has 5 bytes"));
}

TEST_F(Descriptions, AbsolutePathsAreTriedAsTheyAre) {
    const fs::path file = there.write("data/a.txt", some_text('a'));
    const Description description =
        described("[model]\nwidth = 16\nheads = 2\n[data]\ncontext = 8\nfiles = \"" + file.string() + "\"\n");
    EXPECT_EQ(description.data[0].path, file);
    EXPECT_THAT(installed(description).data.files, ElementsAre(file));
    here.write("texts/a.txt", some_text('a'));
    EXPECT_THAT(installed(description, here / "texts").data.files, ElementsAre(here / "texts/a.txt"));
}

TEST_F(Descriptions, ImagesWithTheirLabelsAndATorchScriptFile) {
    const std::string images = test::idx_header({20, 4, 4}) + test::byte_pattern(20 * 16);
    const std::string labels = test::idx_header({20}) + std::string(10, '\1') + std::string(10, '\2');
    there.write("runs/images.idx", images);
    there.write("runs/labels.idx", labels);
    there.write("models/net.pt", "not read by anybody here");
    const Description description = described(R"([model]
path = "../models/net.pt"
[data]
kind = "idx"
files = "images*"
labels = ["labels.idx"]
)");
    EXPECT_THAT(description.files, ElementsAre(Key("model.path/net.pt")));
    here.write("images.idx", images);
    here.write("labels.idx", labels);
    const run::Run run = installed(description, here.path());
    EXPECT_EQ(run.model.path, here / "node/files/model.path/net.pt");
    EXPECT_EQ(content(run.model.path), "not read by anybody here");
    EXPECT_THAT(run.data.labels, ElementsAre(here / "labels.idx"));
}

TEST_F(Descriptions, ATokenizerComesAlong) {
    there.write("tokens/mine.json", state::byte_tokenizer_json());
    there.write("tokens/tokenizer_config.json", "{}");
    there.write("runs/a.txt", some_text('a'));
    const Description description = described(
        "[model]\nwidth = 16\nheads = 2\n[data]\ncontext = 8\nfiles = \"a.txt\"\ntokenizer = "
        "\"../tokens/mine.json\"\n");
    here.write("node/a.txt", some_text('a'));
    const run::Run run = installed(description);
    EXPECT_EQ(run.data.tokenizer, here / "node/files/data.tokenizer/tokenizer.json");
    EXPECT_EQ(content(here / "node/files/data.tokenizer/tokenizer_config.json"), "{}");
}

// The toy cannot read a Hugging Face folder's weights, so this member got its state from others, too.
TEST_F(Descriptions, InitialWeightsAreTheClustersBusiness) {
    run::Llama llama;
    llama.vocab = 256;
    llama.width = 16;
    llama.layers = 1;
    llama.heads = llama.kv_heads = 2;
    llama.head_width = 8;
    llama.ffn = 32;
    llama.max_context = 64;
    there.write("model/config.json", state::llama_config_json(llama));
    there.write("model/tokenizer.json", state::byte_tokenizer_json());
    there.write("model/model.safetensors", "weights");
    there.write("runs/a.txt", some_text('a'));
    const fs::path run_file =
        there.write("runs/run.toml", "[model]\ninit = \"../model\"\n[data]\ncontext = 8\nfiles = \"a.txt\"\n");
    auto run = run::read_run(run_file);
    ASSERT_TRUE(run) << run.error().message;
    run->model.init_hash = hex(sha256("weights"));
    const elastic::Trainer member = open(*run);
    EXPECT_TRUE(member.blank());
    const auto description = describe(run_file, member);
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_THAT(description->files, ElementsAre(Key("model.init/config.json"), Key("model.init/tokenizer.json")));

    here.write("node/a.txt", some_text('a'));
    const run::Run here_run = installed(*description);
    EXPECT_EQ(here_run.model.init, here / "node/files/model.init");
    elastic::Trainer newcomer = open(here_run);
    EXPECT_EQ(run::hash(newcomer.identity()), description->run());
    // It cannot begin the run, but go on with it.
    EXPECT_TRUE(newcomer.blank());
    EXPECT_FALSE(newcomer.begin_anew());
    newcomer.arrive(3, sha256("lineage"));
    EXPECT_FALSE(newcomer.blank());
}

TEST_F(Descriptions, TooMuchIsAnErrorForWhoAsks) {
    there.write("net.pt");
    fs::resize_file(there / "net.pt", elastic::max_description_bytes + 1);
    const fs::path run_file =
        there.write("run.toml", "[model]\npath = \"net.pt\"\n[data]\nkind = \"synthetic\"\nshape = [4]\n");
    const auto run = run::read_run(run_file);
    ASSERT_TRUE(run) << run.error().message;
    const auto description = describe(run_file, open(*run));
    ASSERT_FALSE(description);
    EXPECT_THAT(description.error().message, AllOf(HasSubstr("net.pt is more than 64 MiB"), HasSubstr("--join")));

    Description large;
    large.files["model.path/a"] = std::string(elastic::max_description_bytes, 'x');
    EXPECT_FALSE(encode(large));
}

TEST_F(Descriptions, NothingLeadsOutOfTheFolder) {
    for (const std::string name : {"model.path/../../x", "model.path/..", "/etc/x", "model.path", "model.path/", "x/y",
                                   "model.path/a/b", "../x"}) {
        elastic::wire::RunDescription message;
        message.add_files()->set_name(name);
        EXPECT_FALSE(decode_description(message.SerializeAsString())) << name;
    }
    for (const std::string& path : {std::string("a\nb"), std::string("a\0b", 3), std::string(), std::string("a/")}) {
        elastic::wire::RunDescription message;
        message.add_data()->set_key("data.files");
        message.mutable_data(0)->set_hash(std::string(32, 'x'));
        message.mutable_data(0)->set_path(path);
        EXPECT_FALSE(decode_description(message.SerializeAsString())) << path;
    }
    EXPECT_FALSE(decode_description("nonsense"));
    // Data are only read, and only below the folders.
    Description description;
    description.run_text = "x";
    description.data = {{.key = "data.files", .path = "../../a/../b.txt", .bytes = 1, .hash = {}}};
    EXPECT_THAT(error(description), HasSubstr("there is no " + (here / "node/b.txt").string()));
}

TEST_F(Descriptions, ARunFileThatNeedsMoreIsAnError) {
    Description description;
    description.run_text = "[data]\nfiles = \"a.txt\"\n";
    const auto run = install(description, here / "node", {});
    ASSERT_FALSE(run);
    EXPECT_THAT(run.error().message, HasSubstr("the cluster's run file:2: data.files: it is not known"));
}

TEST(SameRun, TheFirstDifferenceIsNamed) {
    const run::Identity ours = {{"data.content", "aa"}, {"optimizer.learning_rate", "0.001"}, {"train.batch", "8"}};
    EXPECT_TRUE(check_same_run(ours, ours));
    const auto difference = [&](const std::string& key, const std::optional<std::string>& value) {
        run::Identity theirs = ours;
        theirs.erase(key);
        if (value) theirs[key] = *value;
        const auto same = check_same_run(ours, theirs);
        EXPECT_FALSE(same);
        return same ? "" : same.error().message;
    };
    EXPECT_EQ(difference("optimizer.learning_rate", "0.01"),
              "the cluster trains another run: optimizer.learning_rate is 0.01 there, and 0.001 here");
    EXPECT_THAT(difference("train.batch", {}), HasSubstr("train.batch is not set there, and 8 here"));
    EXPECT_THAT(difference("model.norm", "group"), HasSubstr("model.norm is group there, and not set here"));
    EXPECT_THAT(difference("data.content", "bb"), HasSubstr("its data have another content"));
    EXPECT_THAT(difference("train.seed", "\x1b[31m"), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace chaos::node
