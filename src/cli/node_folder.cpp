#include "cli/node_folder.h"

#include "base/file.h"
#include "base/words.h"
#include "node/control_place.h"

#include <string>
#include <string_view>
#include <vector>

namespace chaos::cli {
namespace {

bool holds_a_node(const std::filesystem::path& dir) {
    std::error_code unreadable;  // then it is not the user's node
    return std::filesystem::is_socket(dir / node::control_socket_name, unreadable);
}

}  // namespace

Result<std::filesystem::path> node_folder(const std::filesystem::path& given, const std::filesystem::path& preset,
                                          const std::filesystem::path& current) {
    if (!given.empty()) return given;
    if (!preset.empty()) return preset;
    if (holds_a_node(current)) return current;
    CHAOS_TRY(const std::vector<std::string> names, list_folder(current));
    std::vector<std::string> found;
    for (const std::string& name : names)
        if (holds_a_node(current / name)) found.push_back(name);
    if (found.size() == 1) return current / found.front();
    if (found.empty()) return Error{"no node runs here; say where it does with --dir DIR or in $CHAOS_DIR"};
    const std::vector<std::string_view> candidates(found.begin(), found.end());
    return Error{"several nodes run here; say which with --dir " + one_of(candidates)};
}

}  // namespace chaos::cli
