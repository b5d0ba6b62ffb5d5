#include "base/file.h"
#include "data/files.h"
#include "shared.h"
#include "text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>

namespace chaos::data {
namespace {

using test::all_held_out;
using test::all_training;
using test::byte_pattern;
using test::open_error;
using test::open_or_throw;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TextData : public testing::Test {
protected:
    run::Data text(const std::string& content, std::int64_t context, double held_out) {
        run::Data data;
        data.files = {folder.write("text.txt", content)};
        data.context = context;
        data.held_out = held_out;
        return data;
    }

    test::TemporaryFolder folder;
};

// 0, 1, 2, ...: a token's value is its place.
std::string counting(std::size_t size) {
    std::string bytes(size, '\0');
    std::iota(bytes.begin(), bytes.end(), '\0');
    return bytes;
}

std::span<const std::int64_t> row(const std::vector<std::int64_t>& all, std::size_t place, std::size_t width) {
    return std::span(all).subspan(place * width, width);
}

TEST_F(TextData, HasTheShapeOfBytes) {
    const auto dataset = open_or_throw(text(counting(100), 10, 0));
    EXPECT_EQ(dataset->shape(), (SampleShape{true, {10}, 256, true}));
    EXPECT_EQ(dataset->shape().targets(), 10);
}

TEST_F(TextData, WindowsAreExact) {
    const auto dataset = open_or_throw(text(counting(100), 10, 0.25));
    // 75 tokens to train on: 6 samples of 10 targets and room for a shift of up to 9. 25 held out: 2 windows of 11.
    ASSERT_EQ(dataset->train_samples(), 6U);
    ASSERT_EQ(dataset->held_out_samples(), 2U);
    const Batch batch = all_training(*dataset);
    EXPECT_EQ(batch.count, 6);
    EXPECT_TRUE(batch.values.empty());
    ASSERT_EQ(batch.tokens.size(), 60U);
    ASSERT_EQ(batch.targets.size(), 60U);
    EXPECT_THAT(batch.samples, ElementsAre(0, 1, 2, 3, 4, 5));
    const std::int64_t shift = batch.tokens[0];
    EXPECT_GE(shift, 0);
    EXPECT_LT(shift, 10);
    for (std::int64_t i = 0; i < 60; ++i) {
        EXPECT_EQ(batch.tokens[static_cast<std::size_t>(i)], shift + i);
        EXPECT_EQ(batch.targets[static_cast<std::size_t>(i)], shift + i + 1);
    }
    const Batch held_out = all_held_out(*dataset);
    EXPECT_THAT(held_out.samples, ElementsAre(6, 7));
    EXPECT_THAT(row(held_out.tokens, 0, 10), ElementsAre(75, 76, 77, 78, 79, 80, 81, 82, 83, 84));
    EXPECT_THAT(row(held_out.targets, 0, 10), ElementsAre(76, 77, 78, 79, 80, 81, 82, 83, 84, 85));
    EXPECT_THAT(row(held_out.tokens, 1, 10), ElementsAre(86, 87, 88, 89, 90, 91, 92, 93, 94, 95));
}

TEST_F(TextData, SamplesComeInTheOrderAskedForAndMayRepeat) {
    const auto dataset = open_or_throw(text(counting(100), 10, 0));
    const Batch all = all_training(*dataset, 3, 2);
    const std::vector<std::uint64_t> numbers = {5, 0, 5};
    Batch batch;
    dataset->fetch(3, 2, numbers, batch);
    EXPECT_EQ(batch.samples, numbers);
    for (std::size_t place = 0; place < numbers.size(); ++place) {
        EXPECT_TRUE(std::ranges::equal(row(batch.tokens, place, 10), row(all.tokens, numbers[place], 10)));
        EXPECT_TRUE(std::ranges::equal(row(batch.targets, place, 10), row(all.targets, numbers[place], 10)));
    }
}

TEST_F(TextData, EveryPassShiftsItsWindows) {
    const auto dataset = open_or_throw(text(counting(200), 10, 0));
    std::set<std::int64_t> shifts;
    for (std::uint64_t pass = 0; pass < 100; ++pass) shifts.insert(all_training(*dataset, 1, pass).tokens[0]);
    EXPECT_EQ(shifts.size(), 10U) << "every shift occurs";
    EXPECT_EQ(*shifts.begin(), 0);
    EXPECT_EQ(*shifts.rbegin(), 9);
    // Part of what a run computes: may never change.
    std::vector<std::int64_t> first;
    for (std::uint64_t pass = 0; pass < 4; ++pass) first.push_back(all_training(*dataset, 1, pass).tokens[0]);
    EXPECT_THAT(first, ElementsAre(7, 7, 0, 9));
}

TEST_F(TextData, HeldOutTokensAreNeverTrainedOn) {
    const auto seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    for (int round = 0; round < 200; ++round) {
        const std::int64_t context = 1 + static_cast<std::int64_t>(random() % 12);
        const std::size_t size = 70 + random() % 180;
        const double held_out = random() % 2 == 0 ? 0.25 : static_cast<double>(1 + random() % 3);
        const auto dataset = open_or_throw(text(counting(size), context, held_out));
        std::set<std::int64_t> held;
        const Batch batch = all_held_out(*dataset);
        for (std::uint64_t i = 0; i < dataset->held_out_samples(); ++i) {
            const auto width = static_cast<std::size_t>(context);
            for (const std::int64_t token : row(batch.tokens, i, width)) EXPECT_TRUE(held.insert(token).second);
            EXPECT_TRUE(held.insert(row(batch.targets, i, width).back()).second) << "windows overlap";
        }
        if (held_out >= 1) {
            EXPECT_EQ(dataset->held_out_samples(), static_cast<std::uint64_t>(held_out));
        }
        for (std::uint64_t pass = 0; pass < 20; ++pass) {
            const Batch trained = all_training(*dataset, seed, pass);
            EXPECT_LT(*std::ranges::max_element(trained.targets), *held.begin());
            std::set<std::int64_t> targets(trained.targets.begin(), trained.targets.end());
            EXPECT_EQ(targets.size(), trained.targets.size()) << "a token is a target twice in a pass";
        }
    }
}

TEST_F(TextData, FilesAreConcatenated) {
    const std::string content = byte_pattern(500);
    const auto whole = open_or_throw(text(content, 16, 0.2));
    run::Data data = text(content, 16, 0.2);
    data.files = {folder.write("a", content.substr(0, 3)), folder.write("b", content.substr(3, 200)),
                  folder.write("c", content.substr(203))};
    const auto parts = open_or_throw(data);
    EXPECT_EQ(all_training(*parts).tokens, all_training(*whole).tokens);
    EXPECT_EQ(all_held_out(*parts).targets, all_held_out(*whole).targets);
    EXPECT_EQ(parts->content_hash(), whole->content_hash()) << "the samples are the same";
}

TEST_F(TextData, LaterChangesOfTheFileDoNotReachTheSamples) {
    const auto dataset = open_or_throw(text(counting(100), 10, 0.25));
    const Batch before = all_training(*dataset);
    std::filesystem::resize_file((folder / "text.txt"), 1);
    EXPECT_EQ(all_training(*dataset).tokens, before.tokens);
}

TEST_F(TextData, BuffersAreReused) {
    const auto dataset = open_or_throw(text(counting(200), 10, 0));
    Batch batch = all_training(*dataset);
    const std::int64_t* tokens = batch.tokens.data();
    const std::int64_t* targets = batch.targets.data();
    const std::vector<std::uint64_t> numbers = {1, 2};
    dataset->fetch(1, 0, numbers, batch);
    EXPECT_EQ(batch.count, 2);
    EXPECT_EQ(batch.tokens.size(), 20U);
    EXPECT_EQ(batch.tokens.data(), tokens);
    EXPECT_EQ(batch.targets.data(), targets);
}

TEST_F(TextData, TheLeastTextThatWorks) {
    EXPECT_EQ(open_or_throw(text(counting(20), 10, 0))->train_samples(), 1U);
    EXPECT_EQ(open_or_throw(text(counting(31), 10, 1))->held_out_samples(), 1U);
    EXPECT_EQ(open_or_throw(text(counting(2), 1, 0))->train_samples(), 1U);
    for (std::uint64_t pass = 0; pass < 50; ++pass) {
        static_cast<void>(all_training(*open_or_throw(text(counting(20), 10, 0)), 1, pass));
    }
}

TEST_F(TextData, TooLittleTextSaysHowMuchIsThereAndHowMuchIsNeeded) {
    EXPECT_EQ(open_error(text(counting(19), 10, 0)),
              "data.files hold 19 tokens, of which data.held_out = 0 leaves 19; to train with data.context = 10 at "
              "least 20 are needed");
    EXPECT_EQ(open_error(text(counting(30), 10, 1)),
              "data.files hold 30 tokens, of which data.held_out = 1 leaves 19; to train with data.context = 10 at "
              "least 20 are needed");
    EXPECT_EQ(
        open_error(text(counting(100), 10, 0.1)),
        "data.files hold 100 tokens, of which data.held_out = 0.1 takes 10; for one held-out sample 11 tokens are "
        "needed (data.context + 1 for each sample)");
    EXPECT_EQ(open_error(text(counting(100), 10, 10)),
              "data.files hold 100 tokens, but for data.held_out = 10 samples 110 tokens are needed (data.context + 1 "
              "for each sample)");
    EXPECT_THAT(open_error(text(counting(100), 10, 0.99)), HasSubstr("leaves 1;"));
    EXPECT_THAT(open_error(text(counting(100), 10, 1e300)), HasSubstr("far more"));
    EXPECT_THAT(open_error(text(counting(100), std::numeric_limits<std::int64_t>::max(), 0)), HasSubstr("are needed"));
    EXPECT_THAT(open_error(text(counting(100), std::numeric_limits<std::int64_t>::max(), 3)), HasSubstr("far more"));
}

TEST_F(TextData, WhatCannotBeReadIsNamed) {
    run::Data data = text("x", 10, 0);
    data.files = {(folder / "missing.txt")};
    EXPECT_THAT(open_error(data), AllOf(HasSubstr("missing.txt"), HasSubstr("No such file"), HasSubstr("data.files")));
    EXPECT_THAT(open_error(text("", 10, 0)), HasSubstr("text.txt is empty (data.files)"));
    data.files = {(folder / "")};
    EXPECT_THAT(open_error(data), HasSubstr("not a regular file"));
    data.files = {};
    EXPECT_THAT(open_error(data), HasSubstr("data.files is empty"));
    EXPECT_THAT(open_error(text("x", 0, 0)), HasSubstr("data.context is 0"));
    EXPECT_THAT(open_error(text("x", -5, 0)), HasSubstr("data.context is -5"));
    EXPECT_THAT(open_error(text("x", 10, -1)), HasSubstr("data.held_out = -1"));
    EXPECT_THAT(open_error(text("x", 10, 1.5)), HasSubstr("data.held_out = 1.5"));
}

TEST_F(TextData, TheHashKnowsWhatDecidesTheSamples) {
    const std::string content = byte_pattern(500);
    std::set<Digest> hashes;
    hashes.insert(open_or_throw(text(content, 10, 0.1))->content_hash());
    hashes.insert(open_or_throw(text(content, 11, 0.1))->content_hash());
    hashes.insert(open_or_throw(text(content, 10, 0.2))->content_hash());
    hashes.insert(open_or_throw(text(content + "x", 10, 0.1))->content_hash());
    EXPECT_EQ(hashes.size(), 4U);
    EXPECT_TRUE(hashes.contains(open_or_throw(text(content, 10, 0.1))->content_hash()));
}

class TokenizedText : public TextData {
protected:
    // Splits text into the characters of `letters`, which get the ids 0, 1, 2; <begin> is 3 and starts every text.
    static text::Tokenizer tokenizer(const std::string& letters) {
        const std::string vocabulary = "{\"" + letters.substr(0, 1) + "\":0,\"" + letters.substr(1, 1) + "\":1,\"" +
                                       letters.substr(2, 1) + "\":2}";
        const std::string json = R"({
            "added_tokens": [{"id": 3, "content": "<begin>", "single_word": false, "lstrip": false, "rstrip": false,
                              "normalized": false, "special": true}],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<begin>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<begin>": {"id": "<begin>", "ids": [3], "tokens": ["<begin>"]}}},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                      "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                      "merges": [], "vocab": )" +
                                 vocabulary + "}}";
        auto parsed = text::Tokenizer::parse(json, "tokenizer");
        if (!parsed) throw std::runtime_error(parsed.error().message);
        return std::move(parsed).value();
    }

