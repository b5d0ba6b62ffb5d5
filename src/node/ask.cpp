#include "node/ask.h"

#include "node/control_place.h"

#include <nlohmann/json.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace chaos::node {
namespace {

using nlohmann::json;

constexpr std::size_t max_line_bytes = 256U << 20;  // the status of the largest cluster is far from it

class Call {
public:
    explicit Call(const std::filesystem::path& dir)
        : dir_(dir.string()), socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
    ~Call() {
        if (socket_ >= 0) ::close(socket_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    Result<void> connect(std::optional<std::chrono::milliseconds> patience);
    // The node may have answered and closed before it read everything: what it said is there to be read.
    void send(std::string_view text) const;
    // Up to the next line's end, without it. An empty one is the answer's end.
    Result<std::string> line(std::optional<std::chrono::milliseconds> patience);

private:
    [[nodiscard]] Error nobody() const;
    [[nodiscard]] Error silent() const;
    Result<void> wait(std::optional<std::chrono::milliseconds> patience) const;

    std::string dir_;
    int socket_;
    std::string received_;
};

Error Call::nobody() const {
    // What every node leaves in its folder.
    if (!std::filesystem::exists(std::filesystem::path(dir_) / "lock")) return Error{dir_ + " is no node's folder"};
    return Error{"no node runs in " + dir_ + " (start one: chaos up RUN.toml --dir " + dir_ + ")"};
}

Error Call::silent() const {
    return Error{"the node in " + dir_ + " does not answer; its process hangs or is stopped"};
}

Result<void> Call::connect(std::optional<std::chrono::milliseconds> patience) {
    if (socket_ < 0) return Error{std::string("cannot make a socket: ") + std::strerror(errno)};
    if (patience) {
        // Connecting waits, and so does sending, while a node that hangs has a long queue.
        timeval limit{};
        limit.tv_sec = patience->count() / 1000;
        limit.tv_usec = patience->count() % 1000 * 1000;
        if (::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
            return Error{std::string("cannot set a limit on a socket: ") + std::strerror(errno)};
    }
    CHAOS_TRY(const ControlPlace place, ControlPlace::open(dir_));
    const sockaddr_un address = place.address();
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return {};
    switch (errno) {
        case ENOENT:
        case ECONNREFUSED:  // left by a process that died
            return nobody();
        case EAGAIN:
        case ETIMEDOUT:
            return silent();
        case EACCES:
        case EPERM:
            return Error{"the node in " + dir_ + " belongs to another user, who alone may command it"};
        default:
            return Error{"cannot reach the node in " + dir_ + ": " + std::strerror(errno)};
    }
}

void Call::send(std::string_view text) const {
    while (!text.empty()) {
        const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return;
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
}

Result<void> Call::wait(std::optional<std::chrono::milliseconds> patience) const {
    pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, patience ? static_cast<int>(patience->count()) : -1);
    if (ready == 0) return silent();
    if (ready < 0 && errno != EINTR) return Error{"cannot wait for the node in " + dir_ + ": " + std::strerror(errno)};
    return {};
}

Result<std::string> Call::line(std::optional<std::chrono::milliseconds> patience) {
    std::array<char, 64 << 10> buffer{};
    std::size_t searched = 0;
    while (true) {
        if (const std::size_t end = received_.find('\n', searched); end != std::string::npos) {
            std::string found = received_.substr(0, end);
            received_.erase(0, end + 1);
            return found;
        }
        searched = received_.size();
        if (searched > max_line_bytes) return Error{"the node in " + dir_ + " sent a line without an end"};
        CHAOS_CHECK(wait(patience));
        const ssize_t got = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0)
            return Error{"the node in " + dir_ + " broke off its answer: it died, or this command read too slowly"};
        received_.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

}  // namespace

Result<void> ask(const std::filesystem::path& dir, const json& request, const OnLine& on_line,
                 std::optional<std::chrono::milliseconds> patience) {
    Call call(dir);
    CHAOS_CHECK(call.connect(patience));
    call.send(request.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
    while (true) {
        CHAOS_TRY(const std::string text, call.line(patience));
        if (text.empty()) return {};
        const json line = json::parse(text, nullptr, false);
        if (!line.is_object()) return Error{"what answers in " + dir.string() + " is no node: it sent no JSON object"};
        if (const auto error = line.find("error"); error != line.end() && error->is_string())
            return Error{error->get<std::string>()};
        CHAOS_CHECK(on_line(line));
    }
}

}  // namespace chaos::node
