#include "infer/gguf.h"

#include "base/words.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>

namespace chaos::infer {
namespace {

constexpr std::array<char, 4> magic = {'G', 'G', 'U', 'F'};
constexpr std::uint64_t default_alignment = 32;
constexpr std::uint64_t max_alignment = 1U << 20;
constexpr std::uint32_t max_extents = 4;

// The types of tensors that are known by name, for who meets one we cannot read.
std::string type_name(std::uint32_t type) {
    constexpr std::array<std::string_view, 40> names = {
        "F32",      "F16",      "Q4_0",    "Q4_1",  "Q4_2",       "Q4_3",       "Q5_0",       "Q5_1",
        "Q8_0",     "Q8_1",     "Q2_K",    "Q3_K",  "Q4_K",       "Q5_K",       "Q6_K",       "Q8_K",
        "IQ2_XXS",  "IQ2_XS",   "IQ3_XXS", "IQ1_S", "IQ4_NL",     "IQ3_S",      "IQ2_S",      "IQ4_XS",
        "I8",       "I16",      "I32",     "I64",   "F64",        "IQ1_M",      "BF16",       "Q4_0_4_4",
        "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4"};
    return type < names.size() ? std::string(names[type]) : "number " + std::to_string(type);
}

// Takes numbers and strings off the front of a file, as long as there is enough of it.
class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <class T>
    [[nodiscard]] Result<T> number() {
        if (left() < sizeof(T)) return cut();
        T value;
        std::memcpy(&value, bytes_.data() + at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }
    [[nodiscard]] Result<std::string> text(std::uint64_t most) {
        CHAOS_TRY(const auto size, number<std::uint64_t>());
        if (size > left()) return cut();
        if (size > most) return Error{"a name of " + std::to_string(size) + " bytes is too long"};
        std::string value(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
        at_ += size;
        return value;
    }
    [[nodiscard]] std::uint64_t left() const { return bytes_.size() - at_; }
    [[nodiscard]] std::uint64_t at() const { return at_; }
    static Error cut() { return Error{"the file ends too early: it is truncated, or a length in it is wrong"}; }

private:
    std::span<const std::byte> bytes_;
    std::uint64_t at_ = 0;
};

static_assert(std::endian::native == std::endian::little, "GGUF numbers are copied as they lie");

std::uint64_t bytes_of(GgufType type) {
    switch (type) {
        case GgufType::u8:
        case GgufType::i8:
        case GgufType::flag:
            return 1;
        case GgufType::u16:
        case GgufType::i16:
            return 2;
        case GgufType::u32:
        case GgufType::i32:
        case GgufType::f32:
            return 4;
        case GgufType::u64:
        case GgufType::i64:
        case GgufType::f64:
        case GgufType::text:
            return 8;  // a text has its length at least
        case GgufType::array:
            break;
    }
    return 12;
}

bool is_real(GgufType type) {
    return type == GgufType::f32 || type == GgufType::f64;
}

template <class T>
Result<std::int64_t> widened(Reader& in) {
    CHAOS_TRY(const T value, in.number<T>());
    return static_cast<std::int64_t>(value);
}

Result<std::int64_t> read_whole(Reader& in, GgufType type) {
    switch (type) {
        case GgufType::u8:
            return widened<std::uint8_t>(in);
        case GgufType::i8:
            return widened<std::int8_t>(in);
        case GgufType::u16:
            return widened<std::uint16_t>(in);
        case GgufType::i16:
            return widened<std::int16_t>(in);
        case GgufType::u32:
            return widened<std::uint32_t>(in);
        case GgufType::i32:
            return widened<std::int32_t>(in);
        case GgufType::i64:
            return widened<std::int64_t>(in);
        case GgufType::u64: {
            CHAOS_TRY(const auto value, in.number<std::uint64_t>());
            if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                return Error{"the number " + std::to_string(value) + " is too large"};
            return static_cast<std::int64_t>(value);
        }
        case GgufType::flag: {
            CHAOS_TRY(const auto value, in.number<std::uint8_t>());
            if (value > 1) return Error{"a flag is neither 0 nor 1"};
            return std::int64_t{value};
        }
        default:
            break;
    }
    return Error{"a value has the unknown type " + std::to_string(static_cast<std::uint32_t>(type))};
}

Result<double> read_real(Reader& in, GgufType type) {
    if (type == GgufType::f64) return in.number<double>();
    CHAOS_TRY(const float value, in.number<float>());
    return static_cast<double>(value);
}

template <class T, class Read>
Result<GgufValue::Content> read_items(std::uint64_t count, const Read& read) {
    std::vector<T> items;
    items.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        CHAOS_TRY(T item, read());
        items.push_back(std::move(item));
    }
    return GgufValue::Content(std::move(items));
}

// Takes its elements from those that a file may still have.
Result<GgufValue> read_array(Reader& in, std::uint64_t& elements_left) {
    GgufValue value;
    value.type = GgufType::array;
    CHAOS_TRY(const auto element, in.number<std::uint32_t>());
    CHAOS_TRY(const auto count, in.number<std::uint64_t>());
    value.element = GgufType{element};
    if (value.element == GgufType::array) return Error{"an array of arrays is not supported"};
    if (count > in.left() / bytes_of(value.element)) return Reader::cut();
    if (count > elements_left)
        return Error{"with its " + std::to_string(count) + " elements, arrays have more than " +
                     std::to_string(max_gguf_elements) + " together, which is more than any model needs"};
    elements_left -= count;
    if (value.element == GgufType::text) {
        CHAOS_TRY(value.content, read_items<std::string>(count, [&] { return in.text(in.left()); }));
    } else if (is_real(value.element)) {
        CHAOS_TRY(value.content, read_items<double>(count, [&] { return read_real(in, value.element); }));
    } else {
        CHAOS_TRY(value.content, read_items<std::int64_t>(count, [&] { return read_whole(in, value.element); }));
    }
    return value;
}

Result<GgufValue> read_value(Reader& in, std::uint64_t& elements_left) {
    CHAOS_TRY(const auto number, in.number<std::uint32_t>());
    GgufValue value;
    value.type = GgufType{number};
    if (value.type == GgufType::array) return read_array(in, elements_left);
    if (value.type == GgufType::text) {
        CHAOS_TRY(value.content, in.text(in.left()));
    } else if (is_real(value.type)) {
        CHAOS_TRY(value.content, read_real(in, value.type));
    } else {
        CHAOS_TRY(value.content, read_whole(in, value.type));
    }
    return value;
}

struct Placed {
    Gguf::Tensor tensor;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

Result<Placed> read_tensor(Reader& in) {
    Placed placed;
    CHAOS_TRY(const auto extents, in.number<std::uint32_t>());
    if (extents < 1 || extents > max_extents)
        return Error{"has " + std::to_string(extents) + " dimensions; 1 to 4 are possible"};
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < extents; ++i) {
        CHAOS_TRY(const auto extent, in.number<std::uint64_t>());
        if (extent == 0 || __builtin_mul_overflow(elements, extent, &elements) || elements > (1ULL << 48))
            return Error{"has a bad shape"};
        placed.tensor.extents.push_back(extent);
    }
    CHAOS_TRY(const auto number, in.number<std::uint32_t>());
    const auto type = stored_type_of_gguf(number);
    if (!type) return Error{"has type " + type_name(number) + ", which is not supported"};
    placed.tensor.type = *type;
    const Blocks& blocks = blocks_of(*type);
    if (placed.tensor.extents[0] % blocks.columns != 0)
        return Error{"has rows of " + std::to_string(placed.tensor.extents[0]) +
                     " columns, which are no whole blocks of " + std::string(blocks.name)};
    placed.bytes = row_bytes(*type, elements);
    CHAOS_TRY(placed.offset, in.number<std::uint64_t>());
    return placed;
}

std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
}

template <class T>
void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
    put(out, std::uint64_t{text.size()});
    out += text;
}

