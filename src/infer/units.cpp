#include "infer/units.h"

#include "base/assert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <string_view>

namespace chaos::infer {
namespace {

constexpr std::array text_names = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                   "additional_chat_templates/tool_use.jinja", gguf_text_name};
constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t max_image_bytes = std::uint64_t{1} << 44;
constexpr std::uint64_t least_unit_bytes = 1024;
constexpr std::uint64_t most_unit_bytes = 4 << 20;
constexpr std::uint64_t usual_units = max_units / 2;

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t to) {
    return (value + to - 1) / to * to;
}

// What divides a matrix between slices.
enum class Divided : std::uint8_t { query_rows, key_rows, ffn_rows, vocab_rows, query_columns, ffn_columns, nothing };

Divided divided(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, Divided>, 9> kinds = {{
        {"q_proj.weight", Divided::query_rows},
        {"k_proj.weight", Divided::key_rows},
        {"v_proj.weight", Divided::key_rows},
        {"o_proj.weight", Divided::query_columns},
        {"gate_proj.weight", Divided::ffn_rows},
        {"up_proj.weight", Divided::ffn_rows},
        {"down_proj.weight", Divided::ffn_columns},
        {"lm_head.weight", Divided::vocab_rows},
        {"embed_tokens.weight", Divided::nothing},
    }};
    const auto* const found = std::ranges::find_if(kinds, [&](const auto& each) { return name.ends_with(each.first); });
    CHAOS_ASSERT(found != kinds.end());
    return found->second;
}

// Rows or columns that a division keeps together.
std::uint64_t together(const Config& config, Divided what) {
    switch (what) {
        case Divided::query_rows:
        case Divided::query_columns:
            return static_cast<std::uint64_t>(head_unit(config) * config.head_width);
        case Divided::key_rows:
            return static_cast<std::uint64_t>(config.head_width);
        case Divided::ffn_rows:
        case Divided::ffn_columns:
            return static_cast<std::uint64_t>(ffn_unit(config));
        case Divided::vocab_rows:
        case Divided::nothing:
            return 1;
    }
    return 1;
}

bool by_columns(Divided what) {
    return what == Divided::query_columns || what == Divided::ffn_columns;
}

// Bytes of a matrix's image before a column where a block begins, or behind the last.
std::uint64_t bytes_before_column(const StoredTensor& tensor, std::uint64_t column) {
    return tensor.rows * row_bytes(tensor.type, column);
}

Result<void> check_outline(const Outline& outline, std::span<const TensorShape> shapes) {
    if (outline.types.size() != shapes.size())
        return Error{"a model of that kind has " + std::to_string(shapes.size()) + " tensors, not " +
                     std::to_string(outline.types.size())};
    for (std::size_t i = 0; i < shapes.size(); ++i)
        if (shapes[i].columns % blocks_of(outline.types[i]).columns != 0)
            return Error{"tensor " + shapes[i].name + " cannot be of type " +
                         std::string(blocks_of(outline.types[i]).name)};
    if (outline.unit_bytes < least_unit_bytes || outline.unit_bytes > most_unit_bytes)
        return Error{"units of " + std::to_string(outline.unit_bytes) + " bytes are not supported"};
    std::uint64_t text_bytes = 0;
    for (std::size_t i = 0; i < outline.texts.size(); ++i) {
        const TextFile& text = outline.texts[i];
        const auto same = [&](const TextFile& other) { return other.name == text.name; };
        if (std::ranges::find(text_names, std::string_view(text.name)) == text_names.end() ||
            std::ranges::count_if(outline.texts, same) != 1 || text.bytes > max_text_bytes)
            return Error{"the texts of the model make no sense"};
        text_bytes += text.bytes;
    }
    if (text_bytes > max_text_bytes) return Error{"tokenizer and chat template have more than 64 MiB"};
    return {};
}

class Maker {
public:
    explicit Maker(Outline outline) { layout_.outline = std::move(outline); }

