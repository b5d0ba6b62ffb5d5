#include "run/glob.h"

#include <algorithm>
#include <string>
#include <system_error>

namespace chaos::run {

bool has_wildcard(std::string_view name) {
    return name.find_first_of("*?") != std::string_view::npos;
}

bool matches(std::string_view pattern, std::string_view name) {
    if (name.starts_with('.') && !pattern.starts_with('.')) return false;
    // On a mismatch only the latest star has to take one character more: an earlier one could win nothing by it.
    std::size_t p = 0;
    std::size_t n = 0;
    std::size_t after_star = std::string_view::npos;
    std::size_t star_end = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            after_star = ++p;
            star_end = n;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
            ++p;
            ++n;
        } else if (after_star != std::string_view::npos) {
            p = after_star;
            n = ++star_end;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Result<std::vector<std::filesystem::path>> matching_files(const std::filesystem::path& folder,
                                                          std::string_view pattern) {
    namespace fs = std::filesystem;
    std::vector<fs::path> files;
    std::error_code code;
    const fs::path listed = folder.empty() ? fs::path(".") : folder;
    fs::directory_iterator item(listed, code);
    for (; !code && item != fs::directory_iterator(); item.increment(code)) {
        const fs::path name = item->path().filename();
        std::error_code unreadable;
        if (matches(pattern, name.native()) && item->is_regular_file(unreadable)) files.push_back(folder / name);
    }
    if (code) return Error{"cannot list " + listed.string() + ": " + code.message()};
    std::ranges::sort(files, {}, [](const fs::path& file) { return file.native(); });
    return files;
}

}  // namespace chaos::run
