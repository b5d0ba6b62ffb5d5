// The safetensors format (https://github.com/huggingface/safetensors): eight bytes of header length, a JSON header
// that gives each tensor's type, shape and byte range, then the data. Every number in a header is checked before use.
#pragma once

#include "base/file.h"
#include "base/result.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace chaos::state {

inline constexpr std::uint64_t max_safetensors_header_bytes = 100U << 20;

enum class TensorType { f32, f16, bf16 };

class Safetensors {
public:
    struct Entry {
        TensorType type = TensorType::f32;
        std::vector<std::int64_t> shape;
        std::span<const std::byte> bytes;
    };

    static Result<Safetensors> open(const std::filesystem::path& path);

    [[nodiscard]] const std::map<std::string, Entry>& tensors() const { return tensors_; }
    [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
    // The header with its length in front, and the bytes behind it, as they are in the file.
    [[nodiscard]] std::span<const std::byte> header() const { return header_; }
    [[nodiscard]] std::span<const std::byte> data() const { return data_; }

private:
    explicit Safetensors(MappedFile file) : file_(std::move(file)) {}
    MappedFile file_;
    std::span<const std::byte> header_;
    std::span<const std::byte> data_;
    std::map<std::string, Entry> tensors_;
    std::map<std::string, std::string> metadata_;
};

// The safetensors files of a Hugging Face folder: those its index lists, or model.safetensors.
[[nodiscard]] Result<std::vector<std::filesystem::path>> weight_files(const std::filesystem::path& folder);

// Converts a tensor to floats; `out` must have its number of elements.
void to_floats(const Safetensors::Entry& entry, std::span<float> out);

// What a file to be written holds: float32 tensors, laid out one after the other in this order.
struct FloatTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::span<const float> values;
};

// The eight bytes and the header, padded so that the data is 8-byte aligned.
[[nodiscard]] std::string safetensors_header(std::span<const FloatTensor> tensors,
                                             const std::map<std::string, std::string>& metadata);

// Writes a whole file atomically.
[[nodiscard]] Result<void> write_safetensors(const std::filesystem::path& path, std::span<const FloatTensor> tensors,
                                             const std::map<std::string, std::string>& metadata);

}  // namespace chaos::state
