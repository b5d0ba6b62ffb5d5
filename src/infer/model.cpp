#include "infer/model.h"

#include "base/file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

namespace chaos::infer {
namespace {

Format format_of(StoredType type) {
    switch (type) {
        case StoredType::f32:
            return Format::f32;
        case StoredType::f16:
            return Format::f16;
        case StoredType::bf16:
            return Format::bf16;
        case StoredType::q4_0:
            return Format::q4_0;
        default:
            return Format::q8_0;
    }
}

bool is_kept(StoredType type) {
    return type == StoredType::q8_0 || format_of(type) != Format::q8_0;
}

// One panel's rows in another format than the file's; false where a value is not finite, which has no rounding.
bool recode_panel(const StoredTensor& tensor, std::uint64_t first, std::uint64_t count, std::byte* panel) {
    std::vector<float> values(tensor.columns);
    const std::uint64_t bytes = row_bytes(StoredType::q8_0, tensor.columns);
    std::vector<std::byte> recoded(count * bytes);
    std::array<const std::byte*, panel_rows> rows{};
    for (std::uint64_t i = 0; i < count; ++i) {
        decode_row(tensor.type, stored_row(tensor, first + i), values);
        if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) return false;
        encode_row(StoredType::q8_0, values, std::span(recoded).subspan(i * bytes, bytes));
        rows[i] = recoded.data() + i * bytes;
    }
    pack_panel(Format::q8_0, tensor.columns, std::span(rows).first(count), panel);
    return true;
}

// Reads tensors one after the other into one piece of memory.
class Loader {
public:
    Loader(const ModelFile& file, Pool& pool, const Progress& progress)
        : file_(file), pool_(pool), progress_(progress) {}

    // Room for every matrix but the embedding, which is the head too where that is tied.
    Result<HugePages> make_room() {
        std::uint64_t sum = 0;
        for (const TensorShape& shape : tensors_of(file_.config())) {
            if (!is_packed(shape)) continue;
            const StoredTensor& tensor = file_.tensor(shape.name);
            sum += packed_bytes(format_of(tensor.type), tensor.rows, tensor.columns);
            total_ += tensor.bytes.size();
        }
        CHAOS_TRY(auto memory, HugePages::allocate(sum));
        next_ = memory.data();
        return memory;
    }

    Result<Matrix> matrix(const std::string& name) {
        const StoredTensor& tensor = file_.tensor(name);
        Matrix packed{format_of(tensor.type), tensor.rows, tensor.columns, next_};
        const std::size_t bytes = panel_bytes(packed.format, packed.columns);
        const std::size_t panels = panels_of(packed.rows);
        // As many panels at a time as give all threads enough to do between two words of progress.
        const std::size_t step = std::max<std::size_t>(1, (std::size_t{32} << 20) / bytes);
        std::atomic<bool> finite = true;
        for (std::size_t from = 0; from < panels; from += step) {
            const std::size_t count = std::min(step, panels - from);
            pool_.run(count, [&](std::size_t i) {
                if (!pack(tensor, packed.format, from + i, next_ + (from + i) * bytes)) finite = false;
            });
            const std::uint64_t rows = std::min<std::uint64_t>(count * panel_rows, tensor.rows - from * panel_rows);
            const std::uint64_t stored = row_bytes(tensor.type, tensor.columns);
            release_mapped(tensor.bytes.subspan(from * panel_rows * stored, rows * stored));
            done_ += rows * stored;
            if (progress_) progress_(done_, total_);
        }
        if (!finite) return Error{file_.path().string() + ": tensor " + name + " holds values that are not finite"};
        next_ += panels * bytes;
        return packed;
    }

    Result<Linear> linear(const std::string& name, bool bias) {
        Linear result;
        CHAOS_TRY(result.matrix, matrix(name + ".weight"));
        if (bias) result.bias = vector(name + ".bias");
        return result;
    }

    std::vector<float> vector(const std::string& name) { return stored_vector(file_.tensor(name)); }

    Result<LayerWeights> layer(std::int64_t index) {
        const Config& config = file_.config();
        const std::string name = "model.layers." + std::to_string(index) + ".";
        LayerWeights layer;
        layer.attention_norm = vector(name + "input_layernorm.weight");
        CHAOS_TRY(layer.query, linear(name + "self_attn.q_proj", config.qkv_bias));
        CHAOS_TRY(layer.key, linear(name + "self_attn.k_proj", config.qkv_bias));
        CHAOS_TRY(layer.value, linear(name + "self_attn.v_proj", config.qkv_bias));
        if (config.head_norm) {
            layer.query_norm = vector(name + "self_attn.q_norm.weight");
            layer.key_norm = vector(name + "self_attn.k_norm.weight");
        }
        CHAOS_TRY(layer.output, linear(name + "self_attn.o_proj", config.output_bias));
        layer.ffn_norm = vector(name + "post_attention_layernorm.weight");
        CHAOS_TRY(layer.gate, linear(name + "mlp.gate_proj", config.ffn_bias));
        CHAOS_TRY(layer.up, linear(name + "mlp.up_proj", config.ffn_bias));
        CHAOS_TRY(layer.down, linear(name + "mlp.down_proj", config.ffn_bias));
        return layer;
    }

private:
    bool is_packed(const TensorShape& shape) const {
        return !shape.vector && (shape.name != "model.embed_tokens.weight" || file_.config().tied_head);
    }

    static bool pack(const StoredTensor& tensor, Format format, std::size_t panel, std::byte* to) {
        const std::uint64_t first = panel * panel_rows;
        const std::uint64_t count = std::min<std::uint64_t>(panel_rows, tensor.rows - first);
        if (!is_kept(tensor.type)) return recode_panel(tensor, first, count, to);
        std::array<const std::byte*, panel_rows> rows{};
        for (std::uint64_t i = 0; i < count; ++i) rows[i] = stored_row(tensor, first + i).data();
        pack_panel(format, tensor.columns, std::span(rows).first(count), to);
        return true;
    }

    const ModelFile& file_;
    Pool& pool_;
    const Progress& progress_;
    std::byte* next_ = nullptr;
    std::uint64_t done_ = 0;
    std::uint64_t total_ = 0;
};

}  // namespace

Result<Model> Model::load(ModelFile file, Pool& pool, const Progress& progress) {
    Model model(std::move(file));
    Loader loader(model.file_, pool, progress);
    CHAOS_TRY(model.memory_, loader.make_room());
    for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
        CHAOS_TRY(auto loaded, loader.layer(layer));
        model.layers_.push_back(std::move(loaded));
    }
    model.final_norm_ = loader.vector("model.norm.weight");
    CHAOS_TRY(model.head_, loader.matrix(model.config().tied_head ? "model.embed_tokens.weight" : "lm_head.weight"));
    return model;
}

void Model::embed(std::int64_t token, std::span<float> out) const {
    const StoredTensor& tensor = file_.tensor("model.embed_tokens.weight");
    decode_row(tensor.type, stored_row(tensor, static_cast<std::uint64_t>(token)), out);
}

}  // namespace chaos::infer
