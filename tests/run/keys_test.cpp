#include "run/keys.h"

#include "run/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace chaos::run::test {
namespace {

using ::testing::HasSubstr;

TEST(Keys, EachIsListedOnceAfterItsKind) {
    run::Run run;
    std::set<std::string_view> seen;
    for (const Key& key : keys(run)) {
        EXPECT_TRUE(seen.insert(key.name).second) << key.name;
        const std::string table(key.name.substr(0, key.name.rfind('.')));
        EXPECT_TRUE(table == "train" || seen.contains(table + ".kind")) << key.name;
    }
}

TEST(Keys, AreRefusedWhereTheyDoNotApply) {
    EXPECT_EQ(error_of("[model]\nkind = \"mlp\"\nlayers = 3\n" + image_data),
              "run.toml:3: model.layers does not apply to model.kind = \"mlp\", only to llama");
    EXPECT_EQ(error_of(text_data + "[optimizer]\nmomentum = 0.9"),
              "run.toml:4: optimizer.momentum does not apply to optimizer.kind = \"adamw\", only to sgd");
    EXPECT_EQ(error_of(text_data + "labels = \"b\""),
              "run.toml:3: data.labels does not apply to data.kind = \"text\", only to idx");
    EXPECT_EQ(error_of("[model]\nkind = \"resnet18\"\ndropout = 0.1\n" + image_data),
              "run.toml:3: model.dropout does not apply to model.kind = \"resnet18\", only to vgg11, vgg16 or alexnet");
    for (const char* line : {"hidden = [1]", "classes = 2", "norm = \"batch\"", "dropout = 0.1", "loss = \"mse\""}) {
        EXPECT_THAT(error_of(text_data + "[model]\n" + line), HasSubstr("does not apply to model.kind = \"llama\""));
    }
    for (const char* line : {"vocab = 9", "width = 8", "heads = 2", "kv_heads = 2", "head_width = 2", "ffn = 8",
                             "tied_head = true", "norm_epsilon = 1e-5", "max_context = 9", "rope.theta = 2.0"}) {
        EXPECT_THAT(error_of("[model]\nkind = \"alexnet\"\n" + (line + ("\n" + image_data))),
                    HasSubstr("does not apply to model.kind = \"alexnet\", only to llama"));
    }
    for (const char* line : {"beta1 = 0.9", "beta2 = 0.9", "epsilon = 1e-8"}) {
        EXPECT_THAT(error_of(text_data + "[optimizer]\nkind = \"sgd\"\n" + line), HasSubstr("only to adamw"));
    }
    for (const char* line : {"files = \"a\"", "labels = \"a\"", "tokenizer = \"a\""}) {
        EXPECT_THAT(error_of(image_data + line), HasSubstr("does not apply to data.kind = \"synthetic\""));
    }
    for (const char* line : {"classes = 2", "samples = 2", "shape = [2]"}) {
        EXPECT_THAT(error_of(text_data + line), HasSubstr("does not apply to data.kind = \"text\", only to synthetic"));
    }
    EXPECT_THAT(error_of(text_data + "[schedule]\nfinal_ratio = 0.5"), HasSubstr("only to cosine"));
    EXPECT_THAT(error_of(text_data + "[model.rope]\nfactor = 8"),
                HasSubstr("model.rope.factor does not apply to model.rope.kind = \"default\", only to llama3"));
}

TEST(Keys, SyntheticDataTakesItsShapeFromTheModel) {
    EXPECT_EQ(error_of(image_data + "shape = [3]"),
              "run.toml:3: data.shape does not apply to synthetic data for model.kind = \"llama\"; data.context does");
    EXPECT_EQ(error_of("[model]\nkind = \"mlp\"\n" + image_data + "context = 3"),
              "run.toml:5: data.context does not apply to synthetic data for model.kind = \"mlp\"; data.shape does");
}

TEST(Keys, InitDecidesTheShape) {
    const TemporaryFolder folder;
    folder.write("model/tokenizer.json");
    EXPECT_EQ(error_of("[model]\nwidth = 8\ninit = \"model\"\n" + text_data, folder.path()),
              "run.toml:2: model.width cannot be set together with model.init: the shape comes from that folder");
    EXPECT_EQ(error_of("[model]\ninit = \"model\"\nrope.theta = 8\n" + text_data, folder.path()),
              "run.toml:3: model.rope.theta cannot be set together with model.init: the shape comes from that folder");
    EXPECT_EQ(error_of("[model]\ninit = \"model\"\n" + text_data + "tokenizer = \"t\"", folder.path()),
              "run.toml:5: data.tokenizer cannot be set together with model.init: that folder's tokenizer is used");
    EXPECT_EQ(error_of("[model]\ninit = \"model\"\nkind = \"mlp\"\n" + image_data, folder.path()),
              "run.toml:2: model.init does not apply to model.kind = \"mlp\", only to llama");
}

TEST(Keys, PathMeansTorchScript) {
    const TemporaryFolder folder;
    folder.write("net.pt");
    EXPECT_EQ(parsed("[model]\npath = \"net.pt\"\n" + image_data, folder.path()).model.kind, "torchscript");
    EXPECT_EQ(
        parsed("[model]\nkind = \"torchscript\"\npath = \"net.pt\"\nloss = \"module\"\n" + image_data, folder.path())
            .model.loss,
        "module");
    EXPECT_EQ(error_of("[model]\npath = \"net.pt\"\nkind = \"mlp\"\n" + image_data, folder.path()),
              "run.toml:2: model.path does not apply to model.kind = \"mlp\", only to torchscript");
    EXPECT_EQ(error_of("[model]\npath = \"net.pt\"\ninit = \".\"\n" + image_data, folder.path()),
              "run.toml:3: model.init cannot be set together with model.path");
}

TEST(Keys, NumbersHaveTheirShortestText) {
    EXPECT_EQ(number_text(0.1), "0.1");
    EXPECT_EQ(number_text(1e-5), "1e-05");
    EXPECT_EQ(number_text(10000.0), "10000");
    EXPECT_EQ(number_text(1.0 / 3.0), "0.3333333333333333");
}

// Rows of docs/run-file.md: "| `width` | whole number | 256 | ..." below "## [model]".
std::vector<std::string> documented_keys() {
    std::ifstream file(std::string(CHAOS_SOURCE) + "/docs/run-file.md");
    std::vector<std::string> names;
    std::string table;
    for (std::string line; std::getline(file, line);) {
        const std::size_t bracket = line.find("# [");
        if (line.starts_with('#')) table = bracket == std::string::npos ? "" : line.substr(bracket + 3);
        if (!table.empty() && table.back() == ']') table.pop_back();
        if (line.starts_with("| `")) names.push_back(table + "." + line.substr(3, line.find('`', 3) - 3));
    }
    return names;
}

TEST(Keys, AreAllDocumented) {
    run::Run run;
    std::vector<std::string> names;
    for (const Key& key : keys(run)) names.emplace_back(key.name);
    EXPECT_THAT(documented_keys(), ::testing::UnorderedElementsAreArray(names));
}

}  // namespace
}  // namespace chaos::run::test
