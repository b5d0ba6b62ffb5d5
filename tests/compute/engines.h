// What the tests of engines share: options and batches made from a few numbers.
#pragma once

#include "base/random.h"
#include "compute/engine.h"
#include "compute/plugin_entry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace chaos::compute {

inline EngineOptions image_options(std::string kind, std::vector<std::int64_t> input, std::int64_t classes) {
    EngineOptions options;
    options.model.kind = std::move(kind);
    options.model.classes = classes;
    options.sample.input = std::move(input);
    options.sample.classes = classes;
    options.seed = 7;
    options.slots = 0;
    return options;
}

inline EngineOptions token_options(std::string kind, std::int64_t context, std::int64_t vocab) {
    EngineOptions options = image_options(std::move(kind), {context}, vocab);
    options.sample.tokens = true;
    options.sample.target_per_position = true;
    return options;
}

inline Result<std::unique_ptr<Engine>> try_engine(const EngineOptions& options) {
    Result<std::unique_ptr<Engine>> engine = Error{"untouched"};
    chaos_make_engine(options, &engine);
    return engine;
}

inline std::unique_ptr<Engine> make_engine(const EngineOptions& options) {
    auto engine = try_engine(options);
    if (engine.ok()) return std::move(engine).value();
    ADD_FAILURE() << engine.error().message;
    return nullptr;
}

// Samples `first`, `first` + 1, ... of a data set of noise.
inline data::Batch make_batch(const data::SampleShape& shape, std::int64_t count, std::uint64_t first = 0) {
    data::Batch batch;
    batch.count = count;
    const auto elements = static_cast<std::uint64_t>(shape.input_elements());
    const auto classes = static_cast<std::uint64_t>(shape.classes);
    for (std::uint64_t sample = first; sample < first + static_cast<std::uint64_t>(count); ++sample) {
        batch.samples.push_back(sample);
        for (std::uint64_t i = 0; i < elements; ++i) {
            if (shape.tokens) {
                batch.tokens.push_back(static_cast<std::int64_t>(random_bits(1, sample, i) % classes));
            } else {
                batch.values.push_back(random_normal(1, sample, i));
            }
        }
        for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(shape.targets()); ++i) {
            batch.targets.push_back(static_cast<std::int64_t>(random_bits(2, sample, i) % classes));
        }
    }
    return batch;
}

inline Measure step(Engine& engine, const data::Batch& batch, const Part& part = {}) {
    auto measure = engine.forward_backward(batch, part);
    if (measure.ok()) return *measure;
    ADD_FAILURE() << measure.error().message;
    return {};
}

inline std::vector<float> copy(std::span<const float> floats) {
    return {floats.begin(), floats.end()};
}

// What is told to be final while the gradient is computed is; how often something was told.
inline std::size_t expect_final_when_told(Engine& engine, const data::Batch& batch) {
    struct Told {
        std::size_t from = 0;
        std::vector<float> floats;
    };
    std::vector<Told> all;
    std::size_t end = engine.manifest().parameter_elements();
    step(engine, batch, {.step = 0, .weight = 0.5F, .first = true});
    step(engine, batch, {.step = 0, .weight = 0.5F, .first = false, .ready = [&](std::size_t from) {
                             EXPECT_LT(from, end);
                             all.push_back({from, copy(engine.result().subspan(from, end - from))});
                             end = from;
                         }});
    for (const Told& told : all)
        EXPECT_EQ(told.floats, copy(engine.result().subspan(told.from, told.floats.size()))) << told.from;
    return all.size();
}

// The largest difference of two results, as a share of the largest value of the first.
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    double scale = 1e-30;
    double difference = 0.0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        scale = std::max(scale, std::abs(double{a[i]}));
        difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
    }
    return difference / scale;
}

}  // namespace chaos::compute
