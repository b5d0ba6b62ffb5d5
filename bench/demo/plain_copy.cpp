#include "plain_copy.h"

#include "testbed/process.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <chrono>
#include <thread>
#include <vector>

namespace chaos::bench {
namespace {

using testbed::Descriptor;
using testbed::system_error;

struct Listener {
    Descriptor socket;
    sockaddr_in address{};
};

Result<Listener> listen_anywhere() {
    Listener listener{.socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .address = {}};
    listener.address.sin_family = AF_INET;
    listener.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = reinterpret_cast<sockaddr*>(&listener.address);
    socklen_t length = sizeof listener.address;
    if (::bind(listener.socket.get(), address, length) != 0 || ::listen(listener.socket.get(), 1) != 0 ||
        ::getsockname(listener.socket.get(), address, &length) != 0)
        return system_error("cannot listen on the loopback device");
    return listener;
}

// Answers byte for byte, then sends.
void send(const Listener& listener, std::uint64_t bytes, unsigned round_trips) {
    const Descriptor peer(::accept(listener.socket.get(), nullptr, nullptr));
    char byte = 0;
    for (unsigned i = 0; i < round_trips; ++i)
        if (::recv(peer.get(), &byte, 1, 0) != 1 || ::send(peer.get(), &byte, 1, MSG_NOSIGNAL) != 1) return;
    const std::vector<char> content(std::size_t{256} << 10);
    while (bytes > 0) {
        const ssize_t sent =
            ::send(peer.get(), content.data(), std::min<std::uint64_t>(bytes, content.size()), MSG_NOSIGNAL);
        if (sent <= 0) return;
        bytes -= static_cast<std::uint64_t>(sent);
    }
}

// How much came.
std::uint64_t receive(const Listener& from, unsigned round_trips) {
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto* address = reinterpret_cast<const sockaddr*>(&from.address);
    if (::connect(socket.get(), address, sizeof from.address) != 0) return 0;
    char byte = 0;
    for (unsigned i = 0; i < round_trips; ++i)
        if (::send(socket.get(), &byte, 1, MSG_NOSIGNAL) != 1 || ::recv(socket.get(), &byte, 1, 0) != 1) return 0;
    std::vector<char> content(std::size_t{256} << 10);
    std::uint64_t all = 0;
    for (ssize_t got = 1; got > 0; all += static_cast<std::uint64_t>(std::max<ssize_t>(got, 0)))
        got = ::recv(socket.get(), content.data(), content.size(), 0);
    return all;
}

}  // namespace

Result<double> plain_copy(std::uint64_t bytes, unsigned senders, unsigned round_trips) {
    std::vector<Listener> listeners;
    for (unsigned i = 0; i < senders; ++i) {
        CHAOS_TRY(Listener listener, listen_anywhere());
        listeners.push_back(std::move(listener));
    }
    const std::uint64_t each = bytes / senders;
    std::vector<std::uint64_t> received(senders);
    const auto begun = std::chrono::steady_clock::now();
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < senders; ++i) {
            threads.emplace_back([&, i] { send(listeners[i], each, round_trips); });
            threads.emplace_back([&, i] { received[i] = receive(listeners[i], round_trips); });
        }
    }
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    for (const std::uint64_t came : received)
        if (came != each) return Error{"the loopback device does not carry what is sent"};
    return took;
}

}  // namespace chaos::bench
