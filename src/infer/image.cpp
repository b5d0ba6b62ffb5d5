#include "infer/image.h"

#include "base/assert.h"
#include "base/file.h"
#include "infer/window_plan.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>

namespace chaos::infer {
namespace {

namespace fs = std::filesystem;

Error system_error(const std::string& what, const fs::path& path, int code) {
    return Error{what + " " + path.string() + ": " + std::strerror(code)};
}

Result<void> write_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes, const fs::path& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return system_error("cannot write", path, errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
        offset += static_cast<std::uint64_t>(written);
    }
    return {};
}

Result<void> read_at(int fd, std::uint64_t offset, std::span<std::byte> to, const fs::path& path) {
    while (!to.empty()) {
        const ssize_t got = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error("cannot read", path, errno);
        if (got == 0) return Error{"cannot read " + path.string() + ": it was cut"};
        to = to.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
    return {};
}

// A file of that many bytes for reading and writing, made where it is missing.
Result<int> open_sized(const fs::path& path, std::uint64_t bytes) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return system_error("cannot open", path, errno);
    struct stat info{};
    if (::fstat(fd, &info) != 0 ||
        (static_cast<std::uint64_t>(info.st_size) != bytes && ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)) {
        const int code = errno;
        ::close(fd);
        return system_error("cannot make", path, code);
    }
    return fd;
}

// What a model's image takes on disk, without its holes.
std::uint64_t disk_bytes(const fs::path& model_folder) {
    struct stat info{};
    if (::stat((model_folder / "image").c_str(), &info) != 0) return 0;  // there is none
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

bool is_model_folder(const fs::path& path) {
    std::error_code error;
    const std::string name = path.filename().string();
    return name.size() == 2 * sizeof(Digest) && name.find_first_not_of("0123456789abcdef") == std::string::npos &&
           fs::is_directory(path, error);
}

Result<std::vector<fs::path>> model_folders(const fs::path& store) {
    CHAOS_TRY(const auto names, list_folder(store));
    std::vector<fs::path> folders;
    for (const std::string& name : names)
        if (is_model_folder(store / name)) folders.push_back(store / name);
    return folders;
}

// False: another process has it open.
Result<bool> remove_model(const fs::path& folder) {
    const int fd = ::open((folder / "here").c_str(), O_RDWR | O_CLOEXEC);
    const bool locked = fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    std::error_code error;
    if (locked) fs::remove_all(folder, error);
    if (fd >= 0) ::close(fd);
    if (error) return Error{"cannot remove " + folder.string() + ": " + error.message()};
    return locked;
}

// When it was last opened.
fs::file_time_type last_used(const fs::path& folder) {
    std::error_code error;
    const auto time = fs::last_write_time(folder / "manifest", error);
    return error ? fs::file_time_type::min() : time;
}

}  // namespace

Result<std::optional<Manifest>> Image::kept_manifest(const fs::path& folder, const Digest& identity) {
    const fs::path path = folder / hex(identity) / "manifest";
    std::error_code error;
    if (!fs::exists(path, error)) return std::optional<Manifest>();
    CHAOS_TRY(const std::string kept, read_file(path));
    auto manifest = decode_manifest(kept, path.string());
    // One that is not what it was can be had from others, like any unit.
    if (!manifest || identity_of(*manifest) != identity) return std::optional<Manifest>();
    return std::optional(std::move(*manifest));
}

Result<std::string> Image::kept_name(const fs::path& folder, const Digest& identity) {
    const fs::path path = folder / hex(identity) / "name";
    std::error_code error;
    if (!fs::exists(path, error)) return hex(identity).substr(0, 8);
    return read_file(path);
}

Result<void> Image::keep_name(const std::string& name) const {
    return write_file_atomically(folder_ / "name", name);
}

Result<std::unique_ptr<Image>> Image::open(const fs::path& folder, Manifest manifest, std::uint64_t limit_bytes) {
    std::unique_ptr<Image> image(new Image);
    image->store_ = folder;
    image->limit_bytes_ = limit_bytes;
    image->manifest_ = std::move(manifest);
    image->identity_ = identity_of(image->manifest_);
    image->folder_ = folder / hex(image->identity_);
    CHAOS_TRY(image->layout_, layout_of(image->manifest_.outline));
    CHAOS_ASSERT(image->manifest_.hashes.size() == image->layout_.units.size());
    CHAOS_CHECK(make_folder(image->folder_));
    CHAOS_CHECK(image->open_files());
    // Its time tells when the model was last opened.
    CHAOS_CHECK(write_file_atomically(image->folder_ / "manifest", encode(image->manifest_)));
    return image;
}

Result<void> Image::open_files() {
    const std::size_t units = layout_.units.size();
    CHAOS_TRY(here_fd_, open_sized(folder_ / "here", units));
    if (::flock(here_fd_, LOCK_EX | LOCK_NB) != 0)
        return Error{"the model's image in " + folder_.string() +
                     " is in use by another process: name another folder for one of them"};
    CHAOS_TRY(image_fd_, open_sized(folder_ / "image", layout_.bytes));
    std::vector<std::byte> marks(units);
    CHAOS_CHECK(read_at(here_fd_, 0, marks, folder_ / "here"));
    here_ = std::make_unique<std::atomic<bool>[]>(units);
    for (std::size_t unit = 0; unit < units; ++unit) here_[unit] = marks[unit] == std::byte{1};
    return {};
}

Image::~Image() {
    if (image_fd_ >= 0) ::close(image_fd_);
    if (here_fd_ >= 0) ::close(here_fd_);
}

Result<void> Image::mark(std::size_t unit, bool here) {
    const std::byte value{here};
    if (!here) here_[unit] = false;
    CHAOS_CHECK(write_at(here_fd_, unit, {&value, 1}, folder_ / "here"));
    here_[unit] = here;
    return {};
}

Result<void> Image::read(std::size_t unit, std::span<std::byte> to) const {
    CHAOS_ASSERT(to.size() == layout_.units[unit].bytes);
    CHAOS_CHECK(read_at(image_fd_, layout_.units[unit].offset, to, folder_ / "image"));
    // Marks go before bytes do.
    if (!has(unit)) return Error{"unit " + std::to_string(unit) + " is not in " + folder_.string()};
    return {};
}

Result<bool> Image::keep(std::size_t unit, std::span<const std::byte> bytes) {
    if (bytes.size() != layout_.units[unit].bytes || hash_of(bytes) != manifest_.hashes[unit]) return false;
    const std::lock_guard lock(bytes_change_);
    CHAOS_CHECK(write_at(image_fd_, layout_.units[unit].offset, bytes, folder_ / "image"));
    CHAOS_CHECK(mark(unit, true));
    return true;
}

Result<void> Image::forget(std::size_t unit) {
    return mark(unit, false);
}

std::vector<bool> Image::missing(const std::vector<bool>& wanted) const {
    std::vector<bool> result = wanted;
    for (std::size_t unit = 0; unit < result.size(); ++unit) result[unit] = result[unit] && !has(unit);
    return result;
}

// By the limit and by the disk.
Result<bool> Image::has_room(const std::vector<bool>& wanted) const {
    const std::uint64_t to_come = bytes_of(layout_, missing(wanted));
    CHAOS_TRY(const std::vector<fs::path> models, model_folders(store_));
    std::uint64_t used = 0;
    for (const fs::path& model : models) used += disk_bytes(model);
    std::error_code error;
    const fs::space_info space = fs::space(store_, error);
    if (error) return Error{"cannot tell the room in " + store_.string() + ": " + error.message()};
    return to_come <= space.available && (limit_bytes_ == no_limit_bytes || used + to_come <= limit_bytes_);
}

Result<void> Image::make_room(const std::vector<bool>& wanted) {
    const std::uint64_t needed = bytes_of(layout_, wanted);
    if (needed > limit_bytes_)
        return Error{"this node's part of the model has " + bytes_text(needed) + ", and no more than " +
                     bytes_text(limit_bytes_) + " may be kept in " + store_.string()};
    CHAOS_TRY(bool enough, has_room(wanted));
    if (enough) return {};
    CHAOS_CHECK(let_go_of_others(wanted));
    CHAOS_TRY(std::vector<fs::path> models, model_folders(store_));
    std::ranges::sort(models, {}, last_used);
    for (const fs::path& model : models) {
        CHAOS_TRY(enough, has_room(wanted));
        if (enough) return {};
        if (model.filename() != folder_.filename()) CHAOS_CHECK(remove_model(model));
    }
    CHAOS_TRY(enough, has_room(wanted));
    if (enough) return {};
    const std::uint64_t to_come = bytes_of(layout_, missing(wanted));
    return Error{"this node's part of the model needs " + bytes_text(to_come) + " more in " + store_.string() +
                 ", where nothing more can go: make room, allow more, or name another folder"};
}

// Holes where units are not wanted, whether they count as here or not.
Result<void> Image::let_go_of_others(const std::vector<bool>& wanted) {
    const std::lock_guard lock(bytes_change_);
    for (std::size_t unit = 0; unit < wanted.size(); ++unit)
        if (!wanted[unit] && has(unit)) CHAOS_CHECK(mark(unit, false));
    for (std::size_t first = 0; first < wanted.size();) {
        std::size_t last = first;
        while (last < wanted.size() && wanted[last] == wanted[first]) ++last;
        const std::uint64_t begin = layout_.units[first].offset;
        const std::uint64_t bytes = layout_.units[last - 1].end() - begin;
        if (!wanted[first] && ::fallocate(image_fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                          static_cast<off_t>(begin), static_cast<off_t>(bytes)) != 0)
            return system_error("cannot make holes in", folder_ / "image", errno);
        first = last;
    }
    return {};
}

Result<std::size_t> Image::check(const std::vector<bool>& wanted, Pool& pool, const Progress& progress) {
    constexpr std::size_t units_at_once = 128;
    std::vector<std::size_t> units;
    std::uint64_t all = 0;
    for (std::size_t unit = 0; unit < wanted.size(); ++unit) {
        if (!wanted[unit] || !has(unit)) continue;
        units.push_back(unit);
        all += layout_.units[unit].bytes;
    }
    std::uint64_t done = 0;
    std::size_t wrong = 0;
    std::optional<Error> error;
    std::mutex told;  // threads of the pool count together
    for (std::size_t first = 0; first < units.size(); first += units_at_once) {
        pool.run(std::min(units_at_once, units.size() - first), [&](std::size_t i) {
            const std::size_t unit = units[first + i];
            std::vector<std::byte> bytes(layout_.units[unit].bytes);
            // What cannot be read is as good as wrong: it can be had again.
            const bool right = read(unit, bytes) && hash_of(bytes) == manifest_.hashes[unit];
            const Result<void> marked = right ? Result<void>() : forget(unit);
            const std::lock_guard lock(told);
            done += bytes.size();
            wrong += right ? 0 : 1;
            if (!marked) error = marked.error();
        });
        if (error) return *error;
        if (progress) progress(done, all);
    }
    return wrong;
}

Result<std::string> Image::text_of(const PlacedText& text) const {
    std::string content(text.bytes, '\0');
    CHAOS_CHECK(read_at(image_fd_, text.offset, std::as_writable_bytes(std::span(content)), folder_ / "image"));
    return content;
}

Result<ModelFile> Image::open_model() const {
    for (const PlacedText& text : layout_.texts) {
        CHAOS_TRY(const std::string content, text_of(text));
        const fs::path path = folder_ / text.name;
        CHAOS_CHECK(make_folder(path.parent_path()));
        CHAOS_CHECK(write_file_atomically(path, content));
    }
    CHAOS_TRY(MappedFile mapped, MappedFile::open(folder_ / "image"));
    ModelFile::Placed placed{.path = folder_,
                             .image_path = folder_ / "image",
                             .image = std::move(mapped),
                             .config = layout_.outline.config,
                             .tensors = {},
                             .text = std::nullopt,
                             .identity = identity_};
    for (const PlacedTensor& tensor : layout_.tensors) {
        StoredTensor stored = tensor.stored;
        stored.bytes = placed.image.bytes().subspan(tensor.offset, tensor.bytes);
        placed.tensors.emplace(tensor.shape.name, stored);
    }
    if (std::ranges::find(layout_.texts, std::string_view(gguf_text_name), &PlacedText::name) != layout_.texts.end()) {
        CHAOS_TRY(placed.text, Gguf::open(folder_ / gguf_text_name));
    }
    return ModelFile::of_image(std::move(placed));
}

}  // namespace chaos::infer
