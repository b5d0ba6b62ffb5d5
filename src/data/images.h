// Images and their labels as a data set, whatever file they come from.
//
// Pixels are kept as bytes. fetch turns them into values with mean 0 and deviation 1 over all images, channel by
// channel.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "data/dataset.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace chaos::data {

struct ImageSize {
    std::int64_t channels = 0;
    std::int64_t height = 0;
    std::int64_t width = 0;

    [[nodiscard]] std::string text() const;  // "3x32x32"

    friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

struct Images {
    ImageSize size;
    std::vector<std::uint8_t> pixels;  // images x channels x height x width
    std::vector<std::uint8_t> labels;  // one for each image, below `classes`
    std::int64_t classes = 0;
};

// `content` has seen the kind and the files; how many samples are held out is added here. Which ones is pseudo-random
// with a fixed seed, because files may be sorted by class.
[[nodiscard]] Result<std::unique_ptr<Dataset>> image_dataset(Images images, double held_out, Sha256 content);

}  // namespace chaos::data
