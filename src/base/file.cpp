#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

namespace chaos {
namespace {

Error system_error(const std::string& what, const std::filesystem::path& path, int code) {
    return Error{what + " " + path.string() + ": " + std::strerror(code)};
}

class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int get() const { return fd_; }

private:
    int fd_;
};

// Opens a regular file for reading and tells its size.
struct OpenFile {
    int fd;
    std::size_t size_bytes;
};

Result<OpenFile> open_regular(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
    if (fd < 0) return system_error("cannot read", path, errno);
    struct stat info{};
    if (::fstat(fd, &info) != 0) {
        const int code = errno;
        ::close(fd);
        return system_error("cannot read", path, code);
    }
    if (!S_ISREG(info.st_mode)) {
        ::close(fd);
        return Error{"cannot read " + path.string() + ": it is not a regular file"};
    }
    return OpenFile{fd, static_cast<std::size_t>(info.st_size)};
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
    constexpr std::size_t max_write_bytes = 64U << 20;
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), max_write_bytes));
        if (written < 0) {
            if (errno == EINTR) continue;
            return system_error("cannot write", path, errno);
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

Result<void> sync_folder(const std::filesystem::path& folder) {
    const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0 || ::fsync(fd.get()) != 0) return system_error("cannot sync", folder, errno);
    return {};
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
    CHAOS_TRY(const OpenFile file, open_regular(path));
    const Descriptor fd(file.fd);
    std::string content(file.size_bytes, '\0');
    std::size_t filled = 0;
    while (filled < content.size()) {
        const ssize_t got = ::read(fd.get(), content.data() + filled, content.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error("cannot read", path, errno);
        if (got == 0) return Error{"cannot read " + path.string() + ": it shrank while being read"};
        filled += static_cast<std::size_t>(got);
    }
    return content;
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    CHAOS_TRY(const OpenFile file, open_regular(path));
    const Descriptor fd(file.fd);
    if (file.size_bytes == 0) return MappedFile(nullptr, 0);
    void* data = ::mmap(nullptr, file.size_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return system_error("cannot map", path, errno);
    return MappedFile(static_cast<const std::byte*>(data), file.size_bytes);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

void release_mapped(std::span<const std::byte> bytes) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    const std::size_t begin = (page - address % page) % page;
    const std::size_t left = bytes.size() - std::min(begin, bytes.size());
    // Only advice: where it is not taken, the memory stays the system's to take back when it needs it.
    if (left >= page)
        static_cast<void>(::madvise(const_cast<std::byte*>(bytes.data()) + begin, left / page * page, MADV_DONTNEED));
}

Result<void> write_file_atomically(const std::filesystem::path& path,
                                   const std::function<Result<void>(const Sink&)>& fill) {
    const std::filesystem::path temporary = path.string() + ".tmp-" + std::to_string(::getpid());
    const auto write_temporary = [&]() -> Result<void> {
        const Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        if (fd.get() < 0) return system_error("cannot write", path, errno);
        CHAOS_CHECK(fill([&](std::span<const std::byte> bytes) { return write_all(fd.get(), bytes, path); }));
        if (::fsync(fd.get()) != 0) return system_error("cannot write", path, errno);
        if (::rename(temporary.c_str(), path.c_str()) != 0) return system_error("cannot write", path, errno);
        return {};
    };
    if (auto written = write_temporary(); !written) {
        ::unlink(temporary.c_str());
        return written;
    }
    return sync_folder(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content) {
    return write_file_atomically(path, [&](const Sink& sink) { return sink(std::as_bytes(std::span(content))); });
}

Result<AppendFile> AppendFile::open(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
    if (fd < 0) return system_error("cannot write", path, errno);
    AppendFile file(path, fd, 0);
    struct stat info{};
    if (::fstat(fd, &info) != 0) return system_error("cannot write", path, errno);
    if (!S_ISREG(info.st_mode)) return Error{"cannot write " + path.string() + ": it is not a regular file"};
    file.size_ = static_cast<std::uint64_t>(info.st_size);
    return file;
}

AppendFile::~AppendFile() {
    if (fd_ >= 0) ::close(fd_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_), torn_(other.torn_) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    std::swap(torn_, other.torn_);
    return *this;
}

Result<void> AppendFile::append(std::span<const std::byte> bytes) {
    if (torn_) CHAOS_CHECK(cut(size_));
    if (auto written = write_all(fd_, bytes, path_); !written) {
        torn_ = !cut(size_);  // then the next append tries it again
        return written;
    }
    size_ += bytes.size();
    return {};
}

Result<void> AppendFile::cut(std::uint64_t size) {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return system_error("cannot cut", path_, errno);
    size_ = size;
    torn_ = false;
    return {};
}

Result<std::vector<std::string>> list_folder(const std::filesystem::path& path) {
    std::error_code code;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(path, code), end; !code && entry != end; entry.increment(code))
        names.push_back(entry->path().filename().string());
    if (code) return Error{"cannot list the folder " + path.string() + ": " + code.message()};
    std::sort(names.begin(), names.end());
    return names;
}

Result<void> make_folder(const std::filesystem::path& path) {
    std::error_code code;
    std::filesystem::create_directories(path, code);
    if (code) return Error{"cannot make the folder " + path.string() + ": " + code.message()};
    return {};
}

}  // namespace chaos
