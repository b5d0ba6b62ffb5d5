#include "infer/model_file.h"

#include "base/words.h"

#include <algorithm>

namespace chaos::infer {
namespace {

StoredType stored_type(state::TensorType type) {
    switch (type) {
        case state::TensorType::f32:
            return StoredType::f32;
        case state::TensorType::f16:
            return StoredType::f16;
        case state::TensorType::bf16:
            return StoredType::bf16;
    }
    CHAOS_ASSERT(!"a type that safetensors do not have");
    return StoredType::f32;
}

std::string shape_text(std::uint64_t rows, std::uint64_t columns) {
    return std::to_string(rows) + " x " + std::to_string(columns);
}

// What converters leave behind and nobody needs: RoPE frequencies follow from the Config, and a tied head is the
// embedding.
bool is_redundant(const std::string& tensor, const Config& config) {
    return tensor.ends_with("rotary_emb.inv_freq") || tensor.ends_with("attn_rot_embd") ||
           tensor == "rope_freqs.weight" || (config.tied_head && tensor == "lm_head.weight");
}

// name-00002-of-00003.gguf: opened with the first (gguf.h).
bool is_later_part(std::string_view name) {
    constexpr std::string_view form = "-00001-of-00003.gguf";
    if (name.size() < form.size()) return false;
    const std::string_view ending = name.substr(name.size() - form.size());
    const auto is_digit = [](char each) { return each >= '0' && each <= '9'; };
    for (std::size_t i = 0; i < form.size(); ++i)
        if (is_digit(form[i]) ? !is_digit(ending[i]) : ending[i] != form[i]) return false;
    return ending.substr(0, 6) != form.substr(0, 6);
}

Result<std::filesystem::path> only_gguf(const std::filesystem::path& folder) {
    CHAOS_TRY(const auto names, list_folder(folder));
    std::vector<std::string> found;
    for (const std::string& name : names)
        if (name.ends_with(".gguf") && !is_later_part(name)) found.push_back(name);
    if (found.empty()) return Error{folder.string() + " is no model: it has neither config.json nor a .gguf file"};
    if (found.size() > 1)
        return Error{folder.string() + " has several .gguf files (" + found[0] + ", " + found[1] + "...): name one"};
    return folder / found[0];
}

}  // namespace

std::uint64_t paired_row(std::uint64_t row, std::uint64_t head_width) {
    const std::uint64_t first = row / head_width * head_width;
    const std::uint64_t within = row % head_width;
    const std::uint64_t half = head_width / 2;
    return first + (within < half ? 2 * within : 2 * (within - half) + 1);
}

std::span<const std::byte> stored_row(const StoredTensor& tensor, std::uint64_t row) {
    CHAOS_ASSERT(tensor.block_columns == 0);
    return stored_row(tensor, row, {0, tensor.columns});
}

ColumnBlock column_block(const StoredTensor& tensor, std::uint64_t column) {
    CHAOS_ASSERT(column < tensor.columns);
    if (tensor.block_columns == 0) return {0, tensor.columns};
    const std::uint64_t first = column / tensor.block_columns * tensor.block_columns;
    return {first, std::min(tensor.block_columns, tensor.columns - first)};
}

std::span<const std::byte> stored_row(const StoredTensor& tensor, std::uint64_t row, const ColumnBlock& block) {
    CHAOS_ASSERT(row < tensor.rows);
    const std::uint64_t bytes = row_bytes(tensor.type, block.columns);
    const std::uint64_t at = tensor.paired_head == 0 ? row : paired_row(row, tensor.paired_head);
    return tensor.bytes.subspan(tensor.rows * row_bytes(tensor.type, block.first) + at * bytes, bytes);
}

std::vector<float> stored_vector(const StoredTensor& tensor) {
    CHAOS_ASSERT(tensor.rows == 1);
    std::vector<float> values(tensor.columns);
    decode_row(tensor.type, tensor.bytes, values);
    if (tensor.paired_head == 0) return values;
    std::vector<float> ordered(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) ordered[i] = values[paired_row(i, tensor.paired_head)];
    return ordered;
}

std::vector<TensorShape> tensors_of(const Config& config) {
    const auto wide = [](std::int64_t extent) { return static_cast<std::uint64_t>(extent); };
    const std::uint64_t width = wide(config.width);
    const std::uint64_t queries = wide(config.query_width());
    const std::uint64_t keys = wide(config.kv_width());
    std::vector<TensorShape> result;
    const auto matrix = [&](const std::string& name, const std::string& gguf_name, std::uint64_t rows,
                            std::uint64_t columns, bool bias, bool paired = false) {
        result.push_back({name + ".weight", gguf_name + ".weight", rows, columns, false, paired});
        if (bias) result.push_back({name + ".bias", gguf_name + ".bias", 1, rows, true, paired});
    };
    const auto norm = [&](const std::string& name, const std::string& gguf_name, std::uint64_t columns) {
        result.push_back({name + ".weight", gguf_name + ".weight", 1, columns, true, false});
    };
    matrix("model.embed_tokens", "token_embd", wide(config.vocab), width, false);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        const std::string here = "model.layers." + std::to_string(layer) + ".";
        const std::string there = "blk." + std::to_string(layer) + ".";
        norm(here + "input_layernorm", there + "attn_norm", width);
        matrix(here + "self_attn.q_proj", there + "attn_q", queries, width, config.qkv_bias, true);
        matrix(here + "self_attn.k_proj", there + "attn_k", keys, width, config.qkv_bias, true);
        matrix(here + "self_attn.v_proj", there + "attn_v", keys, width, config.qkv_bias);
        if (config.head_norm) {
            norm(here + "self_attn.q_norm", there + "attn_q_norm", wide(config.head_width));
            norm(here + "self_attn.k_norm", there + "attn_k_norm", wide(config.head_width));
        }
        matrix(here + "self_attn.o_proj", there + "attn_output", width, queries, config.output_bias);
        norm(here + "post_attention_layernorm", there + "ffn_norm", width);
        matrix(here + "mlp.gate_proj", there + "ffn_gate", wide(config.ffn), width, config.ffn_bias);
        matrix(here + "mlp.up_proj", there + "ffn_up", wide(config.ffn), width, config.ffn_bias);
        matrix(here + "mlp.down_proj", there + "ffn_down", width, wide(config.ffn), config.ffn_bias);
    }
    norm("model.norm", "output_norm", width);
    if (!config.tied_head) matrix("lm_head", "output", wide(config.vocab), width, false);
    return result;
}

