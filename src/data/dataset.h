// A data set: a fixed number of training samples and of held-out ones, fetched by number. Immutable after opening;
// any thread may fetch. Training samples have the numbers from 0 on, held-out ones those after them. What can go wrong
// goes wrong in open_dataset; a batch that is fetched into again and again allocates nothing.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "data/batch.h"
#include "run/run.h"

#include <cstdint>
#include <memory>
#include <span>

namespace chaos::text {
class Tokenizer;
}

namespace chaos::data {

class Dataset {
public:
    virtual ~Dataset() = default;

    [[nodiscard]] virtual const SampleShape& shape() const = 0;
    [[nodiscard]] virtual std::uint64_t train_samples() const = 0;
    [[nodiscard]] virtual std::uint64_t held_out_samples() const = 0;

    // The samples with these numbers, each below train_samples(). `pass` lets a data set vary what a sample shows
    // from pass to pass (text shifts its windows); the result is a pure function of the arguments and the files.
    virtual void fetch(std::uint64_t seed, std::uint64_t pass, std::span<const std::uint64_t> numbers,
                       Batch& batch) const = 0;
    // Held-out samples [begin, begin + count), counted from the first held-out one; the same in every pass.
    virtual void fetch_held_out(std::uint64_t begin, std::uint64_t count, Batch& batch) const = 0;

    // SHA-256 over the content of all files and everything else that decides what the samples are.
    [[nodiscard]] virtual const Digest& content_hash() const = 0;
};

// Opens what [data] describes: reads the files into memory and checks all of it. Errors name the file and the key.
// `tokenizer` is null for bytes; only text uses it. Image values are normalised as data/images.h says.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_dataset(const run::Data& data, const text::Tokenizer* tokenizer);

}  // namespace chaos::data
