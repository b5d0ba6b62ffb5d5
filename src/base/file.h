// Files as values: read whole, mapped, or written so that a crash or a full disk leaves either the old file or
// the new one, never half of one. Every error names the file.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
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

// Gives the memory of a part of a mapped file back to the system; what is in it is read again when it is needed.
void release_mapped(std::span<const std::byte> bytes);

using Sink = std::function<Result<void>(std::span<const std::byte>)>;

// Calls `fill` with a sink into a temporary file beside `path`, then fsyncs it, renames it over `path` and
// fsyncs the folder. On an error before the rename the temporary file is removed and `path` is as it was.
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& path,
                                                 const std::function<Result<void>(const Sink&)>& fill);
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content);

// A file that only grows at its end. What was appended is with the operating system: it outlives the process, whatever
// kills it, but the end may be lost or torn when the machine dies.
class AppendFile {
public:
    // Makes the file where it is missing.
    static Result<AppendFile> open(const std::filesystem::path& path);
    ~AppendFile();
    AppendFile(AppendFile&& other) noexcept;
    AppendFile& operator=(AppendFile&& other) noexcept;

    [[nodiscard]] std::uint64_t size() const { return size_; }
    // All of it or nothing: after an error the file ends where it ended before.
    [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
    // Throws away what lies behind the first `size` bytes.
    [[nodiscard]] Result<void> cut(std::uint64_t size);

private:
    AppendFile(std::filesystem::path path, int fd, std::uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
    std::filesystem::path path_;
    int fd_ = -1;
    std::uint64_t size_ = 0;
    bool torn_ = false;  // what an append left behind could not be cut off
};

// The names in a folder, sorted.
[[nodiscard]] Result<std::vector<std::string>> list_folder(const std::filesystem::path& path);

[[nodiscard]] Result<void> make_folder(const std::filesystem::path& path);

}  // namespace chaos
