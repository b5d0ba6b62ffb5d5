#include "data/source_file.h"

namespace chaos::data {

Result<SourceFile> open_source(const std::filesystem::path& path, const std::string& key) {
    auto map = MappedFile::open(path);
    if (!map) return Error{map.error().message + " (" + key + ")"};
    SourceFile file{path, key, std::move(map).value()};
    if (file.bytes().empty()) return source_error(file, "is empty");
    return file;
}

Error source_error(const SourceFile& file, const std::string& what) {
    return Error{file.path.string() + " " + what + " (" + file.key + ")"};
}

Result<void> check_named(const std::vector<std::filesystem::path>& files) {
    if (files.empty()) return Error{"data.files is empty; it must name at least one file"};
    return {};
}

}  // namespace chaos::data