    Result<Layout> make() {
        const std::vector<TensorShape> shapes = tensors_of(layout_.outline.config);
        CHAOS_CHECK(check_outline(layout_.outline, shapes));
        place_vectors(shapes);
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            if (shapes[i].vector) continue;
            CHAOS_CHECK(place_matrix(shapes[i], layout_.outline.types[i]));
        }
        CHAOS_CHECK(place_texts());
        return std::move(layout_);
    }

private:
    // The tensors of a layer are neighbours in shapes.
    void place_vectors(std::span<const TensorShape> shapes) {
        const auto layer_of = [](const std::string& name) {
            constexpr std::string_view before = "model.layers.";
            return name.starts_with(before) ? name.substr(0, name.find('.', before.size())) : name;
        };
        std::string layer;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            if (!shapes[i].vector) continue;
            const StoredTensor stored = stored_of(shapes[i], layout_.outline.types[i]);
            const std::uint64_t bytes = row_bytes(stored.type, stored.columns);
            if (layer_of(shapes[i].name) == layer) {
                layout_.units.back().bytes += bytes;
            } else {
                layer = layer_of(shapes[i].name);
                layout_.units.push_back({layout_.bytes, bytes});
            }
            add(shapes[i], stored, bytes);
        }
    }

    Result<void> place_matrix(const TensorShape& shape, StoredType type) {
        const Config& config = layout_.outline.config;
        const Divided what = divided(shape.name);
        StoredTensor stored = stored_of(shape, type);
        std::uint64_t grain = 0;
        if (by_columns(what)) {
            stored.block_columns = std::min<std::uint64_t>(
                std::lcm(together(config, what), std::uint64_t{blocks_of(type).columns}), stored.columns);
            grain = bytes_before_column(stored, stored.block_columns);
        } else {
            grain = together(config, what) * row_bytes(type, stored.columns);
        }
        layout_.bytes = rounded_up(layout_.bytes, page_bytes);
        const std::uint64_t bytes = bytes_before_column(stored, stored.columns);
        CHAOS_CHECK(cut(bytes, grain));
        add(shape, stored, bytes);
        return {};
    }

    Result<void> place_texts() {
        for (const TextFile& text : layout_.outline.texts) {
            layout_.bytes = rounded_up(layout_.bytes, page_bytes);
            CHAOS_CHECK(cut(text.bytes, 1));
            layout_.texts.push_back({text.name, layout_.bytes, text.bytes});
            layout_.bytes += text.bytes;
        }
        return {};
    }

    // So many bytes from here on into units, along the grain where that can be.
    Result<void> cut(std::uint64_t bytes, std::uint64_t grain) {
        const std::uint64_t most = layout_.outline.unit_bytes;
        // Units have at least half of what they may have, but for the last.
        if (layout_.bytes + bytes > max_image_bytes || layout_.units.size() + 2 * bytes / most + 1 > max_units)
            return Error{"the model is larger than any that is supported"};
        const auto in_steps = [&](std::uint64_t first, std::uint64_t end, std::uint64_t step) {
            for (; first < end; first += step)
                layout_.units.push_back({layout_.bytes + first, std::min(step, end - first)});
        };
        if (grain <= most) {
            in_steps(0, bytes, grain * std::bit_floor(most / grain));
            return {};
        }
        const std::uint64_t pieces = (grain + most - 1) / most;
        for (std::uint64_t first = 0; first < bytes; first += grain)
            in_steps(first, std::min(first + grain, bytes), (grain + pieces - 1) / pieces);
        return {};
    }

    [[nodiscard]] StoredTensor stored_of(const TensorShape& shape, StoredType type) const {
        StoredTensor stored;
        stored.type = type;
        stored.rows = shape.rows;
        stored.columns = shape.columns;
        if (shape.paired && layout_.outline.paired)
            stored.paired_head = static_cast<std::uint64_t>(layout_.outline.config.head_width);
        return stored;
    }

    void add(const TensorShape& shape, const StoredTensor& stored, std::uint64_t bytes) {
        layout_.tensors.push_back({shape, stored, layout_.bytes, bytes});
        layout_.bytes += bytes;
    }

    Layout layout_;
};

