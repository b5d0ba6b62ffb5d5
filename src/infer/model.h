// A model in memory: its weights, packed for the kernels while they are read, a few rows at a time: never twice in
// memory. F32, F16, BF16, Q8_0 and Q4_0 stay what they are; other blocks are kept as Q8_0, whose rounding is far finer
// than theirs. Embeddings stay in the file, of which a token needs one row.
#pragma once

#include "base/result.h"
#include "infer/huge_pages.h"
#include "infer/matrix.h"
#include "infer/model_file.h"
#include "infer/pool.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace chaos::infer {

// A matrix and what is added to its products: nothing, or a value for each row.
struct Linear {
    Matrix matrix;
    std::vector<float> bias;
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

// How much has been read.
using Progress = std::function<void(std::uint64_t bytes, std::uint64_t of_bytes)>;

class Model {
public:
    // Keeps the file, for embeddings. `progress` is called now and then by the calling thread; it may be empty.
    static Result<Model> load(ModelFile file, Pool& pool, const Progress& progress);

    [[nodiscard]] const Config& config() const { return file_.config(); }
    [[nodiscard]] const ModelFile& file() const { return file_; }
    [[nodiscard]] std::span<const LayerWeights> layers() const { return layers_; }
    [[nodiscard]] const std::vector<float>& final_norm() const { return final_norm_; }
    [[nodiscard]] const Matrix& head() const { return head_; }
    [[nodiscard]] std::uint64_t packed_bytes() const { return memory_.bytes().size(); }

    // The embedding of a token; `out` has the model's width.
    void embed(std::int64_t token, std::span<float> out) const;

private:
    explicit Model(ModelFile file) : file_(std::move(file)) {}

    ModelFile file_;
    HugePages memory_;
    std::vector<LayerWeights> layers_;
    std::vector<float> final_norm_;
    Matrix head_;
};

}  // namespace chaos::infer
