#include "node/control_place.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <utility>

namespace chaos::node {

Result<ControlPlace> ControlPlace::open(const std::filesystem::path& dir) {
    const int folder = ::open(dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) return ControlPlace(dir, folder);
    if (errno == ENOENT) return Error{"the folder " + dir.string() + " does not exist"};
    if (errno == ENOTDIR) return Error{dir.string() + " is not a folder"};
    return Error{"cannot open the folder " + dir.string() + ": " + std::strerror(errno)};
}

ControlPlace::~ControlPlace() {
    if (folder_ >= 0) ::close(folder_);
}

ControlPlace::ControlPlace(ControlPlace&& other) noexcept
    : dir_(std::move(other.dir_)), folder_(std::exchange(other.folder_, -1)) {}

ControlPlace& ControlPlace::operator=(ControlPlace&& other) noexcept {
    std::swap(dir_, other.dir_);
    std::swap(folder_, other.folder_);
    return *this;
}

// The system takes 107 characters. A longer path is reached through the open folder.
sockaddr_un ControlPlace::address() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string name = path().string();
    if (name.size() >= sizeof address.sun_path)
        name = "/proc/self/fd/" + std::to_string(folder_) + "/" + control_socket_name;
    std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
    return address;
}

}  // namespace chaos::node
