#include "base/slot_file.h"

#include "base/file.h"
#include "base/hash.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace chaos {
namespace {

constexpr std::string_view magic = "chaos/1\n";
constexpr std::uint64_t least_room = 4096;

struct Head {
    std::array<char, 8> magic{};
    std::uint64_t room = 0;
};

struct SlotHead {
    std::uint64_t number = 0;  // 0: never written
    std::uint64_t size = 0;
    std::uint64_t check = 0;
};

template <typename T>
std::string_view bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

// Of the slot's number too: it decides which of two values counts.
std::uint64_t check_of(std::uint64_t number, std::string_view value) {
    std::string all(bytes_of(number));
    all += value;
    return xxh3(std::as_bytes(std::span(all)));
}

std::string slot_of(std::uint64_t number, std::string_view value) {
    const SlotHead head{.number = number, .size = value.size(), .check = check_of(number, value)};
    std::string slot(bytes_of(head));
    slot += value;
    return slot;
}

std::uint64_t offset_of(std::uint64_t number, std::uint64_t room) {
    return sizeof(Head) + (number % 2) * (sizeof(SlotHead) + room);
}

Error no_success(const std::filesystem::path& path) {
    return Error{"cannot write " + path.string() + ": " + std::generic_category().message(errno)};
}

}  // namespace

Result<SlotFile> SlotFile::open(const std::filesystem::path& path) {
    SlotFile file(path);
    if (std::filesystem::exists(path)) CHAOS_CHECK(file.read());
    return file;
}

SlotFile::~SlotFile() {
    if (fd_ >= 0) ::close(fd_);
}

SlotFile::SlotFile(SlotFile&& other) noexcept
    : path_(std::move(other.path_)),
      found_(std::move(other.found_)),
      fd_(std::exchange(other.fd_, -1)),
      room_(other.room_),
      writes_(other.writes_) {}

SlotFile& SlotFile::operator=(SlotFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(found_, other.found_);
    std::swap(fd_, other.fd_);
    std::swap(room_, other.room_);
    std::swap(writes_, other.writes_);
    return *this;
}

Result<void> SlotFile::read() {
    CHAOS_TRY(const std::string content, read_file(path_));
    const Error damaged{path_.string() + " is damaged, or no file of this program"};
    Head head;
    if (content.size() < sizeof(head)) return damaged;
    std::memcpy(&head, content.data(), sizeof(head));
    if (std::string_view(head.magic.data(), head.magic.size()) != magic || head.room > content.size()) return damaged;
    for (const std::uint64_t which : {0U, 1U}) {
        const std::uint64_t at = offset_of(which, head.room);
        SlotHead slot;
        if (content.size() < at + sizeof(slot)) continue;
        std::memcpy(&slot, content.data() + at, sizeof(slot));
        if (slot.number <= writes_ || slot.number % 2 != which ||
            slot.size > std::min<std::uint64_t>(head.room, content.size() - at - sizeof(slot)))
            continue;
        const std::string_view value = std::string_view(content).substr(at + sizeof(slot), slot.size);
        if (slot.check != check_of(slot.number, value)) continue;
        found_ = value;
        writes_ = slot.number;
    }
    if (!found_) return damaged;
    room_ = head.room;
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) return no_success(path_);
    return {};
}

Result<void> SlotFile::write(std::string_view value) {
    if (fd_ < 0 || value.size() > room_) return make(value);
    const std::string slot = slot_of(writes_ + 1, value);
    const std::uint64_t at = offset_of(writes_ + 1, room_);
    for (std::size_t done = 0; done < slot.size();) {
        const ssize_t written = ::pwrite(fd_, slot.data() + done, slot.size() - done, static_cast<off_t>(at + done));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return no_success(path_);
        done += static_cast<std::size_t>(written);
    }
    if (::fdatasync(fd_) != 0) return no_success(path_);
    ++writes_;
    return {};
}

// A file with room for values that grow. Both slots are filled, so that later writes change no size.
Result<void> SlotFile::make(std::string_view value) {
    const std::uint64_t room = std::max<std::uint64_t>(least_room, 2 * value.size());
    const std::uint64_t number = writes_ + 1;
    Head head{.room = room};
    std::ranges::copy(magic, head.magic.begin());
    std::string content(offset_of(1, room) + sizeof(SlotHead) + room, '\0');
    content.replace(0, sizeof(head), bytes_of(head));
    const std::string slot = slot_of(number, value);
    content.replace(offset_of(number, room), slot.size(), slot);
    CHAOS_CHECK(write_file_atomically(path_, content));
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return no_success(path_);
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
    room_ = room;
    writes_ = number;
    return {};
}

}  // namespace chaos
