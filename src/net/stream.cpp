#include "net/stream.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <sys/socket.h>
#include <sys/uio.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace chaos::net {
namespace {

constexpr std::size_t record_bytes = 16 << 10;  // TLS's largest
constexpr std::size_t turn_bytes = 256 << 10;   // about a tenth of a millisecond
constexpr std::size_t call_bytes = 4 << 10;     // what a call that moves next to nothing counts for

Error closed() {
    return Error{"the other end closed the connection"};
}

Error closed_here() {
    return Error{"this end closed the connection"};
}

Error failed(int problem) {
    return Error{std::strerror(problem)};
}

// Called by OpenSSL for every message of TLS's own. A peer that sends nothing else, new keys for example, would keep us
// inside OpenSSL for as long as it likes: that counts as the end of the connection.
void count_own_message(int sent, int, int kind, const void*, std::size_t, SSL* session, void* count) {
    constexpr std::uint32_t most_in_a_row = 64;
    if (sent != 0 || kind != SSL3_RT_HANDSHAKE) return;
    if (++*static_cast<std::uint32_t*>(count) > most_in_a_row) SSL_set_shutdown(session, SSL_RECEIVED_SHUTDOWN);
}

}  // namespace

Stream::Stream(tcp::socket socket, const Tls* tls, bool dialled)
    : socket_(std::move(socket)), session_(nullptr, [](ssl_st*) {}) {
    socket_.non_blocking(true);
    socket_.set_option(tcp::no_delay(true));
    if (tls == nullptr) return;
    session_ = tls->session(socket_.native_handle(), dialled);
    SSL_set_msg_callback(session_.get(), count_own_message);
    SSL_set_msg_callback_arg(session_.get(), &own_messages_);
}

Stream::~Stream() = default;

awaitable<Result<void>> Stream::wait(tcp::socket::wait_type what) {
    unbroken_bytes_ = 0;
    const auto [problem] = co_await socket_.async_wait(what, asio::as_tuple(asio::use_awaitable));
    if (problem) co_return Error{problem.message()};
    co_return Result<void>{};
}

bool Stream::others_turn(std::size_t bytes) {
    unbroken_bytes_ += bytes + call_bytes;
    return unbroken_bytes_ >= turn_bytes;
}

awaitable<void> Stream::let_others() {
    unbroken_bytes_ = 0;
    co_await asio::post(socket_.get_executor(), asio::use_awaitable);
}

awaitable<Result<void>> Stream::after(int outcome) {
    switch (SSL_get_error(session_.get(), outcome)) {
        case SSL_ERROR_WANT_READ:
            co_return co_await wait(tcp::socket::wait_read);
        case SSL_ERROR_WANT_WRITE:
            co_return co_await wait(tcp::socket::wait_write);
        case SSL_ERROR_ZERO_RETURN:
            co_return closed();
        case SSL_ERROR_SYSCALL:
            co_return errno == 0 ? closed() : failed(errno);
        default: {
            const unsigned long code = ERR_peek_error();
            if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) co_return closed();
            const char* reason = ERR_reason_error_string(code);
            co_return Error{std::string("TLS: ") + (reason != nullptr ? reason : "unknown")};
        }
    }
}

awaitable<Result<Proven>> Stream::handshake() {
    if (session_ == nullptr) co_return Proven{};
    while (socket_.is_open()) {
        ERR_clear_error();
        const int done = SSL_do_handshake(session_.get());
        if (done == 1) co_return proven_by(session_.get());
        if (const Result<void> waited = co_await after(done); !waited) co_return waited.error();
    }
    co_return closed_here();
}

awaitable<Result<std::size_t>> Stream::read_some(std::span<std::byte> into) {
    if (others_turn(0)) co_await let_others();
    // The session knows its socket by a number, which another may have as soon as this one is closed.
    while (socket_.is_open()) {
        if (session_ != nullptr) {
            ERR_clear_error();
            std::size_t got = 0;
            const int done = SSL_read_ex(session_.get(), into.data(), into.size(), &got);
            if (done == 1) {
                own_messages_ = 0;
                unbroken_bytes_ += got;
                co_return got;
            }
            if (const Result<void> waited = co_await after(done); !waited) co_return waited.error();
            continue;
        }
        const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
        if (got > 0) {
            unbroken_bytes_ += static_cast<std::size_t>(got);
            co_return static_cast<std::size_t>(got);
        }
        if (got == 0) co_return closed();
        if (errno == EINTR) continue;
        if (errno != EAGAIN) co_return failed(errno);
        if (const Result<void> waited = co_await wait(tcp::socket::wait_read); !waited) co_return waited.error();
    }
    co_return closed_here();
}

awaitable<Result<void>> Stream::read(std::span<std::byte> into) {
    while (!into.empty()) {
        const Result<std::size_t> got = co_await read_some(into);
        if (!got) co_return got.error();
        into = into.subspan(*got);
    }
    co_return Result<void>{};
}

awaitable<Result<void>> Stream::write_encrypted(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        if (!socket_.is_open()) co_return closed_here();
        ERR_clear_error();
        std::size_t sent = 0;
        const int done = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &sent);
        if (done == 1) {
            bytes = bytes.subspan(sent);
            if (others_turn(sent)) co_await let_others();
        } else if (const Result<void> waited = co_await after(done); !waited) {
            co_return waited.error();
        }
    }
    co_return Result<void>{};
}

awaitable<Result<void>> Stream::write_plain(std::span<const std::byte> head, std::span<const std::byte> body) {
    while (!head.empty() || !body.empty()) {
        if (!socket_.is_open()) co_return closed_here();
        std::array<iovec, 2> parts{};
        parts[0] = {.iov_base = const_cast<std::byte*>(head.data()), .iov_len = head.size()};
        parts[1] = {.iov_base = const_cast<std::byte*>(body.data()), .iov_len = body.size()};
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = parts.size();
        const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
        if (sent >= 0) {
            const std::size_t of_head = std::min(head.size(), static_cast<std::size_t>(sent));
            head = head.subspan(of_head);
            body = body.subspan(static_cast<std::size_t>(sent) - of_head);
            if (others_turn(static_cast<std::size_t>(sent))) co_await let_others();
        } else if (errno == EAGAIN) {
            if (const Result<void> waited = co_await wait(tcp::socket::wait_write); !waited) co_return waited.error();
        } else if (errno != EINTR) {
            co_return failed(errno);
        }
    }
    co_return Result<void>{};
}

awaitable<Result<void>> Stream::write(std::span<const std::byte> head, std::span<const std::byte> body) {
    if (session_ == nullptr) co_return co_await write_plain(head, body);
    if (!head.empty() && !body.empty()) {
        // A record of its own for a short head would cost a system call and a packet.
        const std::size_t beginning = std::min(body.size(), record_bytes - std::min(record_bytes, head.size()));
        joined_.assign(head.begin(), head.end());
        joined_.insert(joined_.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(beginning));
        if (const Result<void> sent = co_await write_encrypted(joined_); !sent) co_return sent.error();
        co_return co_await write_encrypted(body.subspan(beginning));
    }
    co_return co_await write_encrypted(head.empty() ? body : head);
}

void Stream::close() {
    boost::system::error_code ignored;  // closing what is closed already is no mistake
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
}

}  // namespace chaos::net
