#include "infer/packed_file.h"

#include "base/file.h"
#include "base/hash.h"
#include "infer/window_plan.h"

#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>
#include <type_traits>

namespace chaos::infer {
namespace {

constexpr std::uint32_t packed_file_version = 2;

// As it lies in the file, in the order of bytes of the machine that made it: another one finds another version.
struct Header {
    std::array<char, 8> magic{'c', 'h', 'a', 'o', 's', 'p', 'k', 'd'};
    std::uint32_t version = packed_file_version;
    std::uint32_t header_bytes = packed_file_header_bytes;
    std::uint64_t weight_bytes = 0;
    std::uint64_t file_bytes = 0;
    Digest identity{};
    bool operator==(const Header&) const = default;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 64);

template <class T>
void add_number(Sha256& hash, const T& value) {
    hash.add(std::as_bytes(std::span(&value, 1)));
}

Result<Digest> identity_of(const ModelFile& file, std::span<const PackedTensor> tensors) {
    Sha256 hash;
    add_number(hash, packed_file_version);
    // An image's file changes as units come and go, its weights do not.
    if (file.identity()) hash.add(std::as_bytes(std::span(*file.identity())));
    for (const std::filesystem::path& path : file.weight_paths()) {
        if (file.identity()) break;
        struct stat info{};
        if (::stat(path.c_str(), &info) != 0)
            return Error{"cannot read " + path.string() + ": " + std::strerror(errno)};
        add_number(hash, static_cast<std::uint64_t>(info.st_size));
        add_number(hash, static_cast<std::int64_t>(info.st_mtim.tv_sec));
        add_number(hash, static_cast<std::int64_t>(info.st_mtim.tv_nsec));
    }
    for (const PackedTensor& tensor : tensors) {
        const StoredTensor& stored = file.tensor(tensor.name);
        hash.add(tensor.name);
        for (const std::uint64_t number :
             {static_cast<std::uint64_t>(stored.type), stored.rows, stored.columns, stored.paired_head,
              tensor.first_row, tensor.first_column, tensor.shape.rows, tensor.shape.columns})
            add_number(hash, number);
        if (file.identity()) continue;
        hash.add(stored.bytes.first(std::min<std::size_t>(stored.bytes.size(), 4096)));
        release_mapped(stored.bytes);
    }
    return hash.finish();
}

Header header_of(const Digest& identity, std::uint64_t weight_bytes) {
    Header header;
    header.weight_bytes = weight_bytes;
    header.file_bytes =
        packed_file_header_bytes + (weight_bytes + direct_read_bytes - 1) / direct_read_bytes * direct_read_bytes;
    header.identity = identity;
    return header;
}

bool is_whole(const std::filesystem::path& path, const Header& wanted) {
    std::error_code error;
    if (std::filesystem::file_size(path, error) != wanted.file_bytes || error) return false;
    Header found;
    std::ifstream stream(path, std::ios::binary);
    std::array<char, sizeof(Header)> bytes{};
    if (!stream.read(bytes.data(), bytes.size())) return false;
    std::memcpy(&found, bytes.data(), bytes.size());
    return found == wanted;
}

Result<void> write_panels(const ModelFile& file, std::span<const PackedTensor> tensors, Pool& pool,
                          const Progress& progress, const Sink& sink) {
    const std::uint64_t all = packed_bytes(tensors);
    std::uint64_t done = 0;
    std::vector<std::byte> panels;
    for (const PackedTensor& tensor : tensors) {
        const std::size_t bytes = panel_bytes(tensor.shape.format, tensor.shape.columns);
        const std::size_t count = panels_of(tensor.shape.rows);
        const std::size_t step = panels_at_once(tensor);
        for (std::size_t first = 0; first < count; first += step) {
            panels.resize(std::min(step, count - first) * bytes);
            CHAOS_CHECK(pack_panels(file, tensor, first, panels.size() / bytes, pool, panels.data()));
            CHAOS_CHECK(sink(panels));
            done += panels.size();
            if (progress) progress(done, all);
        }
    }
    return {};
}

struct Kept {
    std::filesystem::path path;
    std::filesystem::file_time_type used;
    std::uint64_t bytes = 0;
};

// Every packed file of the folder but `mine`, and what is left of those whose maker was killed before it had done:
// used longest ago first.
Result<std::vector<Kept>> others_in(const std::filesystem::path& folder, const std::filesystem::path& mine) {
    constexpr std::string_view ending = ".packed";
    constexpr std::string_view half_made = ".packed.tmp-";
    const auto abandoned = [&](const std::string& name) {
        const std::size_t at = name.find(half_made);
        pid_t maker = 0;
        if (at != std::string::npos)
            std::from_chars(name.data() + at + half_made.size(), name.data() + name.size(), maker);
        return maker > 0 && ::kill(maker, 0) != 0 && errno == ESRCH;
    };
    CHAOS_TRY(const auto names, list_folder(folder));
    std::vector<Kept> others;
    for (const std::string& name : names) {
        Kept kept{.path = folder / name, .used = {}, .bytes = 0};
        const bool left = abandoned(name);
        if (!left && (!name.ends_with(ending) || kept.path == mine)) continue;
        std::error_code gone;  // somebody else removed it
        kept.bytes = std::filesystem::file_size(kept.path, gone);
        if (!gone) kept.used = std::filesystem::last_write_time(kept.path, gone);
        if (left) kept.used = std::filesystem::file_time_type::min();
        if (!gone) others.push_back(std::move(kept));
    }
    std::sort(others.begin(), others.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
    return others;
}

// What is free on the disk; without an answer, enough.
std::uint64_t free_bytes(const std::filesystem::path& folder) {
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(folder, error);
    return error ? std::numeric_limits<std::uint64_t>::max() : space.available;
}

// Makes room for `bytes` more; says how much is missing before it is filled.
Result<void> make_room(const PackedFolder& folder, const std::filesystem::path& mine, std::uint64_t bytes) {
    CHAOS_TRY(const std::vector<Kept> others, others_in(folder.path, mine));
    std::uint64_t sum = bytes;
    for (const Kept& kept : others) sum += kept.bytes;
    for (const Kept& kept : others) {
        const bool abandoned = kept.used == std::filesystem::file_time_type::min();
        if (!abandoned && sum <= folder.limit_bytes && free_bytes(folder.path) >= bytes) break;
        std::error_code error;
        std::filesystem::remove(kept.path, error);
        if (error) return Error{"cannot remove " + kept.path.string() + ": " + error.message()};
        sum -= kept.bytes;
    }
    if (const std::uint64_t free = free_bytes(folder.path); free < bytes)
        return Error{"the packed weights need " + bytes_text(bytes) + " in " + folder.path.string() + ", where " +
                     bytes_text(free) + " are free: make room, or name another folder by --cache"};
    return {};
}

}  // namespace

Result<std::filesystem::path> packed_file(const ModelFile& file, std::span<const PackedTensor> tensors,
                                          const PackedFolder& folder, Pool& pool, const Progress& progress) {
    CHAOS_TRY(const Digest identity, identity_of(file, tensors));
    const Header header = header_of(identity, packed_bytes(tensors));
    const std::filesystem::path path = folder.path / (hex(std::span(identity).first(16)) + ".packed");
    if (is_whole(path, header)) {
        std::error_code ignored;  // who may not write there may read there
        std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), ignored);
        return path;
    }
    CHAOS_CHECK(make_folder(folder.path));
    CHAOS_CHECK(make_room(folder, path, header.file_bytes));
    const auto fill = [&](const Sink& sink) -> Result<void> {
        std::array<std::byte, packed_file_header_bytes> first{};
        std::memcpy(first.data(), &header, sizeof header);
        CHAOS_CHECK(sink(first));
        CHAOS_CHECK(write_panels(file, tensors, pool, progress, sink));
        const std::array<std::byte, direct_read_bytes> zeros{};
        return sink(std::span(zeros).first(header.file_bytes - packed_file_header_bytes - header.weight_bytes));
    };
    CHAOS_CHECK(write_file_atomically(path, fill));
    return path;
}

}  // namespace chaos::infer