Result<ModelFile> ModelFile::open(const std::filesystem::path& path) {
    ModelFile file;
    file.path_ = path;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return Error{path.string() + " does not exist"};
    const bool folder = std::filesystem::is_directory(path, error);
    if (folder && std::filesystem::exists(path / "config.json", error)) {
        CHAOS_CHECK(file.open_folder());
        return file;
    }
    if (folder) {
        CHAOS_TRY(file.path_, only_gguf(path));
    } else if (!Gguf::is_one(path)) {
        return Error{path.string() + " is no model: a folder with config.json or a GGUF file is one"};
    }
    CHAOS_CHECK(file.open_gguf());
    return file;
}

ModelFile ModelFile::of_image(Placed placed) {
    ModelFile file;
    file.path_ = std::move(placed.path);
    file.weight_paths_ = {std::move(placed.image_path)};
    file.config_ = std::move(placed.config);
    file.tensors_ = std::move(placed.tensors);
    file.gguf_ = std::move(placed.text);
    file.image_ = std::move(placed.image);
    file.identity_ = placed.identity;
    return file;
}

Result<void> ModelFile::open_folder() {
    CHAOS_TRY(config_, read_config(path_));
    CHAOS_TRY(weight_paths_, state::weight_files(path_));
    std::map<std::string, StoredTensor, std::less<>> found;
    for (const auto& path : weight_paths_) {
        CHAOS_TRY(auto file, state::Safetensors::open(path));
        for (const auto& [name, entry] : file.tensors()) {
            StoredTensor tensor;
            tensor.type = stored_type(entry.type);
            tensor.bytes = entry.bytes;
            if (entry.shape.empty() || entry.shape.size() > 2)
                return Error{path.string() + ": tensor " + printable(name) + " is neither a vector nor a matrix"};
            tensor.columns = static_cast<std::uint64_t>(entry.shape.back());
            if (entry.shape.size() == 2) tensor.rows = static_cast<std::uint64_t>(entry.shape[0]);
            if (!found.emplace(name, tensor).second)
                return Error{path.string() + ": tensor " + printable(name) + " appears twice"};
        }
        safetensors_.push_back(std::move(file));
    }
    return check(std::move(found), false);
}

Result<void> ModelFile::open_gguf() {
    CHAOS_TRY(gguf_, Gguf::open(path_));
    weight_paths_ = gguf_->paths();
    CHAOS_TRY(config_, read_config(*gguf_));
    std::map<std::string, StoredTensor, std::less<>> found;
    for (const auto& [name, entry] : gguf_->tensors()) {
        StoredTensor tensor;
        tensor.type = entry.type;
        tensor.bytes = entry.bytes;
        if (entry.extents.size() > 2)
            return Error{path_.string() + ": tensor " + printable(name) + " is neither a vector nor a matrix"};
        tensor.columns = entry.extents[0];
        if (entry.extents.size() == 2) tensor.rows = entry.extents[1];
        found.emplace(name, tensor);
    }
    return check(std::move(found), true);
}

Result<void> ModelFile::check(std::map<std::string, StoredTensor, std::less<>> found, bool gguf_names) {
    for (const TensorShape& shape : tensors_of(config_)) {
        const std::string& name = gguf_names ? shape.gguf_name : shape.name;
        const auto entry = found.find(name);
        if (entry == found.end()) return Error{path_.string() + " lacks the tensor " + name};
        StoredTensor tensor = entry->second;
        if (tensor.rows != shape.rows || tensor.columns != shape.columns)
            return Error{path_.string() + ": tensor " + name + " is " + shape_text(tensor.rows, tensor.columns) +
                         ", its configuration asks for " + shape_text(shape.rows, shape.columns)};
        if (shape.paired && gguf_names && config_.kind == "llama")
            tensor.paired_head = static_cast<std::uint64_t>(config_.head_width);
        tensors_.emplace(shape.name, tensor);
        found.erase(entry);
    }
    for (const auto& [name, tensor] : found)
        if (!is_redundant(name, config_))
            return Error{path_.string() + ": tensor " + printable(name) + " is not part of such a " + config_.kind +
                         " model, or not supported"};
    return {};
}

const StoredTensor& ModelFile::tensor(std::string_view name) const {
    const auto found = tensors_.find(name);
    CHAOS_ASSERT(found != tensors_.end());
    return found->second;
}

std::uint64_t ModelFile::bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, tensor] : tensors_) sum += tensor.bytes.size();
    return sum;
}

}  // namespace chaos::infer
