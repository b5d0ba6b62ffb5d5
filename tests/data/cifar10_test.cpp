#include "data/files.h"

#include <cmath>
#include <map>
#include <set>

namespace chaos::data {
namespace {

using test::all_held_out;
using test::all_training;
using test::byte_pattern;
using test::open_error;
using test::open_or_throw;
using testing::AllOf;
using testing::HasSubstr;

// Record r has label r % 10 and pixels that begin with r.
std::string batch_of(std::size_t records, std::size_t first = 0) {
    std::string bytes;
    for (std::size_t record = first; record < first + records; ++record) {
        bytes += static_cast<char>(record % 10);
        std::string pixels = byte_pattern(3072);
        pixels[0] = static_cast<char>(record);
        bytes += pixels;
    }
    return bytes;
}

class Cifar10 : public testing::Test {
protected:
    run::Data cifar(const std::vector<std::string>& batches, double held_out) {
        run::Data data;
        data.kind = "cifar10";
        data.held_out = held_out;
        for (const std::string& batch : batches) {
            data.files.push_back(folder.write("batch" + std::to_string(data.files.size()) + ".bin", batch));
        }
        return data;
    }

    test::TemporaryFolder folder;
};

TEST_F(Cifar10, ReadsEveryRecordOfEveryFile) {
    const auto dataset = open_or_throw(cifar({batch_of(7), batch_of(13, 7)}, 0.25));
    EXPECT_EQ(dataset->shape(), (SampleShape{false, {3, 32, 32}, 10, false}));
    ASSERT_EQ(dataset->train_samples(), 15U);
    ASSERT_EQ(dataset->held_out_samples(), 5U);
    std::set<int> records;
    // All records' bytes of one channel, behind each other.
    const std::string pixels = byte_pattern(3072);
    std::array<std::vector<float>, 3> channels;
    for (std::size_t channel = 0; channel < 3; ++channel) {
        std::vector<std::uint8_t> bytes;
        for (std::uint8_t record = 0; record < 20; ++record) {
            const std::string plane = pixels.substr(channel * 1024, 1024);
            bytes.insert(bytes.end(), plane.begin(), plane.end());
            if (channel == 0) bytes[record * 1024U] = record;
        }
        channels[channel] = test::standardised(bytes);
    }
    for (const Batch& batch : {all_training(*dataset), all_held_out(*dataset)}) {
        ASSERT_EQ(batch.values.size(), static_cast<std::size_t>(batch.count) * 3072);
        EXPECT_TRUE(batch.tokens.empty());
        for (std::size_t place = 0; place < batch.targets.size(); ++place) {
            const float* values = batch.values.data() + place * 3072;
            int record = 0;  // the first value tells it
            while (record < 20 && std::abs(channels[0][static_cast<std::size_t>(record) * 1024] - values[0]) > 1e-5F)
                ++record;
            ASSERT_LT(record, 20);
            EXPECT_TRUE(records.insert(record).second);
            EXPECT_EQ(batch.targets[place], record % 10);
            for (std::size_t i = 0; i < 3072; ++i)
                ASSERT_NEAR(values[i], channels[i / 1024][static_cast<std::size_t>(record) * 1024 + i % 1024], 1e-5F);
        }
    }
    EXPECT_EQ(records.size(), 20U);
    EXPECT_EQ(*records.rbegin(), 19);
}

TEST_F(Cifar10, RefusesWhatIsNoBatch) {
    EXPECT_THAT(open_error(cifar({batch_of(2) + "x"}, 0)),
                AllOf(HasSubstr("batch0.bin is not a CIFAR-10 batch"), HasSubstr("6147 bytes"), HasSubstr("3073"),
                      HasSubstr("data.files")));
    std::string wrong_label = batch_of(5);
    wrong_label[3 * 3073] = 10;
    EXPECT_THAT(open_error(cifar({batch_of(5), wrong_label}, 0)),
                AllOf(HasSubstr("batch1.bin has the label 10 in record 3, counted from 0"), HasSubstr("data.files")));
    wrong_label[3 * 3073] = static_cast<char>(255);
    EXPECT_THAT(open_error(cifar({wrong_label}, 0)), HasSubstr("label 255"));
}

TEST_F(Cifar10, RefusesWhatIsNotThere) {
    EXPECT_THAT(open_error(cifar({}, 0)), HasSubstr("data.files is empty"));
    EXPECT_THAT(open_error(cifar({""}, 0)), HasSubstr("batch0.bin is empty (data.files)"));
    run::Data data = cifar({batch_of(2)}, 0);
    data.files.push_back((folder / "batch9.bin"));
    EXPECT_THAT(open_error(data), AllOf(HasSubstr("batch9.bin"), HasSubstr("No such file"), HasSubstr("data.files")));
    EXPECT_THAT(open_error(cifar({batch_of(2)}, 2)), HasSubstr("leaves nothing to train on"));
}

TEST_F(Cifar10, TheHashKnowsFilesAndSplit) {
    const Digest hash = open_or_throw(cifar({batch_of(6)}, 2))->content_hash();
    EXPECT_EQ(open_or_throw(cifar({batch_of(6)}, 2))->content_hash(), hash);
    EXPECT_NE(open_or_throw(cifar({batch_of(6)}, 1))->content_hash(), hash);
    EXPECT_NE(open_or_throw(cifar({batch_of(6, 1)}, 2))->content_hash(), hash);
}

}  // namespace
}  // namespace chaos::data
