#include "data/images.h"

#include "data/files.h"

#include <cmath>
#include <map>
#include <set>

namespace chaos::data {
namespace {

using test::all_held_out;
using test::all_training;

// `count` images of one pixel that tells the image, sorted by class as some files are.
std::unique_ptr<Dataset> sorted_images(std::size_t count, double held_out) {
    Images images;
    images.size = {1, 1, 2};
    images.classes = 10;
    for (std::size_t i = 0; i < count; ++i) {
        images.pixels.push_back(static_cast<std::uint8_t>(i % 256));
        images.pixels.push_back(static_cast<std::uint8_t>(i / 256));
        images.labels.push_back(static_cast<std::uint8_t>(i * 10 / count));
    }
    auto made = image_dataset(std::move(images), held_out, Sha256());
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(made).value();
}

// The byte behind a value of sorted_images(count): its mean and deviation undone.
std::size_t byte_of(float value, std::size_t count) {
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i < count; ++i)
        for (const std::size_t byte : {i % 256, i / 256}) {
            sum += static_cast<double>(byte);
            squares += static_cast<double>(byte * byte);
        }
    const double mean = sum / static_cast<double>(2 * count);
    const double deviation = std::sqrt(squares / static_cast<double>(2 * count) - mean * mean);
    return static_cast<std::size_t>(std::lround(value * deviation + mean));
}

std::vector<std::size_t> images_of(const Batch& batch, std::size_t count) {
    std::vector<std::size_t> images;
    for (std::size_t i = 0; i < batch.targets.size(); ++i) {
        images.push_back(byte_of(batch.values[2 * i], count) + 256 * byte_of(batch.values[2 * i + 1], count));
    }
    return images;
}

TEST(Images, ValuesHaveMeanZeroAndDeviationOnePerChannel) {
    Images images;
    images.size = {2, 16, 16};
    images.classes = 2;
    images.labels = {1};
    for (int byte = 0; byte < 256; ++byte) images.pixels.push_back(static_cast<std::uint8_t>(byte));
    for (int byte = 0; byte < 256; ++byte) images.pixels.push_back(byte % 2 == 0 ? 10 : 30);
    const auto dataset = image_dataset(std::move(images), 0, Sha256());
    ASSERT_TRUE(dataset.ok());
    const Batch batch = all_training(**dataset);
    ASSERT_EQ(batch.values.size(), 512U);
    const double deviation = std::sqrt((256.0 * 256.0 - 1.0) / 12.0);
    for (std::size_t byte = 0; byte < 256; ++byte)
        EXPECT_FLOAT_EQ(batch.values[byte], static_cast<float>((static_cast<double>(byte) - 127.5) / deviation));
    EXPECT_EQ(batch.values[256], -1.0F);
    EXPECT_EQ(batch.values[257], 1.0F);
}

TEST(Images, OneValueEverywhereBecomesZero) {
    Images images;
    images.size = {1, 1, 1};
    images.classes = 2;
    images.labels = {0, 1};
    images.pixels = {7, 7};
    const auto dataset = image_dataset(std::move(images), 0, Sha256());
    ASSERT_TRUE(dataset.ok());
    EXPECT_THAT(all_training(**dataset).values, testing::Each(0.0F));
}

TEST(Images, EveryImageIsInExactlyOnePart) {
    for (const double held_out : {0.0, 1.0, 0.1, 0.5, 999.0}) {
        const auto dataset = sorted_images(1000, held_out);
        std::set<std::size_t> seen;
        for (const Batch& batch : {all_training(*dataset), all_held_out(*dataset)}) {
            const auto images = images_of(batch, 1000);
            for (std::size_t i = 0; i < images.size(); ++i) {
                EXPECT_TRUE(seen.insert(images[i]).second);
                EXPECT_EQ(batch.targets[i], static_cast<std::int64_t>(images[i] * 10 / 1000));
            }
        }
        EXPECT_EQ(seen.size(), 1000U);
    }
}

TEST(Images, HeldOutOnesComeFromEveryClassOfASortedFile) {
    const auto dataset = sorted_images(5000, 0.1);
    std::map<std::int64_t, int> classes;
    for (const std::int64_t label : all_held_out(*dataset).targets) classes[label] += 1;
    EXPECT_EQ(classes.size(), 10U);
    for (const auto& [label, count] : classes) EXPECT_GT(count, 20) << label;
}

TEST(Images, SamplesAreTheSameInEveryPass) {
    const auto dataset = sorted_images(100, 0.1);
    EXPECT_EQ(all_training(*dataset, 1, 0).values, all_training(*dataset, 2, 5).values);
}

TEST(Images, HeldOutSamplesCanBeFetchedInParts) {
    const auto dataset = sorted_images(100, 0.2);
    const Batch all = all_held_out(*dataset);
    EXPECT_EQ(all.samples.front(), 80U);
    Batch part;
    dataset->fetch_held_out(5, 3, part);
    EXPECT_EQ(part.count, 3);
    EXPECT_EQ(images_of(part, 100),
              (std::vector<std::size_t>{images_of(all, 100)[5], images_of(all, 100)[6], images_of(all, 100)[7]}));
    EXPECT_EQ(part.samples, (std::vector<std::uint64_t>{85, 86, 87}));
    dataset->fetch_held_out(20, 0, part);
    EXPECT_EQ(part.count, 0);
    EXPECT_TRUE(part.values.empty());
}

TEST(Images, BuffersAreReused) {
    const auto dataset = sorted_images(100, 0);
    Batch batch = all_training(*dataset);
    const float* values = batch.values.data();
    const std::vector<std::uint64_t> numbers = {4, 4, 9};
    dataset->fetch(1, 0, numbers, batch);
    EXPECT_EQ(batch.values.data(), values);
    EXPECT_EQ(batch.values.size(), 6U);
    EXPECT_EQ(batch.samples, numbers);
}

TEST(ImagesDeathTest, NumbersBeyondThePartAreBrokenInvariants) {
    const auto dataset = sorted_images(10, 2);
    Batch batch;
    const std::vector<std::uint64_t> numbers = {8};
    EXPECT_DEATH(dataset->fetch(1, 0, numbers, batch), "broken invariant");
    EXPECT_DEATH(dataset->fetch_held_out(1, 2, batch), "broken invariant");
    EXPECT_DEATH(dataset->fetch_held_out(~std::uint64_t{0}, 2, batch), "broken invariant");
}

}  // namespace
}  // namespace chaos::data
