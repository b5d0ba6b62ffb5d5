// A model in memory, or a slice of one: its weights, packed for the kernels while they are read, a few rows at a time:
// never twice in memory (packing.h). Where not all of them may be in memory, a window streams what is missing
// (window.h). Embeddings stay in the file, of which a token needs one row.
#pragma once

#include "base/result.h"
#include "infer/huge_pages.h"
#include "infer/matrix.h"
#include "infer/model_file.h"
#include "infer/packing.h"
#include "infer/pool.h"
#include "infer/window.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace chaos::infer {

// A matrix and what is added to its products: nothing, or a value for each row. Where columns are divided, everybody
// adds the bias to the sum of all.
struct Linear {
    Matrix matrix;  // without memory where the model has a window
    std::vector<float> bias;
    std::size_t first_part = 0;  // of the window
    std::size_t last_part = 0;   // behind the last one
};

struct LayerWeights {
    std::vector<float> attention_norm;
    Linear query;
    Linear key;
    Linear value;
    std::vector<float> query_norm;  // of each head, where the model has it
    std::vector<float> key_norm;
    Linear output;
    std::vector<float> ffn_norm;
    Linear gate;
    Linear up;
    Linear down;
};

class Model {
public:
    // All weights of a slice in memory. Keeps the file, for embeddings. `progress` is called now and then by the
    // calling thread; it may be empty.
    static Result<Model> load(ModelFile file, const Slice& slice, Pool& pool, const Progress& progress);
    static Result<Model> load(ModelFile file, Pool& pool, const Progress& progress);  // the whole model
    // Weights in a window of packed_tensors(file, slice).
    static Model in_window(ModelFile file, const Slice& slice, std::unique_ptr<Window> window);
    static Model in_window(ModelFile file, std::unique_ptr<Window> window);

    [[nodiscard]] const Config& config() const { return file_.config(); }
    [[nodiscard]] const Slice& slice() const { return slice_; }
    [[nodiscard]] const ModelFile& file() const { return file_; }
    [[nodiscard]] std::span<const PackedTensor> tensors() const { return tensors_; }
    [[nodiscard]] std::span<const LayerWeights> layers() const { return layers_; }
    [[nodiscard]] const std::vector<float>& final_norm() const { return final_norm_; }
    [[nodiscard]] const Linear& head() const { return head_; }
    // Null where all weights are in memory.
    [[nodiscard]] Window* window() const { return window_.get(); }

    // The embedding of a token; `out` has the model's width.
    void embed(std::int64_t token, std::span<float> out) const;
    // Embeddings that were read stay in memory until somebody else needs it, or this is called.
    void release_embeddings() const;

private:
    Model(ModelFile file, const Slice& slice)
        : file_(std::move(file)), slice_(slice), tensors_(packed_tensors(file_, slice)) {}
    void collect();
    [[nodiscard]] Linear linear(const std::string& weight, const std::string& bias) const;
    [[nodiscard]] LayerWeights layer(std::int64_t index) const;

    ModelFile file_;
    Slice slice_;
    std::vector<PackedTensor> tensors_;
    HugePages memory_;
    std::unique_ptr<Window> window_;
    std::vector<LayerWeights> layers_;
    std::vector<float> final_norm_;
    Linear head_;
};

}  // namespace chaos::infer
