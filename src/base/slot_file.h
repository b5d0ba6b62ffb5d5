// A small value on disk that is replaced often. It lies in one file of two slots that take turns: a replacement costs
// one write and one flush, no new file, and a crash in the middle of it leaves the value before.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace chaos {

class SlotFile {
public:
    // What lies there is read; where nothing does, there is no value yet, and no file before the first write.
    static Result<SlotFile> open(const std::filesystem::path& path);
    ~SlotFile();
    SlotFile(SlotFile&& other) noexcept;
    SlotFile& operator=(SlotFile&& other) noexcept;

    // As it was when the file was opened.
    [[nodiscard]] const std::optional<std::string>& found() const { return found_; }
    // On disk when this returns, whatever happens to the machine. After an error, the value is the old one or this.
    [[nodiscard]] Result<void> write(std::string_view value);

private:
    explicit SlotFile(std::filesystem::path path) : path_(std::move(path)) {}
    Result<void> read();
    Result<void> make(std::string_view value);

    std::filesystem::path path_;
    std::optional<std::string> found_;
    int fd_ = -1;
    std::uint64_t room_ = 0;    // the bytes that a slot has for a value
    std::uint64_t writes_ = 0;  // the newer slot's number; the next one goes to the other slot
};

}  // namespace chaos
