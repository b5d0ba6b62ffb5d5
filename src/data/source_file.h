// A file that a key of [data] names, mapped while the data set is being opened. Data sets keep copies, not maps:
// nobody can change or cut a file under a running training.
#pragma once

#include "base/file.h"
#include "base/result.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace chaos::data {

struct SourceFile {
    std::filesystem::path path;
    std::string key;  // "data.files" or "data.labels"
    MappedFile map;

    [[nodiscard]] std::span<const std::byte> bytes() const { return map.bytes(); }
};

// An empty file is an error.
[[nodiscard]] Result<SourceFile> open_source(const std::filesystem::path& path, const std::string& key);

// "PATH is cut short (data.files)" from what = "is cut short".
[[nodiscard]] Error source_error(const SourceFile& file, const std::string& what);

// An error unless data.files names a file.
[[nodiscard]] Result<void> check_named(const std::vector<std::filesystem::path>& files);

}  // namespace chaos::data
