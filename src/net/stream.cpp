#include "net/stream.h"

#include "base/assert.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
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

constexpr std::size_t record_bytes = 16 << 10;   // TLS's largest
constexpr std::size_t gather_bytes = 128 << 10;  // of records at once: they should still be in the cache when used
constexpr std::size_t turn_bytes = 256 << 10;    // about a tenth of a millisecond
constexpr std::size_t call_bytes = 4 << 10;      // what a call that moves next to nothing counts for

Error closed() {
    return Error{"the other end closed the connection"};
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

// OpenSSL judges a call by the errors that lie about, so there must be none before it. Looking is cheaper than
// clearing.
void forget_errors() {
    if (ERR_peek_error() != 0) ERR_clear_error();
}

}  // namespace

struct Stream::Records {
    std::vector<std::byte> unsent;  // must leave before anything else: sealed, unless in the clear
    std::size_t unsent_from = 0;    // what is before has left

    std::unique_ptr<std::byte[]> received;
    std::span<const std::byte> unread;  // of that

    static Records& of(BIO* bio) { return *static_cast<Records*>(BIO_get_data(bio)); }

    static int append(BIO* bio, const char* data, std::size_t size, std::size_t* written) {
        const auto* bytes = reinterpret_cast<const std::byte*>(data);
        std::vector<std::byte>& unsent = of(bio).unsent;
        unsent.insert(unsent.end(), bytes, bytes + size);
        *written = size;
        return 1;
    }

    static int take(BIO* bio, char* into, std::size_t size, std::size_t* taken) {
        std::span<const std::byte>& unread = of(bio).unread;
        BIO_clear_retry_flags(bio);
        *taken = std::min(size, unread.size());
        if (*taken == 0) {
            BIO_set_retry_read(bio);
            return 0;
        }
        std::memcpy(into, unread.data(), *taken);
        unread = unread.subspan(*taken);
        return 1;
    }

    static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

    BIO* bio() {
        static const BIO_METHOD* const method = [] {
            BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "records");
            CHAOS_ASSERT(made != nullptr && BIO_meth_set_write_ex(made, append) == 1 &&
                         BIO_meth_set_read_ex(made, take) == 1 && BIO_meth_set_ctrl(made, control) == 1);
            return made;
        }();
        BIO* made = BIO_new(method);
        CHAOS_ASSERT(made != nullptr);
        BIO_set_data(made, this);
        BIO_set_init(made, 1);
        return made;
    }
};

Stream::Stream(tcp::socket socket, const Tls* tls, bool dialled)
    : socket_(std::move(socket)), records_(std::make_unique<Records>()), session_(nullptr, [](ssl_st*) {}) {
    socket_.non_blocking(true);
    socket_.set_option(tcp::no_delay(true));
    boost::system::error_code gone;
    within_machine_ = socket_.remote_endpoint(gone).address().is_loopback();
    if (tls == nullptr) return;
    records_->received = std::make_unique_for_overwrite<std::byte[]>(gather_bytes);
    session_ = tls->session(dialled);
    BIO* bio = records_->bio();
    SSL_set_bio(session_.get(), bio, bio);
    SSL_set_msg_callback(session_.get(), count_own_message);
    SSL_set_msg_callback_arg(session_.get(), &own_messages_);
}

Stream::~Stream() = default;

bool Stream::has_unsent() const {
    return !records_->unsent.empty();
}

bool Stream::others_turn(std::size_t bytes) {
    unbroken_bytes_ += bytes + call_bytes;
    return unbroken_bytes_ >= turn_bytes;
}

awaitable<void> Stream::let_others() {
    unbroken_bytes_ = 0;
    co_await asio::post(socket_.get_executor(), asio::use_awaitable);
}

awaitable<Result<void>> Stream::wait_for_room() {
    unbroken_bytes_ = 0;
    const auto [problem] = co_await socket_.async_wait(tcp::socket::wait_write, asio::as_tuple(asio::use_awaitable));
    if (problem) co_return Error{problem.message()};
    co_return Result<void>{};
}

Result<std::size_t> Stream::receive_now(std::span<std::byte> into) {
    while (true) {
        const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
        drained_ = got < static_cast<ssize_t>(into.size());
        if (got > 0) return static_cast<std::size_t>(got);
        if (got == 0) return closed();
        if (errno == EAGAIN) return std::size_t{0};
        if (errno != EINTR) return failed(errno);
    }
}

