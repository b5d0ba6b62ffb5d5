// TCP between two hosts of a testbed, with both ends in the test's own process, so that one clock sees both.
#pragma once

#include "testbed/testbed.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace chaos::testbed::test {

using Clock = std::chrono::steady_clock;

inline void must(const Result<void>& result) {
    if (!result.ok()) throw std::runtime_error(result.error().message);
}
inline void must(bool done, const char* what) {
    if (!done) throw std::runtime_error(system_error(what).message);
}

// A connection that `a` dialled.
struct Connection {
    Descriptor a;
    Descriptor b;
};

inline Connection connect(const Testbed& testbed, const std::string& a, const std::string& b) {
    Connection connection;
    Descriptor listener;
    sockaddr_in address{};
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    must(testbed.inside(b, [&]() -> Result<void> {
        listener = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        address.sin_family = AF_INET;
        ::inet_pton(AF_INET, testbed.address(b)->c_str(), &address.sin_addr);
        must(::bind(listener.get(), generic, size) == 0 && ::listen(listener.get(), 1) == 0, "listen");
        must(::getsockname(listener.get(), generic, &size) == 0, "getsockname");
        return {};
    }));
    must(testbed.inside(a, [&]() -> Result<void> {
        connection.a = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        must(::connect(connection.a.get(), generic, size) == 0, "connect");
        return {};
    }));
    connection.b = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    for (const Descriptor* end : {&connection.a, &connection.b}) {
        const int on = 1;
        must(::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
    }
    return connection;
}

inline void send_byte(const Descriptor& socket) {
    must(::send(socket.get(), "x", 1, MSG_NOSIGNAL) == 1, "send");
}

// Waits for it.
inline void receive_byte(const Descriptor& socket) {
    char byte = 0;
    must(::recv(socket.get(), &byte, 1, 0) == 1, "recv");
}

// Neither data nor an end nor an error.
inline bool is_silent(const Descriptor& socket) {
    pollfd events{socket.get(), POLLIN | POLLRDHUP, 0};
    return ::poll(&events, 1, 0) == 0;
}

inline tcp_info info_of(const Descriptor& socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    must(::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0, "TCP_INFO");
    return info;
}

// Waits until the socket has sent something again because no answer came.
inline void wait_for_retries(const Descriptor& socket) {
    while (info_of(socket).tcpi_retransmits < 1) ::poll(nullptr, 0, 1);
}

// Reads `bytes` of an endless stream and returns at how many Mbit/s its frames came: 1448 bytes of data in 1514.
inline double receive_mbit(const Descriptor& socket, std::size_t bytes) {
    std::vector<char> buffer(1 << 16);
    std::size_t done = 0;
    const auto start = Clock::now();
    while (done < bytes) {
        const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
        must(got > 0, "recv");
        done += static_cast<std::size_t>(got);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return static_cast<double>(done) * 8e-6 / seconds * 1514.0 / 1448.0;
}

}  // namespace chaos::testbed::test
