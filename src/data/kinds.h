// One opener per data.kind; open_dataset chooses among them. For the files of this folder only.
#pragma once

#include "base/result.h"
#include "data/dataset.h"
#include "run/run.h"

#include <memory>

namespace chaos::data {

// The texts of data.files, concatenated. A sample is a window of data.context + 1 tokens.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_text(const run::Data& data, const text::Tokenizer* tokenizer);

// Images and labels in the IDX format of MNIST, plain or gzip-compressed.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_idx(const run::Data& data);

// The binary version of CIFAR-10: records of one label byte and 3 x 32 x 32 pixels.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_cifar10(const run::Data& data);

// Samples that are computed: enough to try a model and to measure it where no data is at hand.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_synthetic(const run::Data& data);

}  // namespace chaos::data
