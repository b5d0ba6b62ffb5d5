// The weights of a model as they lie on disk, whatever the files: a Hugging Face folder (safetensors, one file or
// several with an index), a GGUF file (or its parts), or an image of which only some is there (image.h). Opening one
// reads names and shapes and checks them against the Config: every tensor the model has must be there with its shape,
// and none that it has not. The numbers stay in the files, mapped, until somebody decodes a row.
//
// Tensors carry Hugging Face's names. llama.cpp reorders the rows of queries and keys of the llama architecture (pairs
// that turn together lie side by side); stored_row() undoes that.
#pragma once

#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"
#include "infer/blocks.h"
#include "infer/config.h"
#include "infer/gguf.h"
#include "state/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::infer {

struct StoredTensor {
    StoredType type = StoredType::f32;
    std::uint64_t rows = 1;  // a vector is one row
    std::uint64_t columns = 0;
    std::span<const std::byte> bytes;
    std::uint64_t paired_head = 0;    // this wide are the heads whose rows lie in pairs; 0: rows lie in order
    std::uint64_t block_columns = 0;  // all rows of so many columns lie before all rows of the next; 0: rows lie whole
};

// Row `row` of the model, wherever it lies. `tensor` is a matrix whose rows lie whole.
[[nodiscard]] std::span<const std::byte> stored_row(const StoredTensor& tensor, std::uint64_t row);
// Where columns of a tensor begin that lie together, and how many they are; all of them where rows lie whole.
struct ColumnBlock {
    std::uint64_t first = 0;
    std::uint64_t columns = 0;
};
// The one that column `column` is in.
[[nodiscard]] ColumnBlock column_block(const StoredTensor& tensor, std::uint64_t column);
// Row `row` of the model, in these columns.
[[nodiscard]] std::span<const std::byte> stored_row(const StoredTensor& tensor, std::uint64_t row,
                                                    const ColumnBlock& block);
// All values of a vector, in the model's order.
[[nodiscard]] std::vector<float> stored_vector(const StoredTensor& tensor);

// Where row `row` of a head so wide lies when its pairs lie side by side.
[[nodiscard]] std::uint64_t paired_row(std::uint64_t row, std::uint64_t head_width);

struct TensorShape {
    std::string name;       // model.layers.3.self_attn.q_proj.weight
    std::string gguf_name;  // blk.3.attn_q.weight
    std::uint64_t rows = 1;
    std::uint64_t columns = 0;
    bool vector = false;
    bool paired = false;  // queries and keys: in GGUF files of the llama architecture the rows lie in pairs
};
// Every tensor of such a model, in the order in which a token meets them.
[[nodiscard]] std::vector<TensorShape> tensors_of(const Config& config);

class ModelFile {
public:
    // A folder with config.json, a GGUF file, or a folder with one GGUF file.
    static Result<ModelFile> open(const std::filesystem::path& path);
    // A model of which some units lie in an image (image.h), and what is needed of the others is nothing.
    struct Placed {
        std::filesystem::path path;        // a folder that has its text
        std::filesystem::path image_path;  // of the same file
        MappedFile image;
        Config config;
        std::map<std::string, StoredTensor, std::less<>> tensors;  // their bytes are in the image
        std::optional<Gguf> text;
        Digest identity{};
    };
    static ModelFile of_image(Placed placed);

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    // The files that hold tensors.
    [[nodiscard]] const std::vector<std::filesystem::path>& weight_paths() const { return weight_paths_; }
    [[nodiscard]] const Config& config() const { return config_; }
    // A tensor of tensors_of(config()).
    [[nodiscard]] const StoredTensor& tensor(std::string_view name) const;
    [[nodiscard]] std::uint64_t bytes() const;
    // The GGUF file, where it is one; of an image, one that has its text and no tensors.
    [[nodiscard]] const Gguf* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
    // What an image's weights are known by (manifest.h).
    [[nodiscard]] const std::optional<Digest>& identity() const { return identity_; }

private:
    ModelFile() = default;
    Result<void> open_folder();
    Result<void> open_gguf();
    Result<void> check(std::map<std::string, StoredTensor, std::less<>> found, bool gguf_names);

    std::filesystem::path path_;
    std::vector<std::filesystem::path> weight_paths_;
    Config config_;
    std::map<std::string, StoredTensor, std::less<>> tensors_;
    std::vector<state::Safetensors> safetensors_;
    std::optional<Gguf> gguf_;
    std::optional<MappedFile> image_;
    std::optional<Digest> identity_;
};

}  // namespace chaos::infer
