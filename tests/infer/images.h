// Images for tests.
#pragma once

#include "infer/image.h"
#include "infer/models.h"

#include <random>
#include <string>
#include <vector>

namespace chaos::infer::test {

// Small, so that models of tests have many.
inline constexpr std::uint64_t small_units = 2048;

inline std::filesystem::path model_path(const std::string& name) {
    return std::filesystem::exists(gguf(name)) ? gguf(name) : folder(name);
}

// Everything a holder of a model's own file has.
struct Holder {
    explicit Holder(const std::filesystem::path& path, const std::filesystem::path& cache)
        : file(ModelFile::open(path).value()), units(FileUnits::open(file, small_units).value()) {
        Pool pool(2);
        manifest = manifest_of(file, units, cache, pool, {}).value();
    }
    [[nodiscard]] std::vector<std::byte> unit(std::size_t number) const {
        std::vector<std::byte> bytes(units.layout().units[number].bytes);
        EXPECT_TRUE(units.read(number, bytes));
        return bytes;
    }
    ModelFile file;
    FileUnits units;
    Manifest manifest;
};

inline void fill(Image& image, const Holder& holder, const std::vector<bool>& wanted) {
    for (std::size_t unit = 0; unit < wanted.size(); ++unit) {
        if (!wanted[unit]) continue;
        EXPECT_TRUE(image.keep(unit, holder.unit(unit)).value());
    }
}

// A part of the model that a node might have.
inline Slice random_slice(const Config& config, std::mt19937& random) {
    const auto some = [&](std::int64_t all, std::int64_t unit) -> Extent {
        std::uniform_int_distribution<std::int64_t> where(0, all / unit);
        std::int64_t first = where(random) * unit;
        std::int64_t end = where(random) * unit;
        if (first > end) std::swap(first, end);
        return {first, end - first};
    };
    return {some(config.heads, head_unit(config)), some(config.ffn, ffn_unit(config)), some(config.vocab, 1)};
}

}  // namespace chaos::infer::test