void put_whole(std::string& out, GgufType type, std::int64_t value) {
    // Two's complement, little-endian: the lower bytes are the number.
    out.append(reinterpret_cast<const char*>(&value), bytes_of(type));
}

void put_real(std::string& out, GgufType type, double value) {
    if (type == GgufType::f32)
        put(out, static_cast<float>(value));
    else
        put(out, value);
}

void put_value(std::string& out, const GgufValue& value) {
    put(out, static_cast<std::uint32_t>(value.type));
    const auto array = [&](std::size_t count) {
        put(out, static_cast<std::uint32_t>(value.element));
        put(out, std::uint64_t{count});
    };
    if (const auto* whole = std::get_if<std::int64_t>(&value.content)) put_whole(out, value.type, *whole);
    if (const auto* real = std::get_if<double>(&value.content)) put_real(out, value.type, *real);
    if (const auto* text = std::get_if<std::string>(&value.content)) put_text(out, *text);
    if (const auto* wholes = std::get_if<std::vector<std::int64_t>>(&value.content)) {
        array(wholes->size());
        for (const std::int64_t item : *wholes) put_whole(out, value.element, item);
    }
    if (const auto* reals = std::get_if<std::vector<double>>(&value.content)) {
        array(reals->size());
        for (const double item : *reals) put_real(out, value.element, item);
    }
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value.content)) {
        array(texts->size());
        for (const std::string& item : *texts) put_text(out, item);
    }
}

