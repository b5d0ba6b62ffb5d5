// The IDX format: two zero bytes, the type of the values, the number of extents, the extents as big-endian 32-bit
// integers, the values. Images have the extents [n, rows, columns] or [n, channels, rows, columns], labels [n].
#include "data/byte_source.h"
#include "data/content_hash.h"
#include "data/images.h"
#include "data/kinds.h"
#include "data/source_file.h"

#include <algorithm>
#include <array>
#include <string>

namespace chaos::data {
namespace {

constexpr std::size_t max_extents = 4;

struct Header {
    std::array<std::uint64_t, max_extents> extents{};
    std::size_t count = 0;  // of extents

    [[nodiscard]] std::uint64_t items() const { return extents[0]; }
    [[nodiscard]] std::uint64_t header_bytes() const { return 4 + 4 * count; }
    [[nodiscard]] bool are_labels() const { return count == 1; }
    [[nodiscard]] bool are_images() const { return count == 3 || count == 4; }
    [[nodiscard]] ImageSize image_size() const {
        const auto extent = [&](std::size_t from_end) { return static_cast<std::int64_t>(extents[count - from_end]); };
        return {count == 4 ? extent(3) : 1, extent(2), extent(1)};
    }
};

// An IDX file whose header has been read; `source` stands at the first value.
struct IdxFile {
    SourceFile file;
    std::unique_ptr<ByteSource> source;
    Header header;
};

// Fills `out` from byte `at` of the file.
Result<void> read_header_bytes(IdxFile& idx, std::size_t at, std::span<std::byte> out) {
    const auto got = idx.source->read(out);
    if (!got) return source_error(idx.file, got.error().message);
    if (*got == out.size()) return {};
    return source_error(idx.file, "is cut short: " + std::to_string(at + *got) + " bytes are there, " +
                                      std::to_string(at + out.size()) + " are expected for its IDX header alone");
}

Result<void> read_header(IdxFile& idx) {
    std::array<std::byte, 4> magic{};
    CHAOS_CHECK(read_header_bytes(idx, 0, magic));
    constexpr std::byte unsigned_bytes{0x08};
    if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
        return source_error(idx.file, "is not an IDX file: it does not start with two zero bytes");
    }
    if (magic[2] != unsigned_bytes) {
        return source_error(idx.file, "holds values of the IDX type " + std::to_string(std::to_integer<int>(magic[2])) +
                                          "; only unsigned bytes (type 8) can be used");
    }
    idx.header.count = std::to_integer<std::size_t>(magic[3]);
    if (!idx.header.are_labels() && !idx.header.are_images()) {
        return source_error(
            idx.file, "has " + std::to_string(idx.header.count) + " dimensions; images have 3 or 4, labels have 1");
    }
    std::array<std::byte, 4 * max_extents> extents{};
    CHAOS_CHECK(read_header_bytes(idx, magic.size(), std::span(extents).first(4 * idx.header.count)));
    for (std::size_t i = 0; i < 4 * idx.header.count; ++i) {
        std::uint64_t& extent = idx.header.extents[i / 4];
        extent = extent << 8 | std::to_integer<std::uint64_t>(extents[i]);
    }
    return {};
}

Result<IdxFile> open_idx_file(const std::filesystem::path& path, const std::string& key) {
    CHAOS_TRY(SourceFile file, open_source(path, key));
    const std::span<const std::byte> bytes = file.bytes();
    IdxFile idx{std::move(file), std::make_unique<ByteSource>(bytes), {}};
    CHAOS_CHECK(read_header(idx));
    return idx;
}

// How many bytes follow the header by its own claim.
Result<std::uint64_t> value_bytes(const IdxFile& idx) {
    constexpr std::uint64_t max_value_bytes = std::uint64_t{1} << 62;  // the product must not wrap around
    std::uint64_t bytes = 1;
    for (std::size_t i = 0; i < idx.header.count; ++i) {
        if (idx.header.extents[i] == 0) return source_error(idx.file, "is empty: an extent in its header is 0");
        if (idx.header.extents[i] > max_value_bytes / bytes) {
            return source_error(idx.file, "has a damaged header: it describes more bytes than can exist");
        }
        bytes *= idx.header.extents[i];
    }
    return bytes;
}

// Appends the values to `out`. The header's claim bounds what is unpacked, the file's size bounds what the claim can
// make us reserve; memory is touched piece by piece, as far as there are values.
Result<void> read_values(IdxFile& idx, std::vector<std::uint8_t>& out) {
    constexpr std::uint64_t max_piece_bytes = std::uint64_t{1} << 20;
    CHAOS_TRY(const std::uint64_t expected, value_bytes(idx));
    const std::uint64_t limit = std::min<std::uint64_t>(expected, idx.source->at_most());
    out.reserve(out.size() + limit);
    std::uint64_t filled = 0;
    for (bool ended = false; !ended && filled < limit;) {
        const std::size_t piece = std::min(limit - filled, max_piece_bytes);
        const std::size_t before = out.size();
        out.resize(before + piece);
        const auto got = idx.source->read(std::as_writable_bytes(std::span(out)).subspan(before));
        if (!got) return source_error(idx.file, got.error().message);
        filled += *got;
        ended = *got < piece;
    }
    const std::uint64_t expected_in_all = idx.header.header_bytes() + expected;
    const std::string bytes = idx.source->is_gzip() ? " bytes unpacked" : " bytes";
    if (filled < expected) {
        return source_error(idx.file, "is cut short: " + std::to_string(idx.header.header_bytes() + filled) + bytes +
                                          " are there, " + std::to_string(expected_in_all) + " are expected");
    }
    std::array<std::byte, 1> beyond{};
    const auto more = idx.source->read(beyond);
    if (!more) return source_error(idx.file, more.error().message);
    if (*more > 0) {
        return source_error(
            idx.file, "is longer than the " + std::to_string(expected_in_all) + bytes + " that its header describes");
    }
    if (idx.source->cut_short()) return source_error(idx.file, "is cut short: its gzip checksum is missing");
    return {};
}

// Appends the images and labels of one pair of files.
Result<void> add_pair(const std::filesystem::path& image_path, const std::filesystem::path& label_path, Images& images,
                      Sha256& content) {
    CHAOS_TRY(IdxFile pictures, open_idx_file(image_path, "data.files"));
    if (!pictures.header.are_images()) return source_error(pictures.file, "is a label file, not an image file");
    CHAOS_TRY(IdxFile labels, open_idx_file(label_path, "data.labels"));
    if (!labels.header.are_labels()) return source_error(labels.file, "is an image file, not a label file");
    if (pictures.header.items() != labels.header.items()) {
        return source_error(labels.file, "has " + std::to_string(labels.header.items()) + " labels, but " +
                                             image_path.string() + " has " + std::to_string(pictures.header.items()) +
                                             " images");
    }
    const ImageSize size = pictures.header.image_size();
    if (images.labels.empty()) {
        images.size = size;
    } else if (size != images.size) {
        return source_error(pictures.file,
                            "has images of " + size.text() + ", but the files before it of " + images.size.text());
    }
    // Labels first: they are small, and a pair that does not belong together fails before the images are unpacked.
    CHAOS_CHECK(read_values(labels, images.labels));
    CHAOS_CHECK(read_values(pictures, images.pixels));
    add_bytes(content, "images", pictures.file.bytes());
    add_bytes(content, "labels", labels.file.bytes());
    return {};
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_idx(const run::Data& data) {
    CHAOS_CHECK(check_named(data.files));
    if (data.labels.size() != data.files.size()) {
        return Error{"data.labels must name one file for each of data.files; it names " +
                     std::to_string(data.labels.size()) + ", data.files names " + std::to_string(data.files.size())};
    }
    Sha256 content;
    add_text(content, "kind", "idx");
    Images images;
    for (std::size_t i = 0; i < data.files.size(); ++i) {
        CHAOS_CHECK(add_pair(data.files[i], data.labels[i], images, content));
    }
    // One class alone is nothing to learn, and losses over it are degenerate.
    images.classes = std::max<std::int64_t>(2, 1 + *std::max_element(images.labels.begin(), images.labels.end()));
    return image_dataset(std::move(images), data.held_out, std::move(content));
}

}  // namespace chaos::data
