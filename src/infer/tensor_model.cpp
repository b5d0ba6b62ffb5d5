#include "infer/tensor_model.h"

#include "infer/engine.h"
#include "infer/model_file.h"
#include "infer/window_plan.h"

#include <algorithm>
#include <string_view>

namespace chaos::infer {
namespace {

constexpr std::int64_t max_vocab_units = 1024;

std::size_t size_of(std::int64_t count) {
    return static_cast<std::size_t>(count);
}

std::int64_t units_of(std::int64_t count, std::int64_t unit) {
    return (count + unit - 1) / unit;
}

// Norms and biases are floats that everybody has whole.
std::uint64_t vector_bytes(const Config& config) {
    std::uint64_t bytes = 0;
    for (const TensorShape& shape : tensors_of(config))
        if (shape.vector) bytes += shape.columns * sizeof(float);
    return bytes;
}

}  // namespace

TensorUnits tensor_units(const Config& config) {
    TensorUnits units;
    units.heads = head_unit(config);
    if (config.heads % units.heads != 0) units.heads = config.heads;
    units.ffn_columns = ffn_unit(config);
    const auto panel = static_cast<std::int64_t>(panel_rows);
    units.vocab_rows = panel * units_of(config.vocab, panel * max_vocab_units);
    return units;
}

std::vector<PackedTensor> packed_tensors(const Config& config, Format format) {
    std::vector<PackedTensor> result;
    std::uint64_t offset = 0;
    for (const TensorShape& shape : tensors_of(config)) {
        if (shape.vector || (shape.name == "model.embed_tokens.weight" && !config.tied_head)) continue;
        const Format kept = fits(format, shape.columns) ? format : Format::f16;
        result.push_back({shape.name, {kept, shape.rows, shape.columns, nullptr}, offset});
        offset += packed_bytes(kept, shape.rows, shape.columns);
    }
    return result;
}

plan::TensorModel tensor_model(const Config& config, std::span<const PackedTensor> tensors, const TensorUse& use) {
    const TensorUnits units = tensor_units(config);
    plan::TensorModel model;
    model.layers = size_of(config.layers);
    model.heads = size_of(config.heads);
    model.kv_heads = size_of(config.kv_heads);
    model.head_unit = size_of(units.heads);
    model.ffn_units = size_of(units_of(config.ffn, units.ffn_columns));
    model.vocab_units = size_of(units_of(config.vocab, units.vocab_rows));
    model.width = size_of(config.width);

    // Bytes of all layers first. Rows of a matrix are divided, or its columns where it is multiplied with what the
    // members have computed each for itself.
    const std::size_t query_columns = size_of(units.heads * config.head_width);
    const std::size_t ffn_columns = size_of(std::min(units.ffn_columns, config.ffn));
    std::uint64_t largest_panel = 0;
    for (const PackedTensor& tensor : tensors) {
        const std::string_view name = tensor.name;
        const auto is = [&](std::string_view kind) { return name.find(kind) != std::string_view::npos; };
        const Format format = tensor.shape.format;
        const auto rows = [&](std::size_t count) { return packed_bytes(format, count, tensor.shape.columns); };
        const auto columns = [&](std::size_t count) { return packed_bytes(format, tensor.shape.rows, count); };
        largest_panel = std::max<std::uint64_t>(largest_panel, panel_bytes(format, tensor.shape.columns));
        if (is("q_proj"))
            model.query_head_bytes += rows(query_columns);
        else if (is("o_proj"))
            model.query_head_bytes += columns(query_columns);
        else if (is("k_proj") || is("v_proj"))
            model.kv_head_bytes += rows(size_of(config.head_width));
        else if (is("gate_proj") || is("up_proj"))
            model.ffn_unit_bytes += rows(ffn_columns);
        else if (is("down_proj"))
            model.ffn_unit_bytes += columns(ffn_columns);
        else
            model.vocab_unit_bytes += rows(size_of(std::min(units.vocab_rows, config.vocab)));
    }
    model.query_head_bytes = plan::ceil_div(model.query_head_bytes, model.layers * model.head_unit);
    model.kv_head_bytes = plan::ceil_div(model.kv_head_bytes, model.layers);
    model.ffn_unit_bytes = plan::ceil_div(model.ffn_unit_bytes, model.layers);

    model.cache_bytes = use.sequences * KvCache::bytes(config, use.context, use.kv) / (model.layers * model.kv_heads);
    model.everywhere_bytes = vector_bytes(config) + Engine::bytes(config, use.batch, use.sequences);
    // A slot begins and ends with whole blocks of the disk.
    model.ring_bytes = max_slots * (std::max(default_part_bytes, largest_panel) + 2 * direct_read_bytes);
    return model;
}

plan::TensorRequest tensor_request(const Config& config, std::span<const PackedTensor> tensors, const TensorUse& use,
                                   std::size_t devices) {
    plan::TensorRequest request;
    request.model = tensor_model(config, tensors, use);
    request.whole_heads = true;
    // Most texts are drawn from all logits; each device tells its part of them.
    request.candidate_bytes = size_of(config.vocab) * sizeof(float) / std::max<std::size_t>(devices, 1);
    return request;
}

Slice slice_of(const Config& config, const plan::TensorShare& share) {
    const TensorUnits units = tensor_units(config);
    const auto extent = [](const plan::UnitRange& range, std::int64_t unit, std::int64_t all) {
        const auto at = [&](std::uint64_t place) { return std::min(static_cast<std::int64_t>(place) * unit, all); };
        return Extent{at(range.first), at(range.first + range.count) - at(range.first)};
    };
    return {.heads = extent(share.heads, 1, config.heads),
            .ffn = extent(share.ffn, units.ffn_columns, config.ffn),
            .vocab = extent(share.vocab, units.vocab_rows, config.vocab)};
}

}  // namespace chaos::infer
