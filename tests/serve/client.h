// A client that says exactly what a test tells it to.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace chaos::test {

struct Answer {
    int status = 0;  // 0: the connection ended before there was a whole one
    std::string head;
    std::string body;
};

class Client {
public:
    // A receive buffer of a few bytes makes the server notice early that a client does not read.
    explicit Client(std::uint16_t port, int receive_bytes = 0)
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
        EXPECT_TRUE(connect_to(socket_, port)) << std::strerror(errno);
    }
    // Whether anybody listens there.
    static bool connects(std::uint16_t port) {
        const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool done = connect_to(socket, port);
        ::close(socket);
        return done;
    }
    ~Client() { close(); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    void close() {
        if (socket_ >= 0) ::close(socket_);
        socket_ = -1;
    }
    // Says that it has nothing more to say.
    void finish() const { ::shutdown(socket_, SHUT_WR); }

    // False: the server has closed the connection.
    bool send(std::string_view text) const {
        while (!text.empty()) {
            const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }
    bool get(const std::string& path, const std::string& fields = "") const {
        return send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
    }
    bool post(const std::string& path, const std::string& body, const std::string& fields = "") const {
        return send("POST " + path +
                    " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
                    std::to_string(body.size()) + "\r\n" + fields + "\r\n" + body);
    }

    // Up to and with `end`; what there was, if the connection ended before.
    std::string read_until(const std::string& end) {
        while (received_.find(end) == std::string::npos && receive()) {
        }
        return take(std::min(received_.size(), received_.find(end) == std::string::npos
                                                   ? received_.size()
                                                   : received_.find(end) + end.size()));
    }
    // All that comes until the server closes the connection.
    std::string read_all() {
        while (receive()) {
        }
        return take(received_.size());
    }
    Answer read_answer() {
        Answer answer;
        answer.head = read_until("\r\n\r\n");
        if (!answer.head.ends_with("\r\n\r\n")) return {};
        std::from_chars(answer.head.data() + 9, answer.head.data() + 12, answer.status);
        if (answer.head.find("chunked") != std::string::npos) {
            while (true) {
                const std::string size = read_until("\r\n");
                if (!size.ends_with("\r\n")) return {};
                const std::size_t bytes = std::stoul(size, nullptr, 16);
                answer.body += read_bytes(bytes);
                if (read_bytes(2) != "\r\n") return {};
                if (bytes == 0) return answer;
            }
        }
        const std::size_t length = answer.head.find("Content-Length: ");
        if (length == std::string::npos) {
            answer.body = read_all();
            return answer;
        }
        const std::size_t bytes = std::stoul(answer.head.substr(length + 16));
        answer.body = read_bytes(bytes);
        return answer.body.size() == bytes ? answer : Answer{};
    }

private:
    static bool connect_to(int socket, std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    }
    bool receive() {
        std::array<char, 4096> buffer{};
        const ssize_t got = ::recv(socket_, buffer.data(), buffer.size(), 0);
        if (got <= 0) return false;
        received_.append(buffer.data(), static_cast<std::size_t>(got));
        return true;
    }
    std::string read_bytes(std::size_t bytes) {
        while (received_.size() < bytes && receive()) {
        }
        return take(std::min(bytes, received_.size()));
    }
    std::string take(std::size_t bytes) {
        std::string text = received_.substr(0, bytes);
        received_.erase(0, bytes);
        return text;
    }

    int socket_;
    std::string received_;
};

}  // namespace chaos::test
