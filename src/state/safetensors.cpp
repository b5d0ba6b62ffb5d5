#include "state/safetensors.h"

#include "base/half.h"
#include "base/words.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace chaos::state {
namespace {

using nlohmann::json;

std::optional<std::uint64_t> non_negative(const json& value) {
    if (!value.is_number_unsigned()) return std::nullopt;
    return value.get<std::uint64_t>();
}

std::optional<TensorType> type_of(const std::string& name) {
    if (name == "F32") return TensorType::f32;
    if (name == "F16") return TensorType::f16;
    if (name == "BF16") return TensorType::bf16;
    return std::nullopt;
}

std::uint64_t bytes_per_element(TensorType type) {
    return type == TensorType::f32 ? 4 : 2;
}

Result<Safetensors::Entry> parse_entry(const std::string& where, const json& value, std::span<const std::byte> data) {
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() || !value.contains("shape") ||
        !value["shape"].is_array() || !value.contains("data_offsets") || !value["data_offsets"].is_array() ||
        value["data_offsets"].size() != 2)
        return Error{where + " lacks dtype, shape or data_offsets"};
    const std::string type_name = printable(value["dtype"].get<std::string>());
    const auto type = type_of(type_name);
    if (!type) return Error{where + " has type " + type_name + "; F32, F16 and BF16 are supported"};

    Safetensors::Entry entry;
    entry.type = *type;
    std::uint64_t elements = 1;
    for (const json& item : value["shape"]) {
        const auto extent = non_negative(item);
        if (!extent || __builtin_mul_overflow(elements, *extent, &elements) || elements > (1ULL << 48))
            return Error{where + " has a bad shape"};
        entry.shape.push_back(static_cast<std::int64_t>(*extent));
    }
    const auto begin = non_negative(value["data_offsets"][0]);
    const auto end = non_negative(value["data_offsets"][1]);
    if (!begin || !end || *begin > *end || *end > data.size())
        return Error{where + " lies outside the file, which may be truncated"};
    if (*end - *begin != elements * bytes_per_element(*type))
        return Error{where + " has a byte range that does not fit its shape"};
    entry.bytes = data.subspan(*begin, *end - *begin);
    return entry;
}

// Weights that share bytes would take more memory than the file has.
Result<void> check_apart(const std::map<std::string, Safetensors::Entry>& tensors, const std::string& name) {
    std::vector<std::span<const std::byte>> ranges;
    for (const auto& [tensor, entry] : tensors)
        if (!entry.bytes.empty()) ranges.push_back(entry.bytes);
    std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.data() < b.data(); });
    for (std::size_t i = 1; i < ranges.size(); ++i)
        if (ranges[i - 1].data() + ranges[i - 1].size() > ranges[i].data())
            return Error{name + " is damaged: two of its tensors lie in the same place"};
    return {};
}

}  // namespace

Result<Safetensors> Safetensors::open(const std::filesystem::path& path) {
    CHAOS_TRY(auto mapped, MappedFile::open(path));
    Safetensors file(std::move(mapped));
    const std::span<const std::byte> bytes = file.file_.bytes();
    const std::string name = path.string();
    if (bytes.size() < 8)
        return Error{name + " is not a safetensors file: it has only " + std::to_string(bytes.size()) + " bytes"};
    std::uint64_t header_bytes = 0;
    for (std::size_t i = 0; i < 8; ++i) header_bytes |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    if (header_bytes > max_safetensors_header_bytes || header_bytes > bytes.size() - 8)
        return Error{name + " is not a safetensors file, or is truncated: its header should have " +
                     std::to_string(header_bytes) + " bytes"};
    file.header_ = bytes.first(8 + header_bytes);
    file.data_ = bytes.subspan(8 + header_bytes);

    const auto* text = reinterpret_cast<const char*>(file.header_.data()) + 8;
    const json header = json::parse(text, text + header_bytes, nullptr, false);
    if (!header.is_object()) return Error{name + " has a damaged header: it is not a JSON object"};
    for (const auto& [key, value] : header.items()) {
        if (key == "__metadata__") {
            if (!value.is_object()) return Error{name + " has damaged metadata"};
            for (const auto& [metadata_key, metadata_value] : value.items()) {
                if (!metadata_value.is_string()) return Error{name + " has damaged metadata"};
                file.metadata_[metadata_key] = metadata_value.get<std::string>();
            }
            continue;
        }
        CHAOS_TRY(auto entry, parse_entry(name + ": tensor " + printable(key), value, file.data_));
        file.tensors_.emplace(key, std::move(entry));
    }
    CHAOS_CHECK(check_apart(file.tensors_, name));
    return file;
}

Result<std::vector<std::filesystem::path>> weight_files(const std::filesystem::path& folder) {
    const std::filesystem::path index = folder / "model.safetensors.index.json";
    std::error_code error;
    if (!std::filesystem::exists(index, error)) return std::vector{folder / "model.safetensors"};
    CHAOS_TRY(const std::string text, read_file(index));
    const json value = json::parse(text, nullptr, false);
    if (!value.is_object()) return Error{index.string() + " is not a JSON object"};
    std::set<std::filesystem::path> files;
    if (value.contains("weight_map") && value["weight_map"].is_object())
        for (const auto& [tensor, file] : value["weight_map"].items()) {
            if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
                return Error{index.string() + ": the file of tensor " + printable(tensor) +
                             " is not a plain file name"};
            files.insert(folder / file.get<std::string>());
        }
    if (files.empty()) return Error{index.string() + " lists no files in \"weight_map\""};
    return std::vector(files.begin(), files.end());
}

void to_floats(const Safetensors::Entry& entry, std::span<float> out) {
    CHAOS_ASSERT(entry.bytes.size() == out.size() * bytes_per_element(entry.type));
    if (out.empty()) return;
    if (entry.type == TensorType::f32) {
        std::memcpy(out.data(), entry.bytes.data(), entry.bytes.size());
        return;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        std::uint16_t half = 0;
        std::memcpy(&half, entry.bytes.data() + 2 * i, 2);
        out[i] = entry.type == TensorType::f16 ? f16_to_float(half) : bf16_to_float(half);
    }
}

std::string safetensors_header(std::span<const FloatTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
    json header = json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::uint64_t offset = 0;
    for (const FloatTensor& tensor : tensors) {
        const std::uint64_t end = offset + tensor.values.size_bytes();
        header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
        offset = end;
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    std::string out;
    for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>((text.size() >> (8 * i)) & 255);
    return out + text;
}

Result<void> write_safetensors(const std::filesystem::path& path, std::span<const FloatTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
    return write_file_atomically(path, [&](const Sink& sink) -> Result<void> {
        const std::string header = safetensors_header(tensors, metadata);
        CHAOS_CHECK(sink(std::as_bytes(std::span(header))));
        for (const FloatTensor& tensor : tensors) CHAOS_CHECK(sink(std::as_bytes(tensor.values)));
        return {};
    });
}

}  // namespace chaos::state
