#include "data/files.h"
#include "shared.h"

#include <map>
#include <random>
#include <set>

namespace chaos::data {
namespace {

using test::all_held_out;
using test::all_training;
using test::byte_pattern;
using test::gzip;
using test::idx_header;
using test::open_error;
using test::open_or_throw;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::string images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
    return idx_header({count, rows, columns}) + byte_pattern(std::size_t{count} * rows * columns);
}

std::string labels(const std::string& values) {
    return idx_header({static_cast<std::uint32_t>(values.size())}) + values;
}

std::string counting_labels(std::size_t count) {
    std::string values(count, '\0');
    std::iota(values.begin(), values.end(), '\0');
    return labels(values);
}

class Idx : public testing::Test {
protected:
    // Each string is a file's content.
    run::Data idx(const std::vector<std::string>& image_files, const std::vector<std::string>& label_files,
                  double held_out = 0) {
        run::Data data;
        data.kind = "idx";
        data.held_out = held_out;
        for (const std::string& content : image_files) {
            data.files.push_back(folder.write("images" + std::to_string(data.files.size()), content));
        }
        for (const std::string& content : label_files) {
            data.labels.push_back(folder.write("labels" + std::to_string(data.labels.size()), content));
        }
        return data;
    }

    test::TemporaryFolder folder;
};

TEST_F(Idx, ReadsImagesAndLabels) {
    const auto dataset = open_or_throw(idx({images(5, 2, 3)}, {labels({3, 1, 4, 1, 5})}));
    EXPECT_EQ(dataset->shape(), (SampleShape{false, {1, 2, 3}, 6, false}));
    ASSERT_EQ(dataset->train_samples(), 5U);
    const Batch batch = all_training(*dataset);
    const std::string pixels = byte_pattern(30);
    const std::vector<float> values = test::standardised({pixels.begin(), pixels.end()});
    const std::vector<std::int64_t> expected = {3, 1, 4, 1, 5};
    std::set<std::size_t> seen;
    for (std::size_t place = 0; place < 5; ++place) {
        for (std::size_t image = 0; image < 5; ++image) {
            const auto near = [](float x, float y) { return std::abs(x - y) < 1e-5F; };
            const auto own = values.begin() + static_cast<std::ptrdiff_t>(image * 6);
            if (!std::equal(own, own + 6, batch.values.begin() + static_cast<std::ptrdiff_t>(place * 6), near))
                continue;
            seen.insert(image);
            EXPECT_EQ(batch.targets[place], expected[image]);
        }
    }
    EXPECT_EQ(seen.size(), 5U) << "every image is there with its own label";
}

TEST_F(Idx, ChannelsAreTheSecondOfFourExtents) {
    const auto dataset = open_or_throw(idx({idx_header({2, 3, 4, 5}) + byte_pattern(120)}, {labels({0, 1})}));
    EXPECT_THAT(dataset->shape().input, ElementsAre(3, 4, 5));
}

TEST_F(Idx, ThereAreAtLeastTwoClasses) {
    EXPECT_EQ(open_or_throw(idx({images(2, 1, 1)}, {labels({0, 0})}))->shape().classes, 2);
    EXPECT_EQ(open_or_throw(idx({images(2, 1, 1)}, {labels({'\xff', 0})}))->shape().classes, 256);
}

TEST_F(Idx, GzipIsToldByContentAndGivesTheSameSamples) {
    const auto plain = open_or_throw(idx({images(50, 9, 9)}, {counting_labels(50)}, 0.2));
    const auto packed = open_or_throw(idx({gzip(images(50, 9, 9))}, {gzip(counting_labels(50))}, 0.2));
    EXPECT_EQ(all_training(*packed).values, all_training(*plain).values);
    EXPECT_EQ(all_held_out(*packed).values, all_held_out(*plain).values);
    EXPECT_EQ(all_training(*packed).targets, all_training(*plain).targets);
    EXPECT_EQ(packed->held_out_samples(), 10U);
}

TEST_F(Idx, SeveralFilesAreOneDataSet) {
    const auto dataset =
        open_or_throw(idx({images(3, 2, 2), gzip(images(4, 2, 2))}, {labels({0, 1, 2}), labels({3, 4, 5, 6})}));
    const Batch batch = all_training(*dataset);
    EXPECT_EQ(std::set(batch.targets.begin(), batch.targets.end()), (std::set<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST_F(Idx, FilesAndLabelsBelongTogether) {
    EXPECT_THAT(open_error(idx({}, {})), HasSubstr("data.files is empty"));
    EXPECT_EQ(open_error(idx({images(2, 1, 1), images(2, 1, 1)}, {labels({0, 1})})),
              "data.labels must name one file for each of data.files; it names 1, data.files names 2");
    EXPECT_THAT(
        open_error(idx({images(3, 2, 2)}, {labels({0, 1})})),
        AllOf(HasSubstr("labels0 has 2 labels, but "), HasSubstr("images0 has 3 images"), EndsWith("(data.labels)")));
    EXPECT_THAT(
        open_error(idx({images(2, 2, 2), images(2, 2, 3)}, {labels({0, 1}), labels({0, 1})})),
        AllOf(HasSubstr("images1 has images of 1x2x3, but the files before it of 1x2x2"), EndsWith("(data.files)")));
    EXPECT_THAT(open_error(idx({labels({0, 1})}, {images(2, 2, 2)})),
                HasSubstr("images0 is a label file, not an image file (data.files)"));
    EXPECT_THAT(open_error(idx({images(2, 2, 2)}, {images(2, 2, 2)})),
                HasSubstr("labels0 is an image file, not a label file (data.labels)"));
    EXPECT_THAT(open_error(idx({images(4, 2, 2)}, {counting_labels(4)}, 4)), HasSubstr("leaves nothing to train on"));
}

TEST_F(Idx, WhatCannotBeReadIsNamed) {
    run::Data data = idx({images(2, 2, 2)}, {labels({0, 1})});
    data.labels = {(folder / "nowhere")};
    EXPECT_THAT(open_error(data), AllOf(HasSubstr("nowhere"), HasSubstr("No such file"), EndsWith("(data.labels)")));
    EXPECT_THAT(open_error(idx({""}, {labels({0})})), EndsWith("images0 is empty (data.files)"));
    EXPECT_THAT(open_error(idx({images(1, 2, 2)}, {""})), EndsWith("labels0 is empty (data.labels)"));
}

TEST_F(Idx, RefusesOtherFormats) {
    EXPECT_THAT(open_error(idx({"\x89PNG and so on"}, {labels({0})})), HasSubstr("is not an IDX file"));
    EXPECT_THAT(open_error(idx({idx_header({1, 1, 1}, 13) + "abcd"}, {labels({0})})), HasSubstr("IDX type 13"));
    EXPECT_THAT(open_error(idx({idx_header({2, 2}) + "abcd"}, {labels({0})})), HasSubstr("has 2 dimensions"));
    EXPECT_THAT(open_error(idx({idx_header({1, 1, 1, 1, 1}) + "a"}, {labels({0})})), HasSubstr("has 5 dimensions"));
    EXPECT_THAT(open_error(idx({idx_header({0, 2, 2})}, {idx_header({0})})), HasSubstr("is empty"));
    EXPECT_THAT(open_error(idx({idx_header({1, 0, 2})}, {labels({0})})), HasSubstr("images0 is empty"));
}

TEST_F(Idx, SaysHowManyBytesAreThereAndHowManyAreExpected) {
    const std::string whole = images(4, 3, 3);
    EXPECT_THAT(open_error(idx({whole.substr(0, 51)}, {counting_labels(4)})),
                EndsWith("images0 is cut short: 51 bytes are there, 52 are expected (data.files)"));
    EXPECT_THAT(open_error(idx({whole}, {counting_labels(4).substr(0, 10)})),
                EndsWith("labels0 is cut short: 10 bytes are there, 12 are expected (data.labels)"));
    EXPECT_THAT(
        open_error(idx({whole.substr(0, 9)}, {counting_labels(4)})),
        EndsWith("images0 is cut short: 9 bytes are there, 16 are expected for its IDX header alone (data.files)"));
    EXPECT_THAT(open_error(idx({gzip(whole.substr(0, 40))}, {counting_labels(4)})),
                EndsWith("images0 is cut short: 40 bytes unpacked are there, 52 are expected (data.files)"));
    EXPECT_THAT(open_error(idx({whole + "x"}, {counting_labels(4)})),
                EndsWith("images0 is longer than the 52 bytes that its header describes (data.files)"));
}

TEST_F(Idx, NoticesEveryCutOfAGzipFile) {
    const std::string packed = gzip(images(20, 5, 5));
    for (std::size_t size = 2; size < packed.size(); ++size) {
        const std::string error = open_error(idx({packed.substr(0, size)}, {counting_labels(20)}));
        ASSERT_THAT(error, AllOf(HasSubstr("images0 is cut short: "), EndsWith("(data.files)"))) << size;
    }
}

TEST_F(Idx, NoticesDamagedGzip) {
    std::string packed = gzip(images(20, 5, 5));
    packed[packed.size() - 7] ^= 1;  // in the checksum
    EXPECT_THAT(open_error(idx({packed}, {counting_labels(20)})),
                HasSubstr("images0 is damaged: incorrect data check"));
}

TEST_F(Idx, HeadersCannotMakeUsReserveWhatTheFileCannotHold) {
    constexpr std::uint32_t most = 0xffffffff;
    EXPECT_THAT(open_error(idx({idx_header({1, most, most, most})}, {labels({0})})),
                HasSubstr("describes more bytes than can exist"));
    EXPECT_THAT(open_error(idx({idx_header({1, 1U << 31, 1U << 30}) + "abc"}, {labels({0})})),
                HasSubstr("19 bytes are there, 2305843009213693968 are expected"));
    EXPECT_THAT(open_error(idx({gzip(idx_header({1, 1U << 31, 1U << 30}) + "abc")}, {labels({0})})),
                HasSubstr("19 bytes unpacked are there, 2305843009213693968 are expected"));
}

TEST_F(Idx, AGzipBombIsNotUnpacked) {
    const std::string bomb = gzip(images(2, 2, 2) + std::string(std::size_t{64} << 20, '\0'));
    EXPECT_THAT(open_error(idx({bomb}, {labels({0, 1})})),
                HasSubstr("images0 is longer than the 24 bytes unpacked that its header describes"));
}

TEST_F(Idx, DamagedFilesNeverCrash) {
    const auto seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    const std::vector<std::string> whole = {images(6, 4, 4), gzip(images(6, 4, 4))};
    const std::vector<std::string> whole_labels = {counting_labels(6), gzip(counting_labels(6))};
    const auto damage = [&](std::string bytes) {
        for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
            bytes[random() % std::min<std::size_t>(bytes.size(), 32)] = static_cast<char>(random());
        }
        if (random() % 3 == 0) bytes.resize(random() % (bytes.size() + 8));
        return bytes;
    };
    for (int round = 0; round < 500; ++round) {
        const auto data = idx({damage(whole[random() % 2])}, {damage(whole_labels[random() % 2])}, 0.2);
        if (const auto opened = open_dataset(data, nullptr); opened.ok()) {
            const Batch batch = all_training(**opened);
            ASSERT_EQ(static_cast<std::int64_t>(batch.values.size()),
                      batch.count * (*opened)->shape().input_elements());
        } else {
            ASSERT_THAT(opened.error().message, HasSubstr("data."));
        }
    }
}

TEST_F(Idx, TheHashKnowsFilesAndSplit) {
    const auto hash_of = [&](const std::string& image_file, const std::string& label_file, double held_out) {
        return open_or_throw(idx({image_file}, {label_file}, held_out))->content_hash();
    };
    const Digest hash = hash_of(images(6, 2, 2), counting_labels(6), 2);
    EXPECT_EQ(hash_of(images(6, 2, 2), counting_labels(6), 2), hash);
    EXPECT_NE(hash_of(images(6, 2, 2), counting_labels(6), 1), hash);
    EXPECT_NE(hash_of(images(6, 1, 4), counting_labels(6), 2), hash);
    EXPECT_NE(hash_of(images(6, 2, 2), labels({0, 1, 2, 3, 4, 4}), 2), hash);
}

TEST_F(Idx, Mnist) {
    CHAOS_NEED_SHARED("data/t10k-images-idx3-ubyte.gz");
    CHAOS_NEED_SHARED("data/t10k-labels-idx1-ubyte.gz");
    run::Data data;
    data.kind = "idx";
    data.files = {test::shared("data/t10k-images-idx3-ubyte.gz")};
    data.labels = {test::shared("data/t10k-labels-idx1-ubyte.gz")};
    const auto dataset = open_or_throw(data);
    EXPECT_EQ(dataset->shape(), (SampleShape{false, {1, 28, 28}, 10, false}));
    ASSERT_EQ(dataset->train_samples(), 9000U);
    ASSERT_EQ(dataset->held_out_samples(), 1000U);
    // How often each digit occurs in the test set, as published.
    std::map<std::int64_t, int> digits;
    for (const std::int64_t label : all_training(*dataset).targets) digits[label] += 1;
    for (const std::int64_t label : all_held_out(*dataset).targets) digits[label] += 1;
    EXPECT_EQ(
        digits,
        (std::map<std::int64_t, int>{
            {0, 980}, {1, 1135}, {2, 1032}, {3, 1010}, {4, 982}, {5, 892}, {6, 958}, {7, 1028}, {8, 974}, {9, 1009}}));
    std::swap(data.files, data.labels);
    EXPECT_THAT(open_error(data),
                HasSubstr("t10k-labels-idx1-ubyte.gz is a label file, not an image file (data.files)"));
}

}  // namespace
}  // namespace chaos::data
