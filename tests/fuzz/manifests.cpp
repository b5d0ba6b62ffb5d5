// A stranger's manifest: what it describes is laid out, divided and kept.
#include "base/assert.h"
#include "fuzz/seeds.h"
#include "infer/image.h"
#include "infer/manifest.h"
#include "infer/small_model.h"
#include "temporary_folder.h"

#include <string_view>

namespace {

using namespace chaos;
using namespace chaos::infer;

Manifest manifest_for(const Config& config, StoredType type) {
    Manifest manifest{.outline = {.config = config, .paired = false, .types = {}, .texts = {}}, .hashes = {}};
    for (const TensorShape& shape : tensors_of(config))
        manifest.outline.types.push_back(shape.vector ? StoredType::f32 : type);
    manifest.outline.texts = {{"tokenizer.json", 3}};
    manifest.hashes.resize(layout_of(manifest.outline).value().units.size());
    return manifest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto manifest = decode_manifest({reinterpret_cast<const char*>(data), size}, "input");
    if (!manifest) return 0;
    const auto layout = layout_of(manifest->outline);
    CHAOS_ASSERT(layout && layout->units.size() == manifest->hashes.size());
    std::uint64_t end = 0;
    for (const Unit& unit : layout->units) {
        CHAOS_ASSERT(unit.offset >= end && unit.bytes > 0);
        end = unit.end();
    }
    CHAOS_ASSERT(end <= layout->bytes);
    const std::vector<bool> all = units_of_slice(*layout, whole(manifest->outline.config));
    CHAOS_ASSERT(bytes_of(*layout, all) <= layout->bytes);
    CHAOS_ASSERT(bytes_of(*layout, units_of_texts(*layout)) <= bytes_of(*layout, all));
    // Nothing is written before something comes: the image is a hole.
    static const chaos::test::TemporaryFolder folder;
    const auto image = Image::open(folder.path(), *manifest);
    if (!image) return 0;
    CHAOS_ASSERT((*image)->missing(all) == all);
    const std::vector<std::byte> wrong(layout->units.front().bytes, std::byte{1});
    if (wrong.size() < (1U << 20)) CHAOS_ASSERT(!(*image)->keep(0, wrong).value());
    std::filesystem::remove_all(folder.path() / hex((*image)->identity()));
    return 0;
}

std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    const auto add = [&](const Config& config, StoredType type) {
        const std::string bytes = encode(manifest_for(config, type));
        seeds.emplace_back(bytes.begin(), bytes.end());
    };
    add(infer::test::small_config("llama", 4), StoredType::f32);
    add(infer::test::small_config("qwen2", 32), StoredType::f16);
    Config larger = infer::test::small_config("qwen3", 64);
    larger.layers = 3;
    larger.heads = 4;
    larger.head_width = 32;
    larger.ffn = 128;
    for (const StoredType type : {StoredType::q8_0, StoredType::q4_0, StoredType::bf16}) add(larger, type);
    return seeds;
}