    std::unique_ptr<Dataset> open(const run::Data& data, const text::Tokenizer& with) {
        auto opened = open_dataset(data, &with);
        if (!opened) throw std::runtime_error(opened.error().message);
        return std::move(opened).value();
    }
};

TEST_F(TokenizedText, SpecialTokensStartEveryFile) {
    run::Data data = text("abcabc", 3, 1);
    data.files.push_back(folder.write("second.txt", "cba"));
    const auto dataset = open(data, tokenizer("abc"));
    // <begin> a b c a b c | <begin> c b a: 11 tokens, the last 4 held out.
    EXPECT_EQ(dataset->shape(), (SampleShape{true, {3}, 4, true}));
    EXPECT_EQ(dataset->train_samples(), 1U);
    const Batch held_out = all_held_out(*dataset);
    EXPECT_THAT(held_out.tokens, ElementsAre(3, 2, 1));
    EXPECT_THAT(held_out.targets, ElementsAre(2, 1, 0));
    const std::vector<std::int64_t> ids = {3, 0, 1, 2, 0, 1, 2};
    const Batch batch = all_training(*dataset);
    EXPECT_NE(std::ranges::search(ids, batch.tokens).begin(), ids.end());
    EXPECT_NE(std::ranges::search(ids, batch.targets).begin(), ids.end());
}

TEST_F(TokenizedText, AnotherTokenizerGivesAnotherHash) {
    const run::Data data = text("abcabcabcabc", 3, 1);
    const Digest hash = open(data, tokenizer("abc"))->content_hash();
    EXPECT_EQ(open(data, tokenizer("abc"))->content_hash(), hash);
    EXPECT_NE(open(data, tokenizer("cab"))->content_hash(), hash);
    EXPECT_NE(open_or_throw(data)->content_hash(), hash);
}

TEST_F(TextData, Shakespeare) {
    CHAOS_NEED_SHARED("data/tinyshakespeare.txt");
    run::Data data;
    data.files = {test::shared("data/tinyshakespeare.txt")};
    data.context = 128;
    const std::string content = *read_file(data.files[0]);
    const auto dataset = open_or_throw(data);
    // 1115394 bytes, of which the last 111539 are held out.
    ASSERT_EQ(dataset->train_samples(), 7841U);
    ASSERT_EQ(dataset->held_out_samples(), 864U);
    const auto text_of = [](std::span<const std::int64_t> tokens) { return std::string(tokens.begin(), tokens.end()); };
    const Batch trained = all_training(*dataset, 5, 3);
    const std::size_t shift = content.find(text_of(row(trained.tokens, 0, 128)));
    ASSERT_LT(shift, 128U);
    EXPECT_EQ(text_of(trained.tokens), content.substr(shift, trained.tokens.size()));
    EXPECT_EQ(text_of(trained.targets), content.substr(shift + 1, trained.targets.size()));
    const Batch held_out = all_held_out(*dataset);
    EXPECT_EQ(text_of(row(held_out.tokens, 863, 128)), content.substr(1115394 - 111539 + 863 * 129, 128));
}

}  // namespace
}  // namespace chaos::data
