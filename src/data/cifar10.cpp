#include "data/content_hash.h"
#include "data/images.h"
#include "data/kinds.h"
#include "data/source_file.h"

#include <string>

namespace chaos::data {
namespace {

constexpr ImageSize cifar_size{3, 32, 32};
constexpr std::size_t pixel_bytes = std::size_t{3} * 32 * 32;
constexpr std::size_t record_bytes = 1 + pixel_bytes;
constexpr std::uint8_t classes = 10;

Result<void> add_records(const SourceFile& file, Images& images) {
    const std::span<const std::byte> bytes = file.bytes();
    if (bytes.size() % record_bytes != 0) {
        return source_error(file, "is not a CIFAR-10 batch: its " + std::to_string(bytes.size()) +
                                      " bytes are not a multiple of the " + std::to_string(record_bytes) +
                                      " of a record");
    }
    const auto* records = reinterpret_cast<const std::uint8_t*>(bytes.data());
    for (std::size_t record = 0; record < bytes.size() / record_bytes; ++record) {
        const std::uint8_t* label = records + record * record_bytes;
        if (*label >= classes) {
            return source_error(file, "has the label " + std::to_string(*label) + " in record " +
                                          std::to_string(record) + ", counted from 0; CIFAR-10's labels end at 9");
        }
        images.labels.push_back(*label);
        images.pixels.insert(images.pixels.end(), label + 1, label + record_bytes);
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_cifar10(const run::Data& data) {
    CHAOS_CHECK(check_named(data.files));
    std::vector<SourceFile> files;
    std::size_t total_bytes = 0;
    for (const auto& path : data.files) {
        CHAOS_TRY(SourceFile file, open_source(path, "data.files"));
        total_bytes += file.bytes().size();
        files.push_back(std::move(file));
    }
    Sha256 content;
    add_text(content, "kind", "cifar10");
    Images images;
    images.size = cifar_size;
    images.classes = classes;
    images.pixels.reserve(total_bytes);
    images.labels.reserve(total_bytes / record_bytes);
    for (const SourceFile& file : files) {
        CHAOS_CHECK(add_records(file, images));
        add_bytes(content, "file", file.bytes());
    }
    return image_dataset(std::move(images), data.held_out, std::move(content));
}

}  // namespace chaos::data