// What is there already need not take the way through the loop; but when the last time was not enough for all of the
// place, there was no more.
awaitable<Result<std::size_t>> Stream::receive(std::span<std::byte> into) {
    if (!drained_) {
        const Result<std::size_t> now = receive_now(into);
        if (!now || *now > 0) co_return now;
    }
    unbroken_bytes_ = 0;
    const asio::mutable_buffer place(into.data(), into.size());
    const auto [problem, got] = co_await socket_.async_read_some(place, asio::as_tuple(asio::use_awaitable));
    if (problem == asio::error::eof) co_return closed();
    if (problem) co_return Error{problem.message()};
    drained_ = got < into.size();
    co_return got;
}

// Once OpenSSL has taken all that came before.
awaitable<Result<void>> Stream::receive_records() {
    CHAOS_ASSERT(records_->unread.empty());
    const std::span<std::byte> place(records_->received.get(), gather_bytes);
    const Result<std::size_t> got = co_await receive(place);
    if (!got) co_return got.error();
    records_->unread = place.first(*got);
    co_return Result<void>{};
}

// Nothing is wrong when it only wants to read more.
Result<void> Stream::after(int outcome) const {
    switch (SSL_get_error(session_.get(), outcome)) {
        case SSL_ERROR_WANT_READ:
            return {};
        case SSL_ERROR_ZERO_RETURN:
            return closed();
        default: {
            const char* reason = ERR_reason_error_string(ERR_peek_error());
            return Error{std::string("TLS: ") + (reason != nullptr ? reason : "unknown")};
        }
    }
}

awaitable<Result<Proven>> Stream::handshake() {
    if (session_ == nullptr) co_return Proven{};
    while (true) {
        forget_errors();
        const int done = SSL_do_handshake(session_.get());
        const Result<void> seen = done == 1 ? Result<void>{} : after(done);
        const Result<void> sent = co_await flush();  // the other end is told of what is wrong, too
        if (!seen) co_return seen.error();
        if (!sent) co_return sent.error();
        if (done == 1) co_return proven_by(session_.get());
        if (const Result<void> more = co_await receive_records(); !more) co_return more.error();
    }
}

Result<std::size_t> Stream::open(std::span<std::byte> into) {
    if (!socket_.is_open()) return Error{"this end closed the connection"};  // and `into` may be gone
    forget_errors();
    std::size_t got = 0;
    const int done = SSL_read_ex(session_.get(), into.data(), into.size(), &got);
    if (done != 1) CHAOS_CHECK(after(done));
    if (got > 0) own_messages_ = 0;
    return got;
}

awaitable<Result<std::size_t>> Stream::read_some(std::span<std::byte> into) {
    if (others_turn(0)) co_await let_others();
    if (session_ == nullptr) {
        const Result<std::size_t> got = co_await receive(into);
        if (got) unbroken_bytes_ += *got;
        co_return got;
    }
    while (true) {
        const Result<std::size_t> got = open(into);
        if (got) unbroken_bytes_ += *got;
        if (!got || *got > 0) co_return got;
        if (const Result<void> more = co_await receive_records(); !more) co_return more.error();
    }
}

awaitable<Result<void>> Stream::read(std::span<std::byte> into) {
    while (!into.empty()) {
        if (session_ != nullptr) {
            const Result<std::size_t> got = open(into);
            if (!got) co_return got.error();
            into = into.subspan(*got);
            if (*got > 0 && others_turn(*got)) co_await let_others();
            if (*got > 0) continue;
            if (const Result<void> more = co_await receive_records(); !more) co_return more.error();
        } else {
            const Result<std::size_t> got = co_await receive(into);
            if (!got) co_return got.error();
            into = into.subspan(*got);
            if (others_turn(*got)) co_await let_others();
        }
    }
    co_return Result<void>{};
}

Result<std::size_t> Stream::put(std::span<const std::byte> head, std::span<const std::byte> body) {
    std::array<iovec, 2> parts{};
    parts[0] = {.iov_base = const_cast<std::byte*>(head.data()), .iov_len = head.size()};
    parts[1] = {.iov_base = const_cast<std::byte*>(body.data()), .iov_len = body.size()};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    while (true) {
        const ssize_t sent = body.empty() ? ::send(socket_.native_handle(), head.data(), head.size(), MSG_NOSIGNAL)
                                          : ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
        if (sent >= 0) return static_cast<std::size_t>(sent);
        if (errno == EAGAIN) return std::size_t{0};
        if (errno != EINTR) return failed(errno);
    }
}