std::uint64_t bytes_of(const GgufOutput& tensor) {
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : tensor.extents) elements *= extent;
    return row_bytes(tensor.type, elements);
}

// What llama.cpp's gguf-split calls its parts.
std::string part_ending(std::int64_t part, std::int64_t count) {
    std::array<char, 64> ending{};
    std::snprintf(ending.data(), ending.size(), "-%05" PRId64 "-of-%05" PRId64 ".gguf", part, count);
    return ending.data();
}

std::string header_of(const GgufMetadata& metadata, std::span<const GgufOutput> tensors) {
    std::string header(magic.begin(), magic.end());
    put(header, std::uint32_t{3});
    put(header, std::uint64_t{tensors.size()});
    put(header, std::uint64_t{metadata.size()});
    // llama.cpp's tools show the metadata in the file's order; the architecture comes first.
    const auto put_entry = [&](const std::string& key, const GgufValue& value) {
        put_text(header, key);
        put_value(header, value);
    };
    const auto architecture = metadata.find("general.architecture");
    if (architecture != metadata.end()) put_entry(architecture->first, architecture->second);
    for (const auto& [key, value] : metadata)
        if (key != "general.architecture") put_entry(key, value);
    std::uint64_t offset = 0;
    for (const GgufOutput& tensor : tensors) {
        put_text(header, tensor.name);
        put(header, static_cast<std::uint32_t>(tensor.extents.size()));
        for (const std::uint64_t extent : tensor.extents) put(header, extent);
        put(header, blocks_of(tensor.type).gguf_type);
        put(header, offset);
        offset = aligned(offset + bytes_of(tensor), default_alignment);
    }
    header.append(aligned(header.size(), default_alignment) - header.size(), '\0');
    return header;
}

}  // namespace

bool Gguf::is_one(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::array<char, 4> start{};
    file.read(start.data(), start.size());
    return file.good() && start == magic;
}

Result<Gguf> Gguf::open(const std::filesystem::path& path) {
    Gguf file(path.string());
    CHAOS_CHECK(file.read(path));
    CHAOS_TRY(const auto count, file.whole("split.count"));
    if (count.value_or(1) != 1) CHAOS_CHECK(file.read_other_parts(path, *count));
    return file;
}

Result<void> Gguf::read_other_parts(const std::filesystem::path& path, std::int64_t count) {
    if (count < 1 || count > max_gguf_parts)
        return Error{name_ + ": metadata split.count must be from 1 to " + std::to_string(max_gguf_parts) + ", not " +
                     std::to_string(count)};
    const std::string first = path.filename().string();
    const std::string ending = part_ending(1, count);
    CHAOS_TRY(const auto number, whole("split.no"));
    if (number != 0 || !first.ends_with(ending))
        return Error{name_ + " is one of " + std::to_string(count) +
                     " parts: name the first of them, which ends with " + ending};
    CHAOS_TRY(const auto expected, whole("split.tensors.count"));
    const std::string stem = first.substr(0, first.size() - ending.size());
    for (std::int64_t part = 2; part <= count; ++part) {
        CHAOS_TRY(Gguf other, read_part(path.parent_path() / (stem + part_ending(part, count)), part, count));
        for (auto& [name, tensor] : other.tensors_)
            if (!tensors_.emplace(name, std::move(tensor)).second)
                return Error{other.name_ + ": tensor " + printable(name) + " is in an earlier part, too"};
        paths_.push_back(std::move(other.paths_.front()));
        files_.push_back(std::move(other.files_.front()));
    }
    if (expected && *expected != static_cast<std::int64_t>(tensors_.size()))
        return Error{name_ + " and its other parts have " + std::to_string(tensors_.size()) + " tensors, not " +
                     std::to_string(*expected)};
    return {};
}

Result<Gguf> Gguf::read_part(const std::filesystem::path& path, std::int64_t part, std::int64_t count) {
    Gguf file(path.string());
    CHAOS_CHECK(file.read(path));
    CHAOS_TRY(const auto number, file.whole("split.no"));
    CHAOS_TRY(const auto parts, file.whole("split.count"));
    if (number != part - 1 || parts != count)
        return Error{file.name_ + " does not say that it is part " + std::to_string(part) + " of " +
                     std::to_string(count)};
    return file;
}

