// A byte stream between two nodes: a TCP connection with TLS on it, read and written by coroutines of the node's I/O
// loop. One reads and one writes. OpenSSL does not touch the socket: many records leave, and arrive, by one system
// call.
//
//   head, body ──► records ──► unsent ──► socket ──► received ──► records ──► where it is wanted
//
// Without TLS, in tests and benches only, bytes go straight from memory to the socket and back.
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
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // To be awaited first. Who is at the other end; in the clear, nobody in particular.
    awaitable<Result<Proven>> handshake();

    // At least one byte, at most all of `into`.
    awaitable<Result<std::size_t>> read_some(std::span<std::byte> into);
    awaitable<Result<void>> read(std::span<std::byte> into);
    // Both spans, one after the other. The head is short.
    awaitable<Result<void>> write(std::span<const std::byte> head, std::span<const std::byte> body);

    // The same for something short, without waiting, while nobody writes. False: not all of it could leave, or
    // nothing ever will; write() of what comes next, or of nothing, sends the rest first, or says what is wrong.
    [[nodiscard]] bool write_now(std::span<const std::byte> head, std::span<const std::byte> body);
    static constexpr std::size_t max_now_bytes = 16 << 10;
    [[nodiscard]] bool has_unsent() const;

    // Whatever is awaited ends with an error.
    void close();
    [[nodiscard]] tcp::socket& socket() { return socket_; }
    // The other end is on this machine: there is no line between, and no queue in front of one.
    [[nodiscard]] bool within_machine() const { return within_machine_; }

private:
    struct Records;  // what OpenSSL reads from and writes to

    // What can be had, or can leave, at once; 0: nothing.
    Result<std::size_t> receive_now(std::span<std::byte> into);
    Result<std::size_t> put(std::span<const std::byte> head, std::span<const std::byte> body);
    Result<std::size_t> open(std::span<std::byte> into);
    Result<void> put_unsent();
    Result<void> seal(std::span<const std::byte> bytes);
    Result<void> seal_beginning(std::span<const std::byte> head, std::span<const std::byte>& body);
    [[nodiscard]] Result<void> after(int outcome) const;  // of an OpenSSL call that did not succeed

    awaitable<Result<std::size_t>> receive(std::span<std::byte> into);
    awaitable<Result<void>> receive_records();
    awaitable<Result<void>> wait_for_room();
    awaitable<Result<void>> flush();
    awaitable<Result<void>> write_encrypted(std::span<const std::byte> head, std::span<const std::byte> body);
    [[nodiscard]] bool others_turn(std::size_t bytes);
    awaitable<void> let_others();
    awaitable<Result<void>> write_plain(std::span<const std::byte> head, std::span<const std::byte> body);

    tcp::socket socket_;
    bool within_machine_ = false;
    std::unique_ptr<Records> records_;
    std::unique_ptr<ssl_st, void (*)(ssl_st*)> session_;
    std::uint32_t own_messages_ = 0;  // of TLS, since the last data; it must not move
    std::size_t unbroken_bytes_ = 0;  // read or written since others had their turn
    bool drained_ = false;            // the socket had no more to give
    std::vector<std::byte> joined_;   // a head and the beginning of its body, in one record
};

}  // namespace chaos::net