// What a slice needs of a matrix: a range of its image.
Unit range_of(const PlacedTensor& tensor, const Config& config, const Slice& slice) {
    const auto bytes_of_rows = [&](const Extent& extent, std::int64_t rows_each) -> Unit {
        const std::uint64_t each =
            row_bytes(tensor.stored.type, tensor.stored.columns) * static_cast<std::uint64_t>(rows_each);
        return {tensor.offset + static_cast<std::uint64_t>(extent.first) * each,
                static_cast<std::uint64_t>(extent.count) * each};
    };
    const auto bytes_of_columns = [&](const Extent& extent, std::int64_t columns_each) -> Unit {
        const auto first = static_cast<std::uint64_t>(extent.first * columns_each);
        const auto end = static_cast<std::uint64_t>(extent.end() * columns_each);
        if (first == end) return {};
        const std::uint64_t block = tensor.stored.block_columns;
        const std::uint64_t begin = bytes_before_column(tensor.stored, first / block * block);
        const std::uint64_t behind =
            bytes_before_column(tensor.stored, std::min(rounded_up(end, block), tensor.stored.columns));
        return {tensor.offset + begin, behind - begin};
    };
    switch (divided(tensor.shape.name)) {
        case Divided::query_rows:
            return bytes_of_rows(slice.heads, config.head_width);
        case Divided::key_rows:
            return bytes_of_rows(kv_heads_of(config, slice), config.head_width);
        case Divided::ffn_rows:
            return bytes_of_rows(slice.ffn, 1);
        case Divided::vocab_rows:
            return bytes_of_rows(slice.vocab, 1);
        case Divided::query_columns:
            return bytes_of_columns(slice.heads, config.head_width);
        case Divided::ffn_columns:
            return bytes_of_columns(slice.ffn, 1);
        case Divided::nothing:
            break;
    }
    return {tensor.offset, tensor.bytes};
}

// The image's bytes [first, first + to.size()) of a tensor out of the model's own file.
void gather(const StoredTensor& own, const StoredTensor& wanted, std::uint64_t first, std::span<std::byte> to) {
    if (wanted.block_columns == 0) {
        std::memcpy(to.data(), own.bytes.data() + first, to.size());
        return;
    }
    while (!to.empty()) {
        const std::uint64_t block = first / bytes_before_column(wanted, wanted.block_columns);
        const std::uint64_t column = block * wanted.block_columns;
        const std::uint64_t row = row_bytes(wanted.type, std::min(wanted.block_columns, wanted.columns - column));
        const std::uint64_t within = first - bytes_before_column(wanted, column);
        const std::span<const std::byte> from =
            stored_row(own, within / row).subspan(row_bytes(own.type, column) + within % row);
        const std::size_t count = std::min<std::size_t>(row - within % row, to.size());
        std::memcpy(to.data(), from.data(), count);
        to = to.subspan(count);
        first += count;
    }
}

}  // namespace

std::uint64_t unit_bytes_for(std::uint64_t model_bytes) {
    std::uint64_t bytes = default_unit_bytes;
    while (bytes < most_unit_bytes && model_bytes / bytes > usual_units) bytes *= 2;
    return bytes;
}

std::span<const char* const> text_file_names() {
    return text_names;
}

Result<Layout> layout_of(Outline outline) {
    return Maker(std::move(outline)).make();
}

namespace {

// Marks those that have something of a range of the image.
void need(const Layout& layout, const Unit& range, std::vector<bool>& needed) {
    if (range.bytes == 0) return;
    auto unit = std::ranges::upper_bound(layout.units, range.offset, {}, &Unit::offset) - layout.units.begin() - 1;
    for (; unit < std::ssize(layout.units) && layout.units[static_cast<std::size_t>(unit)].offset < range.end(); ++unit)
        needed[static_cast<std::size_t>(unit)] = true;
}

}  // namespace

std::vector<bool> units_of_slice(const Layout& layout, const Slice& slice) {
    std::vector<bool> needed = units_of_texts(layout);
    for (const PlacedTensor& tensor : layout.tensors)
        need(layout,
             tensor.shape.vector ? Unit{tensor.offset, tensor.bytes} : range_of(tensor, layout.outline.config, slice),
             needed);
    return needed;
}

