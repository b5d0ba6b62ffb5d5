// What the tests of data/ share: file formats written by hand.
#pragma once

#include "data/dataset.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace chaos::test {

// Another seed in every run, printed so that a failure can be repeated.
inline std::uint64_t fresh_seed() {
    const std::uint64_t seed = std::random_device()();
    std::cout << "seed " << seed << std::endl;
    return seed;
}

// What the bytes of one channel become: mean 0 and deviation 1 over all of them.
inline std::vector<float> standardised(const std::vector<std::uint8_t>& bytes) {
    double sum = 0.0;
    double squares = 0.0;
    for (const std::uint8_t byte : bytes) {
        sum += byte;
        squares += byte * byte;
    }
    const double mean = sum / static_cast<double>(bytes.size());
    const double deviation = std::sqrt(squares / static_cast<double>(bytes.size()) - mean * mean);
    std::vector<float> values;
    for (const std::uint8_t byte : bytes) values.push_back(static_cast<float>((byte - mean) / deviation));
    return values;
}

inline std::string idx_header(const std::vector<std::uint32_t>& extents, char type = 8) {
    std::string header = {0, 0, type, static_cast<char>(extents.size())};
    for (const std::uint32_t extent : extents) {
        for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(extent >> shift & 0xff);
    }
    return header;
}

// `size` bytes that differ from their neighbours.
inline std::string byte_pattern(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 7 + i / 256) % 256);
    return bytes;
}

inline std::string gzip(const std::string& content) {
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    std::string packed(deflateBound(&stream, content.size()) + 32, '\0');
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(content.data()));
    stream.avail_in = static_cast<uInt>(content.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
}

// The message of the error that opening `data` gives.
inline std::string open_error(const run::Data& data) {
    const auto opened = data::open_dataset(data, nullptr);
    return opened.ok() ? "no error" : opened.error().message;
}

inline std::unique_ptr<data::Dataset> open_or_throw(const run::Data& data) {
    auto opened = data::open_dataset(data, nullptr);
    if (!opened) throw std::runtime_error(opened.error().message);
    return std::move(opened).value();
}

// All training samples in the order of their numbers, and all held-out ones.
inline data::Batch all_training(const data::Dataset& dataset, std::uint64_t seed = 1, std::uint64_t pass = 0) {
    std::vector<std::uint64_t> numbers(dataset.train_samples());
    std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
    data::Batch batch;
    dataset.fetch(seed, pass, numbers, batch);
    return batch;
}

inline data::Batch all_held_out(const data::Dataset& dataset) {
    data::Batch batch;
    dataset.fetch_held_out(0, dataset.held_out_samples(), batch);
    return batch;
}

}  // namespace chaos::test
