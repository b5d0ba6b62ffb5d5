// A byte stream between two nodes: a TCP connection with TLS on it, read and written by coroutines of the node's I/O
// loop. OpenSSL works on the socket itself, without buffers in between. Without TLS only in tests and benches.
//
// Streams take turns: one that always finds something to read or room to write still lets the others of the loop go on.
#pragma once

#include "net/tls.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace chaos::net {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;

class Stream {
public:
    // `tls` null: in the clear.
    Stream(tcp::socket socket, const Tls* tls, bool dialled);
    ~Stream();

    // To be awaited first. Who is at the other end; in the clear, nobody in particular.
    awaitable<Result<Proven>> handshake();

    // At least one byte, at most all of `into`.
    awaitable<Result<std::size_t>> read_some(std::span<std::byte> into);
    awaitable<Result<void>> read(std::span<std::byte> into);
    // Both spans, one after the other. The head is short.
    awaitable<Result<void>> write(std::span<const std::byte> head, std::span<const std::byte> body);

    // Whatever is awaited ends with an error.
    void close();
    [[nodiscard]] tcp::socket& socket() { return socket_; }

private:
    awaitable<Result<void>> wait(tcp::socket::wait_type what);
    awaitable<Result<void>> after(int outcome);  // of an OpenSSL call: waits for what it wants
    awaitable<Result<void>> write_encrypted(std::span<const std::byte> bytes);
    [[nodiscard]] bool others_turn(std::size_t bytes);
    awaitable<void> let_others();
    awaitable<Result<void>> write_plain(std::span<const std::byte> head, std::span<const std::byte> body);

    tcp::socket socket_;
    std::unique_ptr<ssl_st, void (*)(ssl_st*)> session_;
    std::uint32_t own_messages_ = 0;  // of TLS, since the last data; it must not move
    std::size_t unbroken_bytes_ = 0;  // read or written since others had their turn
    std::vector<std::byte> joined_;   // a head and the beginning of its body, in one record
};

}  // namespace chaos::net
