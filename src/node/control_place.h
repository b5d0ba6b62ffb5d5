// Where a node's control socket lies: DIR/control.sock, however long DIR's path is.
#pragma once

#include "base/result.h"

#include <sys/un.h>
#include <filesystem>

namespace chaos::node {

inline constexpr const char* control_socket_name = "control.sock";

// The folder stays open, so that the socket is found again if the folder is moved.
class ControlPlace {
public:
    static Result<ControlPlace> open(const std::filesystem::path& dir);
    ~ControlPlace();
    ControlPlace(ControlPlace&& other) noexcept;
    ControlPlace& operator=(ControlPlace&& other) noexcept;

    [[nodiscard]] int folder() const { return folder_; }
    // To bind or to connect to, while this object lives.
    [[nodiscard]] sockaddr_un address() const;
    [[nodiscard]] std::filesystem::path path() const { return dir_ / control_socket_name; }

private:
    ControlPlace(std::filesystem::path dir, int folder) : dir_(std::move(dir)), folder_(folder) {}
    std::filesystem::path dir_;
    int folder_ = -1;
};

}  // namespace chaos::node
