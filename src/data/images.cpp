#include "data/images.h"

#include "data/content_hash.h"
#include "data/held_out.h"
#include "data/order.h"

#include <array>
#include <cmath>
#include <utility>

namespace chaos::data {
namespace {

// Fixed: the held-out images are the same in every run, so that losses of different runs can be compared.
constexpr std::uint64_t split_seed = 0x73706c6974;  // "split"

// What each byte of a channel becomes.
using ByteValues = std::array<float, 256>;

// Zero mean and unit deviation over all images' bytes of each channel. Counts are integers and the rest is a few
// exactly rounded operations, so every machine computes the same bits. A channel of one value becomes zero.
std::vector<ByteValues> standardised(const Images& images) {
    const auto channels = static_cast<std::size_t>(images.size.channels);
    const auto plane = static_cast<std::size_t>(images.size.height * images.size.width);
    std::vector<std::array<std::uint64_t, 256>> counts(channels);
    for (std::size_t i = 0; i < images.pixels.size(); ++i) ++counts[i / plane % channels][images.pixels[i]];
    std::vector<ByteValues> values(channels);
    for (std::size_t channel = 0; channel < channels; ++channel) {
        std::uint64_t pixels = 0;
        std::uint64_t sum = 0;
        std::uint64_t squares = 0;
        for (std::uint64_t byte = 0; byte < 256; ++byte) {
            const std::uint64_t count = counts[channel][byte];
            pixels += count;
            sum += count * byte;
            squares += count * byte * byte;
        }
        const double mean = static_cast<double>(sum) / static_cast<double>(pixels);
        const double variance = static_cast<double>(squares) / static_cast<double>(pixels) - mean * mean;
        const double scale = variance > 0.0 ? 1.0 / std::sqrt(variance) : 0.0;
        for (std::size_t byte = 0; byte < 256; ++byte)
            values[channel][byte] = static_cast<float>((static_cast<double>(byte) - mean) * scale);
    }
    return values;
}

class ImageDataset final : public Dataset {
public:
    ImageDataset(Images images, std::uint64_t held_out_samples, const Digest& content_hash)
        : images_(std::move(images)),
          values_(standardised(images_)),
          image_bytes_(images_.pixels.size() / images_.labels.size()),
          held_out_samples_(held_out_samples),
          content_hash_(content_hash) {
        shape_.input = {images_.size.channels, images_.size.height, images_.size.width};
        shape_.classes = images_.classes;
    }

    [[nodiscard]] const SampleShape& shape() const override { return shape_; }
    [[nodiscard]] std::uint64_t train_samples() const override { return images_.labels.size() - held_out_samples_; }
    [[nodiscard]] std::uint64_t held_out_samples() const override { return held_out_samples_; }
    [[nodiscard]] const Digest& content_hash() const override { return content_hash_; }

    void fetch(std::uint64_t /*seed*/, std::uint64_t /*pass*/, std::span<const std::uint64_t> numbers,
               Batch& batch) const override {
        size_batch(numbers.size(), batch);
        for (std::size_t place = 0; place < numbers.size(); ++place) {
            CHAOS_ASSERT(numbers[place] < train_samples());
            write_sample(numbers[place], place, batch);
        }
    }

    void fetch_held_out(std::uint64_t begin, std::uint64_t count, Batch& batch) const override {
        CHAOS_ASSERT(begin <= held_out_samples_ && count <= held_out_samples_ - begin);
        size_batch(count, batch);
        for (std::uint64_t place = 0; place < count; ++place) {
            write_sample(train_samples() + begin + place, place, batch);
        }
    }

private:
    void size_batch(std::size_t count, Batch& batch) const {
        batch.count = static_cast<std::int64_t>(count);
        batch.values.resize(count * image_bytes_);
        batch.tokens.clear();
        batch.targets.resize(count);
        batch.samples.resize(count);
    }

    // Training samples come first, held-out ones after them; the files' order is behind a permutation.
    void write_sample(std::uint64_t number, std::size_t place, Batch& batch) const {
        const std::uint64_t image = sample_at(split_seed, 0, number, images_.labels.size());
        const std::uint8_t* pixels = images_.pixels.data() + image * image_bytes_;
        float* values = batch.values.data() + place * image_bytes_;
        const std::size_t plane = image_bytes_ / values_.size();
        for (const ByteValues& value_of : values_) {
            for (std::size_t i = 0; i < plane; ++i) values[i] = value_of[pixels[i]];
            values += plane;
            pixels += plane;
        }
        batch.targets[place] = images_.labels[image];
        batch.samples[place] = number;
    }

    Images images_;
    std::vector<ByteValues> values_;  // per channel
    std::size_t image_bytes_;
    std::uint64_t held_out_samples_;
    Digest content_hash_;
    SampleShape shape_;
};

}  // namespace

std::string ImageSize::text() const {
    return std::to_string(channels) + "x" + std::to_string(height) + "x" + std::to_string(width);
}

Result<std::unique_ptr<Dataset>> image_dataset(Images images, double held_out, Sha256 content) {
    CHAOS_ASSERT(!images.labels.empty());
    CHAOS_TRY(const std::uint64_t held_out_samples, held_out_of(held_out, images.labels.size()));
    add_value(content, "held_out_samples", held_out_samples);
    return std::unique_ptr<Dataset>(
        std::make_unique<ImageDataset>(std::move(images), held_out_samples, content.finish()));
}

}  // namespace chaos::data
