#include "infer/model.h"

#include "base/assert.h"
#include "base/file.h"

#include <algorithm>

namespace chaos::infer {
namespace {

const char* const embedding_name = "model.embed_tokens.weight";

}  // namespace

Result<Model> Model::load(ModelFile file, const Slice& slice, Pool& pool, const Progress& progress) {
    Model model(std::move(file), slice);
    const std::uint64_t all = packed_bytes(model.tensors_);
    CHAOS_TRY(model.memory_, HugePages::allocate(all));
    for (const PackedTensor& tensor : model.tensors_) {
        const std::size_t bytes = panel_bytes(tensor.shape.format, tensor.shape.columns);
        const std::size_t panels = panels_of(tensor.shape.rows);
        const std::size_t step = panels_at_once(tensor);
        for (std::size_t first = 0; first < panels; first += step) {
            const std::size_t count = std::min(step, panels - first);
            const std::uint64_t offset = tensor.offset + first * bytes;
            CHAOS_CHECK(pack_panels(model.file_, tensor, first, count, pool, model.memory_.data() + offset));
            if (progress) progress(offset + count * bytes, all);
        }
    }
    model.collect();
    return model;
}

Result<Model> Model::load(ModelFile file, Pool& pool, const Progress& progress) {
    const Slice all = whole(file.config());
    return load(std::move(file), all, pool, progress);
}

Model Model::in_window(ModelFile file, std::unique_ptr<Window> window) {
    const Slice all = whole(file.config());
    return in_window(std::move(file), all, std::move(window));
}

Model Model::in_window(ModelFile file, const Slice& slice, std::unique_ptr<Window> window) {
    Model model(std::move(file), slice);
    model.window_ = std::move(window);
    model.collect();
    return model;
}

void Model::collect() {
    for (std::int64_t index = 0; index < config().layers; ++index) layers_.push_back(layer(index));
    final_norm_ = stored_vector(file_.tensor("model.norm.weight"));
    head_ = linear(config().tied_head ? embedding_name : "lm_head.weight", "");
    // All has been copied; the pages it came from count as ours as long as they are mapped.
    for (const TensorShape& shape : tensors_of(config())) release_mapped(file_.tensor(shape.name).bytes);
}

Linear Model::linear(const std::string& weight, const std::string& bias) const {
    const auto tensor =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const PackedTensor& each) { return each.name == weight; });
    CHAOS_ASSERT(tensor != tensors_.end());
    Linear result;
    result.matrix = tensor->shape;
    if (!bias.empty()) {
        const std::vector<float> all = stored_vector(file_.tensor(bias));
        const bool divided = tensor->shape.columns == static_cast<std::size_t>(config().width);
        const auto first = static_cast<std::ptrdiff_t>(divided ? tensor->first_row : 0);
        const auto count = static_cast<std::ptrdiff_t>(divided ? tensor->shape.rows : all.size());
        result.bias.assign(all.begin() + first, all.begin() + first + count);
    }
    if (window_ == nullptr) {
        result.matrix.packed = memory_.data() + tensor->offset;
        return result;
    }
    const auto [first, last] = std::equal_range(window_->parts().begin(), window_->parts().end(),
                                                Part{.tensor = static_cast<std::size_t>(tensor - tensors_.begin())},
                                                [](const Part& a, const Part& b) { return a.tensor < b.tensor; });
    result.first_part = static_cast<std::size_t>(first - window_->parts().begin());
    result.last_part = static_cast<std::size_t>(last - window_->parts().begin());
    return result;
}

LayerWeights Model::layer(std::int64_t index) const {
    const std::string name = "model.layers." + std::to_string(index) + ".";
    const auto vector = [&](const std::string& which) { return stored_vector(file_.tensor(name + which)); };
    const auto matrix = [&](const std::string& which, bool bias) {
        return linear(name + which + ".weight", bias ? name + which + ".bias" : "");
    };
    LayerWeights layer;
    layer.attention_norm = vector("input_layernorm.weight");
    layer.query = matrix("self_attn.q_proj", config().qkv_bias);
    layer.key = matrix("self_attn.k_proj", config().qkv_bias);
    layer.value = matrix("self_attn.v_proj", config().qkv_bias);
    if (config().head_norm) {
        layer.query_norm = vector("self_attn.q_norm.weight");
        layer.key_norm = vector("self_attn.k_norm.weight");
    }
    layer.output = matrix("self_attn.o_proj", config().output_bias);
    layer.ffn_norm = vector("post_attention_layernorm.weight");
    layer.gate = matrix("mlp.gate_proj", config().ffn_bias);
    layer.up = matrix("mlp.up_proj", config().ffn_bias);
    layer.down = matrix("mlp.down_proj", config().ffn_bias);
    return layer;
}

void Model::embed(std::int64_t token, std::span<float> out) const {
    const StoredTensor& tensor = file_.tensor(embedding_name);
    decode_row(tensor.type, stored_row(tensor, static_cast<std::uint64_t>(token)), out);
}

void Model::release_embeddings() const {
    release_mapped(file_.tensor(embedding_name).bytes);
}

}  // namespace chaos::infer
