// GGUF, llama.cpp's file format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3:
//
//   "GGUF", version, counts | metadata: key, type, value | tensors: name, extents, type, offset | padding | data
//
// all little-endian. Every number of a file is checked before use: a truncated or lying file is an error that says
// where, never a wild read.
//
// llama.cpp's gguf-split divides a large file into NAME-00001-of-00003.gguf and so on: the first has the metadata, each
// some of the tensors. Opening the first opens them all, as one.
#pragma once

#include "base/file.h"
#include "base/result.h"
#include "infer/blocks.h"
#include "run/limits.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace chaos::infer {

inline constexpr std::uint64_t max_gguf_entries = 1U << 16;  // of metadata, and as many tensors
inline constexpr std::uint64_t max_gguf_key_bytes = 1U << 16;
inline constexpr std::int64_t max_gguf_parts = 1024;
// Of all arrays of a file together. A tokenizer has three or four that are as long as its vocabulary; in memory an
// element takes up to 8 times what it takes in the file.
inline constexpr std::uint64_t max_gguf_elements = 4 * static_cast<std::uint64_t>(run::max_vocab);

// The numbers are the file's.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, flag, text, array, u64, i64, f64 };

// Whole numbers and flags are widened to 64 bits, reals to double; `type` (and `element`, for an array) say how the
// file has them. A whole number beyond 63 bits is refused.
struct GgufValue {
    using Content = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                                 std::vector<std::string>>;
    GgufType type = GgufType::u32;
    GgufType element = GgufType::u32;
    Content content;

    static GgufValue of_u32(std::uint32_t value) { return {GgufType::u32, {}, std::int64_t{value}}; }
    static GgufValue of_f32(double value) { return {GgufType::f32, {}, value}; }
    static GgufValue of_flag(bool value) { return {GgufType::flag, {}, std::int64_t{value}}; }
    static GgufValue of_text(std::string value) { return {GgufType::text, {}, std::move(value)}; }
    static GgufValue of_texts(std::vector<std::string> values) {
        return {GgufType::array, GgufType::text, std::move(values)};
    }
    static GgufValue of_i32s(std::vector<std::int64_t> values) {
        return {GgufType::array, GgufType::i32, std::move(values)};
    }
    static GgufValue of_f32s(std::vector<double> values) { return {GgufType::array, GgufType::f32, std::move(values)}; }
};

using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

class Gguf {
public:
    struct Tensor {
        StoredType type = StoredType::f32;
        std::vector<std::uint64_t> extents;  // columns first
        std::span<const std::byte> bytes;
    };

    static Result<Gguf> open(const std::filesystem::path& path);
    // Whether a file begins as a GGUF file does.
    static bool is_one(const std::filesystem::path& path);

    [[nodiscard]] const std::string& name() const { return name_; }
    // All parts; without any, the file itself.
    [[nodiscard]] const std::vector<std::filesystem::path>& paths() const { return paths_; }
    [[nodiscard]] const GgufMetadata& metadata() const { return metadata_; }
    [[nodiscard]] const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }

    // A value of the metadata: nothing where the key is missing, an error where it has another type.
    [[nodiscard]] Result<std::optional<std::int64_t>> whole(std::string_view key) const;
    [[nodiscard]] Result<std::optional<double>> real(std::string_view key) const;
    [[nodiscard]] Result<std::optional<std::string>> text(std::string_view key) const;

private:
    explicit Gguf(std::string name) : name_(std::move(name)) {}
    static Result<Gguf> read_part(const std::filesystem::path& path, std::int64_t part, std::int64_t count);
    Result<void> read(const std::filesystem::path& path);
    Result<void> read_other_parts(const std::filesystem::path& path, std::int64_t count);
    template <class T>
    Result<std::optional<T>> value(std::string_view key, const char* what) const;

    std::string name_;
    std::vector<std::filesystem::path> paths_;
    std::vector<MappedFile> files_;
    GgufMetadata metadata_;
    std::map<std::string, Tensor, std::less<>> tensors_;
};

// A tensor to be written. `write` hands its rows to the sink one after the other.
struct GgufOutput {
    std::string name;
    StoredType type = StoredType::f32;
    std::vector<std::uint64_t> extents;  // columns first
    std::function<Result<void>(const Sink&)> write;
};

// The content of a file that has metadata and nothing else.
[[nodiscard]] std::string gguf_without_tensors(const GgufMetadata& metadata);

// Writes a whole file of version 3 atomically.
[[nodiscard]] Result<void> write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                                      std::span<const GgufOutput> tensors);

}  // namespace chaos::infer
