#include "data/images.h"

#include "data/content_hash.h"
#include "data/held_out.h"
#include "data/order.h"

#include <array>
#include <utility>

namespace chaos::data {
namespace {

// Fixed: the held-out images are the same in every run, so that losses of different runs can be compared.
constexpr std::uint64_t split_seed = 0x73706c6974;  // "split"

constexpr std::array<float, 256> normalised = [] {
    std::array<float, 256> values{};
    for (std::size_t x = 0; x < values.size(); ++x) values[x] = (static_cast<float>(x) / 255.0F - 0.5F) / 0.5F;
    return values;
}();

class ImageDataset final : public Dataset {
public:
    ImageDataset(Images images, std::uint64_t held_out_samples, const Digest& content_hash)
        : images_(std::move(images)),
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
        for (std::size_t i = 0; i < image_bytes_; ++i) values[i] = normalised[pixels[i]];
        batch.targets[place] = images_.labels[image];
        batch.samples[place] = number;
    }

    Images images_;
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
