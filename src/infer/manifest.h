// What a model is, without its weights: its outline and the hash of every unit (units.h). Whoever has it can take units
// from anybody and knows whether they are right. A model's *identity* is one hash over all of that; who knows it can
// take the manifest from anybody too.
//
// Hashes are SHA-256: units come from others, who may choose what they send, and a hash that only watches for accidents
// (XXH3) can be forged. It costs half a second per GB and core, once when a unit arrives and once when a node starts.
//
// The node that has the model file makes the manifest, which reads the file once. It is kept
//
//   <folder>/<key>.manifest
//
// where the key stands for the file as it lies there: size and time of modification of every file of weights and text,
// type and shape of every tensor, its first 4096 bytes. Who changes weights behind a file's back, its time included,
// must delete the manifest; until then what such a node gives is refused by those who get it.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "infer/packing.h"
#include "infer/pool.h"
#include "infer/units.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::infer {

struct Manifest {
    Outline outline;
    std::vector<Digest> hashes;  // of the units of its layout
};

inline constexpr std::size_t max_manifest_bytes = max_units * sizeof(Digest) + (1 << 20);

[[nodiscard]] Digest identity_of(const Manifest& manifest);

[[nodiscard]] std::string encode(const Manifest& manifest);
// From others, or from disk. Refuses what makes no sense; `name` stands for it in errors.
[[nodiscard]] Result<Manifest> decode_manifest(std::string_view bytes, const std::string& name);

[[nodiscard]] Digest hash_of(std::span<const std::byte> bytes);

// Of a model that lies here, made if need be. `progress` is called while it is made; it may be empty.
[[nodiscard]] Result<Manifest> manifest_of(const ModelFile& file, const FileUnits& units,
                                           const std::filesystem::path& folder, Pool& pool, const Progress& progress);

}  // namespace chaos::infer
