#include "infer/packing.h"

#include "base/assert.h"
#include "base/file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <string_view>

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

// Columns of a slice that lie together in the file.
struct Columns {
    ColumnBlock block;
    std::uint64_t first = 0;  // of the slice's that are in the block
    std::uint64_t count = 0;
};

// One panel's rows in another format than the file's; false where a value is not finite, which has no rounding.
bool recode_panel(const StoredTensor& stored, const Columns& columns, std::uint64_t first, std::uint64_t count,
                  std::byte* panel) {
    std::vector<float> values(columns.block.columns);
    const std::uint64_t bytes = row_bytes(StoredType::q8_0, columns.count);
    std::vector<std::byte> recoded(count * bytes);
    std::array<const std::byte*, panel_rows> rows{};
    for (std::uint64_t i = 0; i < count; ++i) {
        decode_row(stored.type, stored_row(stored, first + i, columns.block), values);
        const std::span<const float> ours =
            std::span(values).subspan(columns.first - columns.block.first, columns.count);
        if (!std::all_of(ours.begin(), ours.end(), [](float value) { return std::isfinite(value); })) return false;
        encode_row(StoredType::q8_0, ours, std::span(recoded).subspan(i * bytes, bytes));
        rows[i] = recoded.data() + i * bytes;
    }
    pack_panel(Format::q8_0, columns.count, std::span(rows).first(count), panel);
    return true;
}

void copy_panel(const StoredTensor& stored, const Columns& columns, std::uint64_t first, std::uint64_t count,
                Format format, std::byte* panel) {
    const std::uint64_t skipped = row_bytes(stored.type, columns.first - columns.block.first);
    std::array<const std::byte*, panel_rows> rows{};
    for (std::uint64_t i = 0; i < count; ++i) rows[i] = stored_row(stored, first + i, columns.block).data() + skipped;
    pack_panel(format, columns.count, std::span(rows).first(count), panel);
}

// A panel's columns follow each other, so blocks of columns can be packed one by one.
bool pack_one(const StoredTensor& stored, const PackedTensor& tensor, std::size_t panel, std::byte* to) {
    const std::uint64_t first = tensor.first_row + panel * panel_rows;
    const std::uint64_t count = std::min<std::uint64_t>(panel_rows, tensor.shape.rows - panel * panel_rows);
    const std::uint64_t end = tensor.first_column + tensor.shape.columns;
    for (std::uint64_t column = tensor.first_column; column < end;) {
        Columns columns{.block = column_block(stored, column), .first = column, .count = 0};
        columns.count = std::min(end, columns.block.first + columns.block.columns) - column;
        if (is_kept(stored.type)) {
            copy_panel(stored, columns, first, count, tensor.shape.format, to);
        } else if (!recode_panel(stored, columns, first, count, to)) {
            return false;
        }
        to += panel_bytes(tensor.shape.format, columns.count);
        column += columns.count;
    }
    return true;
}

// Rows that were packed are not needed any more.
void release_rows(const StoredTensor& stored, const PackedTensor& tensor, std::uint64_t first, std::uint64_t count) {
    if (stored.block_columns != 0) return release_mapped(stored.bytes);  // neighbours share pages: all or nothing
    const std::uint64_t row = row_bytes(stored.type, stored.columns);
    release_mapped(stored.bytes.subspan((tensor.first_row + first) * row, count * row));
}

Extent times(const Extent& extent, std::int64_t factor) {
    return {extent.first * factor, extent.count * factor};
}

// What a slice has of a matrix: some of its rows, or some of its columns.
struct Cut {
    std::string_view ending;  // of the matrix's name
    Extent rows;
    Extent columns;
};

}  // namespace

std::vector<PackedTensor> packed_tensors(const ModelFile& file, const Slice& slice) {
    const Config& config = file.config();
    const Extent queries = times(slice.heads, config.head_width);
    const Extent keys = times(kv_heads_of(config, slice), config.head_width);
    const Extent all = {0, config.width};
    const std::array cuts = {Cut{"q_proj.weight", queries, all},
                             Cut{"k_proj.weight", keys, all},
                             Cut{"v_proj.weight", keys, all},
                             Cut{"o_proj.weight", all, queries},
                             Cut{"gate_proj.weight", slice.ffn, all},
                             Cut{"up_proj.weight", slice.ffn, all},
                             Cut{"down_proj.weight", all, slice.ffn},
                             Cut{"lm_head.weight", slice.vocab, all},
                             Cut{"embed_tokens.weight", slice.vocab, all}};
    std::vector<PackedTensor> result;
    std::uint64_t offset = 0;
    const auto add = [&](const std::string& name) {
        const auto* const cut =
            std::find_if(cuts.begin(), cuts.end(), [&](const Cut& each) { return name.ends_with(each.ending); });
        CHAOS_ASSERT(cut != cuts.end());
        const bool nothing = cut->rows.count == 0 || cut->columns.count == 0;
        const Matrix shape{format_of(file.tensor(name).type), nothing ? 0 : static_cast<std::size_t>(cut->rows.count),
                           static_cast<std::size_t>(cut->columns.count), nullptr};
        result.push_back({name, shape, offset, static_cast<std::uint64_t>(cut->rows.first),
                          static_cast<std::uint64_t>(cut->columns.first)});
        if (!nothing) offset += packed_bytes(shape.format, shape.rows, shape.columns);
    };
    for (const TensorShape& shape : tensors_of(config))
        if (!shape.vector && shape.name != "model.embed_tokens.weight") add(shape.name);
    if (config.tied_head) add("model.embed_tokens.weight");
    return result;
}

std::vector<PackedTensor> packed_tensors(const ModelFile& file) {
    return packed_tensors(file, whole(file.config()));
}

std::uint64_t packed_bytes(std::span<const PackedTensor> tensors) {
    const PackedTensor& last = tensors.back();
    return last.offset + packed_bytes(last.shape.format, last.shape.rows, last.shape.columns);
}

std::size_t panels_at_once(const PackedTensor& tensor) {
    if (tensor.shape.columns == 0) return 1;
    return std::max<std::size_t>(1, step_bytes / panel_bytes(tensor.shape.format, tensor.shape.columns));
}

Result<void> pack_panels(const ModelFile& file, const PackedTensor& tensor, std::size_t first, std::size_t count,
                         Pool& pool, std::byte* to) {
    const StoredTensor& stored = file.tensor(tensor.name);
    const std::size_t bytes = panel_bytes(tensor.shape.format, tensor.shape.columns);
    std::atomic<bool> finite = true;
    pool.run(count, [&](std::size_t i) {
        if (!pack_one(stored, tensor, first + i, to + i * bytes)) finite = false;
    });
    if (!finite) return Error{file.path().string() + ": tensor " + tensor.name + " holds values that are not finite"};
    const std::uint64_t begin = first * panel_rows;
    release_rows(stored, tensor, begin, std::min<std::uint64_t>(count * panel_rows, tensor.shape.rows - begin));
    return {};
}

}  // namespace chaos::infer
