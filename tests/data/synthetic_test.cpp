#include "data/files.h"

#include <limits>
#include <map>
#include <set>

namespace chaos::data {
namespace {

using test::all_held_out;
using test::all_training;
using test::open_error;
using test::open_or_throw;
using testing::Each;
using testing::HasSubstr;

run::Data synthetic(std::vector<std::int64_t> shape, std::int64_t classes, std::int64_t samples, double held_out) {
    run::Data data;
    data.kind = "synthetic";
    data.shape = std::move(shape);
    data.classes = classes;
    data.samples = samples;
    data.held_out = held_out;
    return data;
}

TEST(Synthetic, HasTheShapeAskedFor) {
    const auto dataset = open_or_throw(synthetic({3, 8, 8}, 10, 100, 0.1));
    EXPECT_EQ(dataset->shape(), (SampleShape{false, {3, 8, 8}, 10, false}));
    EXPECT_EQ(dataset->train_samples(), 90U);
    EXPECT_EQ(dataset->held_out_samples(), 10U);
    const Batch batch = all_training(*dataset);
    EXPECT_EQ(batch.count, 90);
    EXPECT_EQ(batch.values.size(), 90U * 192);
    EXPECT_THAT(batch.values, Each(testing::AllOf(testing::Ge(-2.0F), testing::Lt(2.0F))));
    EXPECT_THAT(open_or_throw(synthetic({7}, 2, 3, 0))->shape().input, testing::ElementsAre(7));
}

TEST(Synthetic, SamplesArePureFunctionsOfTheirNumber) {
    const auto dataset = open_or_throw(synthetic({5}, 3, 100, 0.2));
    const Batch all = all_training(*dataset, 1, 0);
    EXPECT_EQ(all_training(*open_or_throw(synthetic({5}, 3, 100, 0.2)), 8, 4).values, all.values);
    Batch batch;
    const std::vector<std::uint64_t> numbers = {17, 2};
    dataset->fetch(1, 0, numbers, batch);
    EXPECT_EQ(batch.samples, numbers);
    EXPECT_TRUE(std::equal(batch.values.begin(), batch.values.begin() + 5, all.values.begin() + 17 * 5));
    EXPECT_TRUE(std::equal(batch.values.begin() + 5, batch.values.end(), all.values.begin() + 2 * 5));
    EXPECT_EQ(batch.targets[0], all.targets[17]);
}

TEST(Synthetic, TokensCountInSteps) {
    run::Data data = synthetic({6}, 50, 100, 0.1);
    data.tokens = true;
    const auto dataset = open_or_throw(data);
    EXPECT_EQ(dataset->shape(), (SampleShape{true, {6}, 50, true}));
    const Batch batch = all_training(*dataset);
    ASSERT_EQ(batch.tokens.size(), 90U * 6);
    ASSERT_EQ(batch.targets.size(), 90U * 6);
    for (std::size_t sample = 0; sample < 90; ++sample) {
        const std::int64_t* tokens = batch.tokens.data() + sample * 6;
        const std::int64_t step = (tokens[1] - tokens[0] + 50) % 50;
        for (std::size_t i = 0; i < 6; ++i) {
            EXPECT_EQ(batch.targets[sample * 6 + i], (tokens[i] + step) % 50);
            if (i + 1 < 6) {
                EXPECT_EQ(tokens[i + 1], batch.targets[sample * 6 + i]);
            }
        }
    }
}

TEST(Synthetic, NoSampleComesTwice) {
    const auto dataset = open_or_throw(synthetic({4}, 2, 200, 0.5));
    std::set<std::vector<float>> seen;
    for (const Batch& batch : {all_training(*dataset), all_held_out(*dataset)}) {
        for (auto value = batch.values.begin(); value != batch.values.end(); value += 4) {
            EXPECT_TRUE(seen.emplace(value, value + 4).second);
        }
    }
}

TEST(Synthetic, ClassesAreBalanced) {
    std::map<std::int64_t, int> classes;
    for (const std::int64_t label : all_training(*open_or_throw(synthetic({1}, 7, 700, 0))).targets)
        classes[label] += 1;
    EXPECT_EQ(classes.size(), 7U);
    for (const auto& [label, count] : classes) EXPECT_EQ(count, 100) << label;
}

// The mean of a class over the training samples is close to its pattern: the nearest mean tells unseen samples.
TEST(Synthetic, CanBeLearned) {
    constexpr std::size_t width = 192;
    const auto dataset = open_or_throw(synthetic({3, 8, 8}, 10, 1000, 0.2));
    std::vector<std::vector<float>> means(10, std::vector<float>(width));
    const Batch train = all_training(*dataset);
    for (std::size_t place = 0; place < train.targets.size(); ++place) {
        auto& mean = means[static_cast<std::size_t>(train.targets[place])];
        for (std::size_t i = 0; i < width; ++i) mean[i] += train.values[place * width + i] / 80.0F;
    }
    const Batch held_out = all_held_out(*dataset);
    int right = 0;
    for (std::size_t place = 0; place < held_out.targets.size(); ++place) {
        std::map<float, std::int64_t> by_distance;
        for (std::size_t label = 0; label < means.size(); ++label) {
            float distance = 0;
            for (std::size_t i = 0; i < width; ++i) {
                const float difference = held_out.values[place * width + i] - means[label][i];
                distance += difference * difference;
            }
            by_distance[distance] = static_cast<std::int64_t>(label);
        }
        right += by_distance.begin()->second == held_out.targets[place] ? 1 : 0;
    }
    EXPECT_GT(right, 190) << "of 200";
}

// Part of what a run computes: may never change.
TEST(Synthetic, IsTheSameEverywhere) {
    const Batch batch = all_training(*open_or_throw(synthetic({2}, 2, 2, 0)));
    EXPECT_THAT(batch.values, testing::ElementsAre(0x1.31dd8cp+0F, -0x1.9a5248p-2F, 0x1.24c71cp-1F, 0x1.a77534p-1F));
}

TEST(Synthetic, NothingIsStored) {
    const auto dataset = open_or_throw(synthetic({3, 224, 224}, 1000000, std::int64_t{1} << 50, 0.5));
    Batch batch;
    const std::vector<std::uint64_t> numbers = {(std::uint64_t{1} << 49) - 1};
    dataset->fetch(1, 0, numbers, batch);
    EXPECT_EQ(batch.values.size(), 150528U);
}

TEST(Synthetic, RefusesWhatCannotBe) {
    EXPECT_THAT(open_error(synthetic({}, 10, 10, 0)), HasSubstr("data.shape is empty"));
    EXPECT_THAT(open_error(synthetic({3, 0}, 10, 10, 0)), HasSubstr("data.shape has the extent 0"));
    EXPECT_THAT(open_error(synthetic({-3}, 10, 10, 0)), HasSubstr("data.shape has the extent -3"));
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    EXPECT_THAT(open_error(synthetic({most, most, most}, 10, 10, 0)), HasSubstr("data.shape describes"));
    EXPECT_THAT(open_error(synthetic({3}, 1, 10, 0)), HasSubstr("data.classes is 1"));
    EXPECT_THAT(open_error(synthetic({3}, 10, 0, 0)), HasSubstr("data.samples is 0"));
    EXPECT_THAT(open_error(synthetic({3}, 10, 10, 10)), HasSubstr("leaves nothing to train on"));
    EXPECT_THAT(open_error(synthetic({3}, 10, 10, -1)), HasSubstr("data.held_out = -1"));
}

TEST(Synthetic, TheHashKnowsEveryParameter) {
    std::set<Digest> hashes;
    for (const run::Data& data :
         {synthetic({3, 4}, 10, 10, 0.1), synthetic({4, 3}, 10, 10, 0.1), synthetic({12}, 10, 10, 0.1),
          synthetic({3, 4}, 9, 10, 0.1), synthetic({3, 4}, 10, 11, 0.1), synthetic({3, 4}, 10, 10, 0.2)}) {
        hashes.insert(open_or_throw(data)->content_hash());
    }
    EXPECT_EQ(hashes.size(), 6U);
    EXPECT_TRUE(hashes.contains(open_or_throw(synthetic({3, 4}, 10, 10, 1))->content_hash())) << "0.1 of 10 is 1";
}

}  // namespace
}  // namespace chaos::data
