// A stranger's GGUF file. Where "GGUF" stands in it again, another part of a divided model begins.
#include "infer/gguf.h"
#include "base/assert.h"
#include "base/file.h"
#include "fuzz/models.h"
#include "fuzz/seeds.h"
#include "infer/small_model.h"

#include <array>
#include <cstdio>
#include <span>
#include <string_view>

namespace {

using namespace chaos;
using namespace chaos::infer;
using chaos::infer::test::small_config;

constexpr std::string_view magic = "GGUF";

std::string part_name(std::size_t number, std::size_t count) {
    std::array<char, 40> name{};
    std::snprintf(name.data(), name.size(), "m-%05zu-of-%05zu.gguf", number, count);
    return name.data();
}

std::vector<std::string_view> parts_of(std::string_view input) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t next = input.find(magic, 1);
        parts.push_back(input.substr(0, next));
        if (next == std::string_view::npos) return parts;
        input.remove_prefix(next);
    }
}

std::string file_of(const GgufMetadata& metadata, std::span<const GgufOutput> tensors) {
    const chaos::test::TemporaryFolder folder;
    CHAOS_ASSERT(write_gguf(folder / "m.gguf", metadata, tensors));
    return read_file(folder / "m.gguf").value();
}

std::string file_of(const Config& config, StoredType type, bool byte_level) {
    return file_of(infer::test::small_metadata(config, byte_level), infer::test::small_tensors(config, type));
}

std::string two_files_of(const Config& config) {
    const std::vector<GgufOutput> tensors = infer::test::small_tensors(config, StoredType::f32);
    GgufMetadata first = infer::test::small_metadata(config, false);
    GgufMetadata second;
    infer::test::add_split(first, 0, 2, tensors.size());
    infer::test::add_split(second, 1, 2, tensors.size());
    return file_of(first, std::span(tensors).first(3)) + file_of(second, std::span(tensors).subspan(3));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const chaos::test::TemporaryFolder folder;
    const std::vector<std::string_view> parts = parts_of({reinterpret_cast<const char*>(data), size});
    if (parts.size() > 4) return -1;
    for (std::size_t i = 0; i < parts.size(); ++i) folder.write(part_name(i + 1, parts.size()), std::string(parts[i]));
    fuzz::use_model(folder / part_name(1, parts.size()), folder);
    return 0;
}

std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    const auto add = [&](const std::string& text) { seeds.emplace_back(text.begin(), text.end()); };
    const Config llama = small_config("llama", 4);
    for (const StoredType type : {StoredType::f32, StoredType::f16, StoredType::bf16})
        add(file_of(llama, type, type == StoredType::f32));
    add(two_files_of(llama));
    for (const char* kind : {"qwen2", "qwen3"}) add(file_of(small_config(kind, 32), StoredType::q4_0, true));
    for (const StoredType type : {StoredType::q8_0, StoredType::q4_1, StoredType::q5_0, StoredType::q5_1})
        add(file_of(small_config("llama", 32), type, false));
    for (const StoredType type : {StoredType::q4_k, StoredType::q5_k, StoredType::q6_k})
        add(file_of(small_config("llama", 256), type, false));
    return seeds;
}
