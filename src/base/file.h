// Files as values: read whole, mapped, or written so that a crash or a full disk leaves either the old file or
// the new one, never half of one. Every error names the file.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chaos {

[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path);

// A read-only map of a whole file.
class MappedFile {
public:
    static Result<MappedFile> open(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;

    [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

private:
    MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

using Sink = std::function<Result<void>(std::span<const std::byte>)>;

// Calls `fill` with a sink into a temporary file beside `path`, then fsyncs it, renames it over `path` and
// fsyncs the folder. On an error before the rename the temporary file is removed and `path` is as it was.
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& path,
                                                 const std::function<Result<void>(const Sink&)>& fill);
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content);

// The names in a folder, sorted.
[[nodiscard]] Result<std::vector<std::string>> list_folder(const std::filesystem::path& path);

[[nodiscard]] Result<void> make_folder(const std::filesystem::path& path);

}  // namespace chaos
