#include "nodes/sever.h"

#include "testbed/process.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using testbed::Descriptor;
using testbed::system_error;

struct Connection {
    Descriptor socket;
    std::string here;
    std::string there;
};

// The bytes of an internet address, with its port.
std::optional<std::string> address_of(int socket, bool of_peer) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* bytes = reinterpret_cast<sockaddr*>(&address);
    if ((of_peer ? ::getpeername(socket, bytes, &length) : ::getsockname(socket, bytes, &length)) != 0) return {};
    if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return {};
    return std::string(reinterpret_cast<const char*>(&address), length);
}

// Descriptors come and go meanwhile: what cannot be had is gone.
Result<std::vector<Connection>> connections_of(pid_t process) {
    const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    if (handle.get() < 0) return system_error("cannot open process " + std::to_string(process));
    std::vector<Connection> connections;
    std::error_code gone;
    for (fs::directory_iterator at("/proc/" + std::to_string(process) + "/fd", gone), end; !gone && at != end;
         at.increment(gone)) {
        std::error_code closed;
        if (!fs::read_symlink(at->path(), closed).string().starts_with("socket:")) continue;
        const std::string name = at->path().filename();
        int number = -1;
        std::from_chars(name.data(), name.data() + name.size(), number);
        Descriptor socket(static_cast<int>(::syscall(SYS_pidfd_getfd, handle.get(), number, 0)));
        if (socket.get() < 0 && errno == EPERM) return system_error("may not take sockets of another process");
        if (socket.get() < 0) continue;
        const std::optional<std::string> here = address_of(socket.get(), false);
        const std::optional<std::string> there = address_of(socket.get(), true);
        if (here && there) connections.push_back({std::move(socket), *here, *there});
    }
    return connections;
}

}  // namespace

Result<std::size_t> sever(pid_t one, pid_t other) {
    CHAOS_TRY(const std::vector<Connection> ours, connections_of(one));
    CHAOS_TRY(const std::vector<Connection> theirs, connections_of(other));
    std::size_t count = 0;
    for (const Connection& mine : ours) {
        for (const Connection& yours : theirs) {
            if (mine.here != yours.there || mine.there != yours.here) continue;
            // One end's is enough, and it may be closing already.
            ::shutdown(mine.socket.get(), SHUT_RDWR);
            ++count;
        }
    }
    return count;
}

}  // namespace chaos::bench
