// TCP between two hosts of a testbed, with both ends in the test's own process, so that one clock sees both.
#pragma once

#include "testbed/testbed.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
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

// How long datagrams are on their way, sorted. The kernel says when they arrived: how busy the machine keeps us does
// not count.
inline std::vector<double> datagram_delays_ms(const Testbed& testbed, const std::string& a, const std::string& b,
                                              int count) {
    Connection sockets;
    sockaddr_in address{};
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    must(testbed.inside(b, [&]() -> Result<void> {
        sockets.b = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        address.sin_family = AF_INET;
        ::inet_pton(AF_INET, testbed.address(b)->c_str(), &address.sin_addr);
        const int on = 1;
        must(::setsockopt(sockets.b.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0, "SO_TIMESTAMPNS");
        must(::bind(sockets.b.get(), generic, size) == 0, "bind");
        must(::getsockname(sockets.b.get(), generic, &size) == 0, "getsockname");
        return {};
    }));
    must(testbed.inside(a, [&]() -> Result<void> {
        sockets.a = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        must(::connect(sockets.a.get(), generic, size) == 0, "connect");
        return {};
    }));
    const auto in_ms = [](const timespec& time) {
        return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
    };
    std::vector<double> delays_ms;
    for (int i = 0; i < count; ++i) {
        timespec sent{};
        timespec arrived{};
        ::clock_gettime(CLOCK_REALTIME, &sent);
        send_byte(sockets.a);
        char byte = 0;
        iovec data{&byte, 1};
        alignas(cmsghdr) std::array<char, 256> control{};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        must(::recvmsg(sockets.b.get(), &message, 0) == 1, "recvmsg");
        const cmsghdr* stamp = CMSG_FIRSTHDR(&message);
        must(stamp != nullptr && stamp->cmsg_type == SCM_TIMESTAMPNS, "SCM_TIMESTAMPNS");
        std::memcpy(&arrived, CMSG_DATA(stamp), sizeof arrived);
        delays_ms.push_back(in_ms(arrived) - in_ms(sent));
    }
    std::sort(delays_ms.begin(), delays_ms.end());
    return delays_ms;
}

}  // namespace chaos::testbed::test
