#include "node/issued.h"

#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace chaos::node {
namespace {

namespace fs = std::filesystem;

fs::path list_beside(fs::path key_file) {
    return key_file.replace_extension(".issued");
}

std::string day_of(std::time_t time) {
    std::tm parts{};
    ::gmtime_r(&time, &parts);
    std::array<char, 16> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
    return text.data();
}

}  // namespace

Result<void> write_down(const fs::path& key_file, std::string_view kind, std::optional<net::UnixSeconds> until,
                        const net::PublicKey& key) {
    std::array<char, 160> line{};
    const int size = std::snprintf(line.data(), line.size(), "%s  %-11s  %-16s  %s\n",
                                   day_of(std::time(nullptr)).c_str(), std::string(kind).c_str(),
                                   until ? ("until " + day_of(*until)).c_str() : "", net::to_text(key).c_str());
    const fs::path path = list_beside(key_file);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) return Error{"cannot open " + path.string() + ": " + std::strerror(errno)};
    const off_t before = ::lseek(file, 0, SEEK_END);
    const bool written = ::write(file, line.data(), static_cast<std::size_t>(size)) == size && ::fsync(file) == 0;
    const int problem = errno;
    // Half a line would spoil the next one.
    const bool whole = written || ::ftruncate(file, before) == 0;
    ::close(file);
    if (written) return {};
    return Error{"cannot write " + path.string() + ": " + std::strerror(problem) +
                 (whole ? "" : "; its last line is not whole")};
}

Result<std::vector<std::string>> issued(const fs::path& key_file) {
    std::vector<std::string> lines;
    const fs::path path = list_beside(key_file);
    if (!fs::exists(path)) return lines;
    const auto text = read_file(path);
    if (!text) return text.error();
    for (std::size_t begin = 0; begin < text->size();) {
        const std::size_t end = std::min(text->find('\n', begin), text->size());
        lines.push_back(text->substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

}  // namespace chaos::node
