#include "infer/packing.h"

#include "base/file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

namespace chaos::infer {
namespace {

constexpr std::size_t step_bytes = std::size_t{4} << 20;

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

bool pack_one(const StoredTensor& tensor, Format format, std::size_t panel, std::byte* to) {
    const std::uint64_t first = panel * panel_rows;
    const std::uint64_t count = std::min<std::uint64_t>(panel_rows, tensor.rows - first);
    if (!is_kept(tensor.type)) return recode_panel(tensor, first, count, to);
    std::array<const std::byte*, panel_rows> rows{};
    for (std::uint64_t i = 0; i < count; ++i) rows[i] = stored_row(tensor, first + i).data();
    pack_panel(format, tensor.columns, std::span(rows).first(count), to);
    return true;
}

}  // namespace

std::vector<PackedTensor> packed_tensors(const ModelFile& file) {
    std::vector<PackedTensor> result;
    std::uint64_t offset = 0;
    const auto add = [&](const std::string& name) {
        const StoredTensor& tensor = file.tensor(name);
        const Matrix shape{format_of(tensor.type), tensor.rows, tensor.columns, nullptr};
        result.push_back({name, shape, offset});
        offset += packed_bytes(shape.format, shape.rows, shape.columns);
    };
    for (const TensorShape& shape : tensors_of(file.config()))
        if (!shape.vector && shape.name != "model.embed_tokens.weight") add(shape.name);
    if (file.config().tied_head) add("model.embed_tokens.weight");
    return result;
}

std::uint64_t packed_bytes(std::span<const PackedTensor> tensors) {
    const PackedTensor& last = tensors.back();
    return last.offset + packed_bytes(last.shape.format, last.shape.rows, last.shape.columns);
}

std::size_t panels_at_once(const PackedTensor& tensor) {
    return std::max<std::size_t>(1, step_bytes / panel_bytes(tensor.shape.format, tensor.shape.columns));
}

Result<void> pack_panels(const ModelFile& file, const PackedTensor& tensor, std::size_t first, std::size_t count,
                         Pool& pool, std::byte* to) {
    const StoredTensor& stored = file.tensor(tensor.name);
    const std::size_t bytes = panel_bytes(tensor.shape.format, tensor.shape.columns);
    std::atomic<bool> finite = true;
    pool.run(count, [&](std::size_t i) {
        if (!pack_one(stored, tensor.shape.format, first + i, to + i * bytes)) finite = false;
    });
    if (!finite) return Error{file.path().string() + ": tensor " + tensor.name + " holds values that are not finite"};
    const std::uint64_t row = row_bytes(stored.type, stored.columns);
    const std::uint64_t rows = std::min<std::uint64_t>(count * panel_rows, stored.rows - first * panel_rows);
    release_mapped(stored.bytes.subspan(first * panel_rows * row, rows * row));
    return {};
}

}  // namespace chaos::infer
