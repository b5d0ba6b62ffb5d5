#include "base/random.h"
#include "data/content_hash.h"
#include "data/held_out.h"
#include "data/kinds.h"

#include <string>

namespace chaos::data {
namespace {

// Far above any sample one would train on; keeps the arithmetic on sizes clear of overflow.
constexpr std::int64_t max_sample_elements = std::int64_t{1} << 32;

// Fixed: the data is the same in every run, as a file's would be.
constexpr std::uint64_t pattern_seed = 0x7061747465726e;  // "pattern"
constexpr std::uint64_t noise_seed = 0x6e6f697365;        // "noise"

// Uniform in [-1, 1).
float spread(std::uint64_t bits) {
    return 2.0F * random_unit(bits) - 1.0F;
}

// Tokens: a sample counts in steps from a start, both drawn by its number, modulo the vocabulary. One look back tells
// the step, so a language model can learn it. Values: sample number s belongs to class s modulo the number of classes
// and shows the class's pattern plus as much noise. Held-out samples are the ones with the last numbers: the same
// patterns under noise that training never saw.
class SyntheticDataset final : public Dataset {
public:
    SyntheticDataset(SampleShape shape, std::uint64_t samples, std::uint64_t held_out_samples,
                     const Digest& content_hash)
        : shape_(std::move(shape)),
          samples_(samples),
          held_out_samples_(held_out_samples),
          content_hash_(content_hash) {}

    [[nodiscard]] const SampleShape& shape() const override { return shape_; }
    [[nodiscard]] std::uint64_t train_samples() const override { return samples_ - held_out_samples_; }
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
        batch.values.resize(shape_.tokens ? 0 : count * elements());
        batch.tokens.resize(shape_.tokens ? count * elements() : 0);
        batch.targets.resize(count * static_cast<std::size_t>(shape_.targets()));
        batch.samples.resize(count);
    }

    void write_sample(std::uint64_t number, std::size_t place, Batch& batch) const {
        batch.samples[place] = number;
        if (shape_.tokens) {
            write_tokens(number, place, batch);
        } else {
            write_values(number, place, batch);
        }
    }

    void write_tokens(std::uint64_t number, std::size_t place, Batch& batch) const {
        constexpr std::uint64_t steps = 8;
        const auto vocab = static_cast<std::uint64_t>(shape_.classes);
        const std::uint64_t start = random_bits(pattern_seed, number, 0) % vocab;
        const std::uint64_t step = random_bits(pattern_seed, number, 1) % steps;
        const std::size_t size = elements();
        for (std::size_t i = 0; i < size; ++i) {
            batch.tokens[place * size + i] = static_cast<std::int64_t>((start + i * step) % vocab);
            batch.targets[place * size + i] = static_cast<std::int64_t>((start + (i + 1) * step) % vocab);
        }
    }

    void write_values(std::uint64_t number, std::size_t place, Batch& batch) const {
        const std::uint64_t label = number % static_cast<std::uint64_t>(shape_.classes);
        const std::size_t size = elements();
        float* values = batch.values.data() + place * size;
        for (std::size_t i = 0; i < size; ++i) {
            values[i] = spread(random_bits(pattern_seed, label, i)) + spread(random_bits(noise_seed, number, i));
        }
        batch.targets[place] = static_cast<std::int64_t>(label);
    }

    [[nodiscard]] std::size_t elements() const { return static_cast<std::size_t>(shape_.input_elements()); }

    SampleShape shape_;
    std::uint64_t samples_;
    std::uint64_t held_out_samples_;
    Digest content_hash_;
};

Result<void> check_shape(const std::vector<std::int64_t>& shape) {
    if (shape.empty()) return Error{"data.shape is empty; it must name the extents of a sample"};
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) {
        if (extent < 1) return Error{"data.shape has the extent " + std::to_string(extent) + "; it must be 1 or more"};
        if (extent > max_sample_elements / elements) {
            return Error{"data.shape describes samples of more than " + std::to_string(max_sample_elements) +
                         " values"};
        }
        elements *= extent;
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_synthetic(const run::Data& data) {
    CHAOS_CHECK(check_shape(data.shape));
    if (data.classes < 2) return Error{"data.classes is " + std::to_string(data.classes) + "; it must be 2 or more"};
    if (data.samples < 1) return Error{"data.samples is " + std::to_string(data.samples) + "; it must be 1 or more"};
    const auto samples = static_cast<std::uint64_t>(data.samples);
    CHAOS_TRY(const std::uint64_t held_out_samples, held_out_of(data.held_out, samples));

    SampleShape shape;
    shape.input = data.shape;
    shape.classes = data.classes;
    shape.tokens = data.tokens;
    shape.target_per_position = data.tokens;
    Sha256 content;
    add_text(content, "kind", "synthetic");
    add_value(content, "tokens", shape.tokens ? 1 : 0);
    add_value(content, "extents", shape.input.size());
    for (const std::int64_t extent : shape.input) add_value(content, "extent", static_cast<std::uint64_t>(extent));
    add_value(content, "classes", static_cast<std::uint64_t>(shape.classes));
    add_value(content, "samples", samples);
    add_value(content, "held_out_samples", held_out_samples);
    return std::unique_ptr<Dataset>(
        std::make_unique<SyntheticDataset>(std::move(shape), samples, held_out_samples, content.finish()));
}

}  // namespace chaos::data
