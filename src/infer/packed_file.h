// The packed weights of a model in a file of their own, from which a window streams them (window.h). It is made once,
// a few panels at a time, and found again by its name:
//
//   <folder>/<identity>.packed         header: 4096 bytes | panels of all tensors, one behind the other | zeros to 4096
//
// The identity is a hash of what tells models apart without reading them whole: size and time of modification of every
// file of weights, type and shape of every tensor, what is packed of it, and its first 4096 bytes; an image (image.h)
// has an identity of its own instead of sizes, times and bytes. Who changes weights behind a file's back, its time
// included, must delete the packed file. Its header is checked when it is opened, and so
// is its size; its weights are believed, because the name appears only when all of them are on disk. A file that is cut
// or otherwise wrong is made anew.
//
// A file's time of modification is when it was used last. Before one is made, those go that were used longest ago,
// until all together, the new one too, keep within the folder's limit and the disk has room. Who streams from one that
// is removed goes on: it has it open. The folder may be deleted at any time.
#pragma once

#include "base/result.h"
#include "infer/packing.h"

#include <cstdint>
#include <filesystem>
#include <span>

namespace chaos::infer {

inline constexpr std::uint64_t packed_file_header_bytes = 4096;

struct PackedFolder {
    std::filesystem::path path;
    std::uint64_t limit_bytes = 64'000'000'000;  // a single file may have more
};

// The packed file of the model, made if need be. `progress` is called while it is made; it may be empty.
[[nodiscard]] Result<std::filesystem::path> packed_file(const ModelFile& file, std::span<const PackedTensor> tensors,
                                                        const PackedFolder& folder, Pool& pool,
                                                        const Progress& progress);

}  // namespace chaos::infer