Result<void> Gguf::read(const std::filesystem::path& path) {
    paths_.push_back(path);
    CHAOS_TRY(auto mapped, MappedFile::open(path));
    const std::span<const std::byte> bytes = files_.emplace_back(std::move(mapped)).bytes();
    const auto within = [&](const std::string& where, const Error& error) {
        return Error{name_ + ": " + where + error.message};
    };
    if (bytes.size() < magic.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
        return Error{name_ + " is not a GGUF file: it does not begin with \"GGUF\""};

    Reader in(bytes.subspan(magic.size()));
    const auto version = in.number<std::uint32_t>();
    const auto tensor_count = in.number<std::uint64_t>();
    const auto metadata_count = in.number<std::uint64_t>();
    if (!metadata_count) return within("", metadata_count.error());
    if ((*version & 0xffffU) == 0) return Error{name_ + " is a big-endian GGUF file, which is not supported"};
    if (*version < 2 || *version > 3)
        return Error{name_ + " is of GGUF version " + std::to_string(*version) + "; 2 and 3 are supported"};
    if (*tensor_count > max_gguf_entries || *metadata_count > max_gguf_entries)
        return Error{name_ + " is damaged: it claims " + std::to_string(*tensor_count) + " tensors and " +
                     std::to_string(*metadata_count) + " entries of metadata"};

    std::uint64_t elements_left = max_gguf_elements;
    for (std::uint64_t i = 0; i < *metadata_count; ++i) {
        const auto key = in.text(max_gguf_key_bytes);
        if (!key) return within("metadata: ", key.error());
        auto value = read_value(in, elements_left);
        if (!value) return within("metadata " + printable(*key) + ": ", value.error());
        if (!metadata_.emplace(*key, std::move(*value)).second)
            return Error{name_ + ": metadata " + printable(*key) + " appears twice"};
    }
    CHAOS_TRY(const auto given_alignment, whole("general.alignment"));
    const std::int64_t alignment = given_alignment.value_or(default_alignment);
    if (alignment < 1 || alignment > static_cast<std::int64_t>(max_alignment) ||
        !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
        return Error{name_ + ": general.alignment is " + std::to_string(alignment) + ", which is no power of two"};

    std::map<std::string, Placed> placed;
    for (std::uint64_t i = 0; i < *tensor_count; ++i) {
        const auto name = in.text(max_gguf_key_bytes);
        if (!name) return within("tensors: ", name.error());
        auto tensor = read_tensor(in);
        if (!tensor) return within("tensor " + printable(*name) + " ", tensor.error());
        if (!placed.emplace(*name, std::move(*tensor)).second)
            return Error{name_ + ": tensor " + printable(*name) + " appears twice"};
    }
    const std::uint64_t begin = aligned(magic.size() + in.at(), static_cast<std::uint64_t>(alignment));
    const std::uint64_t size = begin < bytes.size() ? bytes.size() - begin : 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (auto& [name, each] : placed) {
        if (each.offset % static_cast<std::uint64_t>(alignment) != 0 || each.offset > size ||
            each.bytes > size - each.offset)
            return Error{name_ + ": tensor " + printable(name) + " lies outside the file, which may be truncated"};
        ranges.emplace_back(each.offset, each.offset + each.bytes);
        each.tensor.bytes = bytes.subspan(begin + each.offset, each.bytes);
        tensors_.emplace(name, std::move(each.tensor));
    }
    // Weights that share bytes would take more memory than the file has.
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 1; i < ranges.size(); ++i)
        if (ranges[i - 1].second > ranges[i].first)
            return Error{name_ + " is damaged: two of its tensors lie in the same place"};
    return {};
}

template <class T>
Result<std::optional<T>> Gguf::value(std::string_view key, const char* what) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) return std::optional<T>();
    const auto* value = std::get_if<T>(&found->second.content);
    if (value == nullptr) return Error{name_ + ": metadata " + std::string(key) + " is not " + what};
    return std::optional<T>(*value);
}

Result<std::optional<std::int64_t>> Gguf::whole(std::string_view key) const {
    return value<std::int64_t>(key, "one whole number");
}

Result<std::optional<double>> Gguf::real(std::string_view key) const {
    return value<double>(key, "one real number");
}

Result<std::optional<std::string>> Gguf::text(std::string_view key) const {
    return value<std::string>(key, "a text");
}

std::string gguf_without_tensors(const GgufMetadata& metadata) {
    return header_of(metadata, {});
}

Result<void> write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                        std::span<const GgufOutput> tensors) {
    const std::string header = header_of(metadata, tensors);
    return write_file_atomically(path, [&](const Sink& sink) -> Result<void> {
        CHAOS_CHECK(sink(std::as_bytes(std::span(header))));
        for (const GgufOutput& tensor : tensors) {
            std::uint64_t written = 0;
            CHAOS_CHECK(tensor.write([&](std::span<const std::byte> bytes) {
                written += bytes.size();
                return sink(bytes);
            }));
            CHAOS_ASSERT(written == bytes_of(tensor));
            const std::array<std::byte, default_alignment> padding{};
            CHAOS_CHECK(sink(std::span(padding).first(aligned(written, default_alignment) - written)));
        }
        return {};
    });
}

}  // namespace chaos::infer