Result<void> Stream::put_unsent() {
    CHAOS_TRY(const std::size_t sent, put(std::span(records_->unsent).subspan(records_->unsent_from), {}));
    records_->unsent_from += sent;
    if (records_->unsent_from < records_->unsent.size()) return {};
    records_->unsent.clear();
    records_->unsent_from = 0;
    return {};
}

awaitable<Result<void>> Stream::flush() {
    while (!records_->unsent.empty()) {
        const std::size_t waiting = records_->unsent.size() - records_->unsent_from;
        if (const Result<void> sent = put_unsent(); !sent) co_return sent.error();
        if (others_turn(waiting)) co_await let_others();
        if (records_->unsent.empty()) break;
        if (const Result<void> waited = co_await wait_for_room(); !waited) co_return waited.error();
    }
    co_return Result<void>{};
}

Result<void> Stream::seal(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        forget_errors();
        std::size_t sealed = 0;
        if (const int done = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &sealed); done != 1) {
            CHAOS_CHECK(after(done));
            return Error{"TLS: it must read before it can write"};
        }
        bytes = bytes.subspan(sealed);
    }
    return {};
}

// The head and as much of the body as fits into the same record: one of its own for a short head would cost more.
Result<void> Stream::seal_beginning(std::span<const std::byte> head, std::span<const std::byte>& body) {
    if (head.empty()) return {};
    const std::size_t beginning = std::min(body.size(), record_bytes - std::min(record_bytes, head.size()));
    if (beginning == 0) return seal(head);
    joined_.assign(head.begin(), head.end());
    joined_.insert(joined_.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(beginning));
    body = body.subspan(beginning);
    return seal(joined_);
}

awaitable<Result<void>> Stream::write_encrypted(std::span<const std::byte> head, std::span<const std::byte> body) {
    if (const Result<void> sealed = seal_beginning(head, body); !sealed) co_return sealed.error();
    while (true) {
        while (!body.empty() && records_->unsent.size() < gather_bytes) {
            const std::size_t size = std::min(body.size(), record_bytes);
            if (const Result<void> sealed = seal(body.first(size)); !sealed) co_return sealed.error();
            body = body.subspan(size);
        }
        if (const Result<void> sent = co_await flush(); !sent || body.empty()) co_return sent;
    }
}

awaitable<Result<void>> Stream::write_plain(std::span<const std::byte> head, std::span<const std::byte> body) {
    if (const Result<void> sent = co_await flush(); !sent) co_return sent.error();
    while (!head.empty() || !body.empty()) {
        const Result<std::size_t> sent = put(head, body);
        if (!sent) co_return sent.error();
        const std::size_t of_head = std::min(head.size(), *sent);
        head = head.subspan(of_head);
        body = body.subspan(*sent - of_head);
        if (*sent > 0 && others_turn(*sent)) co_await let_others();
        if (*sent > 0) continue;
        if (const Result<void> waited = co_await wait_for_room(); !waited) co_return waited.error();
    }
    co_return Result<void>{};
}

awaitable<Result<void>> Stream::write(std::span<const std::byte> head, std::span<const std::byte> body) {
    if (session_ == nullptr) return write_plain(head, body);
    return write_encrypted(head, body);
}

bool Stream::write_now(std::span<const std::byte> head, std::span<const std::byte> body) {
    CHAOS_ASSERT(head.size() + body.size() <= max_now_bytes);
    if (session_ != nullptr) {
        if (!seal_beginning(head, body) || !seal(body)) return false;
    } else {
        records_->unsent.insert(records_->unsent.end(), head.begin(), head.end());
        records_->unsent.insert(records_->unsent.end(), body.begin(), body.end());
    }
    return put_unsent() && records_->unsent.empty();
}

void Stream::close() {
    boost::system::error_code ignored;  // closing what is closed already is no mistake
    (void)socket_.shutdown(tcp::socket::shutdown_both, ignored);
    (void)socket_.close(ignored);
}

}  // namespace chaos::net