std::vector<bool> units_of_texts(const Layout& layout) {
    std::vector<bool> needed(layout.units.size());
    for (const PlacedText& text : layout.texts) need(layout, {text.offset, text.bytes}, needed);
    return needed;
}

std::uint64_t bytes_of(const Layout& layout, const std::vector<bool>& units) {
    std::uint64_t bytes = 0;
    for (std::size_t unit = 0; unit < units.size(); ++unit) bytes += units[unit] ? layout.units[unit].bytes : 0;
    return bytes;
}

std::span<const std::byte> FileUnits::Text::bytes() const {
    return found.empty() ? std::as_bytes(std::span(made)) : found.front().bytes();
}

Result<FileUnits> FileUnits::open(const ModelFile& file, std::uint64_t unit_bytes) {
    FileUnits units;
    Outline outline{.config = file.config(), .paired = false, .types = {}, .texts = {}, .unit_bytes = unit_bytes};
    for (const TensorShape& shape : tensors_of(file.config())) {
        outline.types.push_back(file.tensor(shape.name).type);
        outline.paired = outline.paired || file.tensor(shape.name).paired_head != 0;
    }
    if (file.gguf() != nullptr) {
        GgufMetadata metadata;
        for (const auto& [key, value] : file.gguf()->metadata())
            if (key.starts_with("tokenizer.")) metadata.emplace(key, value);
        units.texts_.push_back({.made = gguf_without_tensors(metadata), .found = {}});
        outline.texts.push_back({gguf_text_name, units.texts_.back().bytes().size()});
    } else {
        for (const char* name : text_names) {
            std::error_code error;
            if (!std::filesystem::exists(file.path() / name, error)) continue;
            Text text;
            CHAOS_TRY(MappedFile found, MappedFile::open(file.path() / name));
            text.found.push_back(std::move(found));
            outline.texts.push_back({name, text.bytes().size()});
            units.texts_.push_back(std::move(text));
        }
    }
    CHAOS_TRY(units.layout_, layout_of(std::move(outline)));
    for (const PlacedTensor& tensor : units.layout_.tensors) units.tensors_.push_back(file.tensor(tensor.shape.name));
    return units;
}

Result<void> FileUnits::read(std::size_t unit, std::span<std::byte> to) const {
    const Unit& wanted = layout_.units[unit];
    CHAOS_ASSERT(to.size() == wanted.bytes);
    // Tensors and texts by offset; a unit has all of some of them, or a part of one.
    std::uint64_t at = wanted.offset;
    while (at < wanted.end()) {
        const std::span<std::byte> rest = to.subspan(at - wanted.offset);
        const auto holds = [&](const auto& each) { return each.offset <= at && at < each.offset + each.bytes; };
        if (const auto tensor =
                std::ranges::upper_bound(layout_.tensors, at, {}, &PlacedTensor::offset) - layout_.tensors.begin() - 1;
            tensor >= 0 && holds(layout_.tensors[static_cast<std::size_t>(tensor)])) {
            const PlacedTensor& placed = layout_.tensors[static_cast<std::size_t>(tensor)];
            const std::size_t count = std::min<std::size_t>(placed.offset + placed.bytes - at, rest.size());
            gather(tensors_[static_cast<std::size_t>(tensor)], placed.stored, at - placed.offset, rest.first(count));
            at += count;
        } else {
            const auto text = std::ranges::find_if(layout_.texts, holds);
            CHAOS_ASSERT(text != layout_.texts.end());
            const auto which = static_cast<std::size_t>(text - layout_.texts.begin());
            const std::size_t count = std::min<std::size_t>(text->offset + text->bytes - at, rest.size());
            std::memcpy(rest.data(), texts_[which].bytes().data() + (at - text->offset), count);
            at += count;
        }
    }
    return {};
}

void FileUnits::release() const {
    for (const StoredTensor& tensor : tensors_) release_mapped(tensor.bytes);
}

}  // namespace chaos::infer
