// A peer that does as it likes: TCP, TLS and frames by hand, on blocking sockets, for tests of what a node bears.
#pragma once

#include "net/frame.h"
#include "net/site.h"
#include "net/tls.h"
#include "proto/link.pb.h"

#include <openssl/ssl.h>

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace chaos::net {

// A TCP connection to a port of this machine. Whatever is awaited ends after a few seconds.
class Connection {
public:
    explicit Connection(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const timeval patience{.tv_sec = 8, .tv_usec = 0};
        const timeval little_patience{.tv_sec = 0, .tv_usec = 500'000};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &little_patience, sizeof little_patience);
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(port);
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
    }
    // An accepted one.
    explicit Connection(int socket) : socket_(socket) {}
    ~Connection() { close(); }
    Connection(Connection&& from) noexcept : socket_(std::exchange(from.socket_, -1)) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    Connection& operator=(Connection&&) = delete;

    void send_raw(const std::string& bytes) { (void)::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
    void wait_for_end() {
        std::array<char, 4096> nothing{};
        while (::recv(socket_, nothing.data(), nothing.size(), 0) > 0) {
        }
    }
    void close() {
        if (socket_ >= 0) ::close(std::exchange(socket_, -1));
    }
    // Breaks it, as a machine does that is switched off.
    void reset() {
        const linger at_once{.l_onoff = 1, .l_linger = 0};
        if (socket_ >= 0) ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close();
    }
    // Nothing that is sent to it is answered any more, as when the line is cut.
    void cut() const {
        sock_filter nothing{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
        const sock_fprog filter{.len = 1, .filter = &nothing};
        EXPECT_EQ(::setsockopt(socket_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0);
    }
    [[nodiscard]] int number() const { return socket_; }

private:
    int socket_;
};

// Accepts connections when it likes; those that it does not accept hear nothing.
class Listener {
public:
    Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof where;
        auto* address = reinterpret_cast<sockaddr*>(&where);
        EXPECT_EQ(::bind(socket_, address, size), 0);
        EXPECT_EQ(::listen(socket_, 64), 0);
        EXPECT_EQ(::getsockname(socket_, address, &size), 0);
        port_ = ntohs(where.sin_port);
    }
    ~Listener() { ::close(socket_); }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    [[nodiscard]] Connection accept() const { return Connection(::accept(socket_, nullptr, nullptr)); }
    [[nodiscard]] std::uint16_t port() const { return port_; }

private:
    int socket_;
    std::uint16_t port_ = 0;
};

// With TLS on it, which begins at once.
class Abuser {
public:
    using Clock = std::chrono::steady_clock;

    Abuser(std::uint16_t port, const SecretKey& key)
        : Abuser(port, key, vouch_for(Site::institution_key(), key.public_key(), Site::some_day)) {}
    Abuser(std::uint16_t port, const SecretKey& key, const Credential& credential)
        : port_(port),
          key_(key),
          credential_(credential),
          connection_(port),
          tls_(key, credential),
          session_(tls_.session(true)) {
        (void)SSL_set_fd(session_.get(), connection_.number());
        (void)SSL_do_handshake(session_.get());
        instance = node_id(key.public_key()).low ^ static_cast<std::uint64_t>(connection_.number());
    }

    // The other end dialled.
    Abuser(Connection connection, const SecretKey& key)
        : key_(key),
          credential_(vouch_for(Site::institution_key(), key.public_key(), Site::some_day)),
          connection_(std::move(connection)),
          tls_(key, credential_),
          session_(tls_.session(false)) {
        (void)SSL_set_fd(session_.get(), connection_.number());
        (void)SSL_do_handshake(session_.get());
    }

    [[nodiscard]] NodeId id() const { return node_id(key_.public_key()); }
    // A further connection of the same process.
    [[nodiscard]] Abuser another() const {
        Abuser further(port_, key_, credential_);
        further.instance = instance;
        return further;
    }

    // The greeting of a control connection. True: there is a link.
    bool link() { return greet(wire::Hello::CONTROL, 0, 0); }
    bool link_bulk(std::uint32_t place, std::uint64_t frames) { return greet(wire::Hello::BULK, place, frames); }

    void claim_frame(std::size_t size) { write(encode_control_size(size)); }
    void send_bulk_head(const BulkHead& head) { write(encode(head)); }
    void say_arrived(std::uint32_t place, std::uint64_t frames) {
        wire::Control message;
        message.mutable_arrived()->set_place(place);
        message.mutable_arrived()->set_frames(frames);
        write(framed(message));
    }
    void refuse(const std::string& why) {
        wire::Control message;
        message.set_refusal(why);
        write(framed(message));
    }
    // As many as it can.
    void send_for(std::chrono::milliseconds time, std::size_t most, const std::vector<std::uint8_t>& content) {
        wire::Control message;
        message.set_cluster(content.data(), content.size());
        repeat(message, time, most);
    }
    void ping_for(std::chrono::milliseconds time) {
        wire::Control message;
        message.mutable_ping()->set_number(1);
        repeat(message, time, 100'000'000);
    }
    // As a peer that is alive.
    void answer_for(std::chrono::milliseconds time) {
        wire::Control message;
        message.mutable_pong()->set_number(1);
        for (const auto end = Clock::now() + time; Clock::now() < end && write(framed(message));) ::usleep(5000);
    }
    // How many bytes it got rid of.
    std::uint64_t send_bulk_for(std::chrono::milliseconds time, std::uint32_t fourth) {
        std::vector<std::byte> frame(bulk_head_bytes + max_bulk_bytes);
        std::ranges::copy(encode({.kind = BulkKind::state, .bytes = max_bulk_bytes, .fourth = fourth}), frame.begin());
        std::uint64_t sent = 0;
        for (const auto end = Clock::now() + time; Clock::now() < end && write(frame);) sent += frame.size();
        return sent;
    }
    // False: the other end had enough.
    bool update_keys_for(std::chrono::milliseconds time) {
        for (const auto end = Clock::now() + time; Clock::now() < end;) {
            if (SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return false;
            if (SSL_do_handshake(session_.get()) != 1) return false;
        }
        return true;
    }

    void wait_for_end() {
        std::array<std::byte, 4096> nothing{};
        while (read_some(nothing) > 0) {
        }
    }
    void close() { connection_.close(); }
    void reset() { connection_.reset(); }
    void cut() { connection_.cut(); }

    std::uint64_t instance = 0;
    NodeId claimed;  // in its greeting

private:
    bool greet(wire::Hello::Purpose purpose, std::uint32_t place, std::uint64_t frames) {
        wire::Control message;
        wire::Hello* hello = message.mutable_hello();
        hello->set_version(link_version);
        hello->set_purpose(purpose);
        hello->set_instance(instance);
        hello->set_place(place);
        hello->set_frames(frames);
        hello->set_node_high(claimed.high);
        hello->set_node_low(claimed.low);
        return write(framed(message)) && answered();
    }
    // With a greeting, not a refusal.
    bool answered() {
        std::array<std::byte, control_head_bytes> head{};
        if (!read(head)) return false;
        const Result<std::size_t> size = decode_control_size(head);
        if (!size) return false;
        std::vector<std::byte> content(*size);
        wire::Control message;
        return read(content) && message.ParseFromArray(content.data(), static_cast<int>(content.size())) &&
               message.has_hello();
    }
    void repeat(const wire::Control& message, std::chrono::milliseconds time, std::size_t most) {
        const std::vector<std::byte> one = framed(message);
        std::vector<std::byte> many;
        while (many.size() < (16U << 10)) many.insert(many.end(), one.begin(), one.end());
        std::size_t sent = 0;
        for (const auto end = Clock::now() + time; Clock::now() < end && sent < most && write(many);)
            sent += many.size() / one.size();
    }
    static std::vector<std::byte> framed(const wire::Control& message) {
        const std::string content = message.SerializeAsString();
        std::vector<std::byte> frame(control_head_bytes + content.size());
        std::ranges::copy(encode_control_size(content.size()), frame.begin());
        std::ranges::copy(std::as_bytes(std::span(content)), frame.begin() + control_head_bytes);
        return frame;
    }

    bool write(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            std::size_t sent = 0;
            if (SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &sent) != 1) return false;
            bytes = bytes.subspan(sent);
        }
        return true;
    }
    std::size_t read_some(std::span<std::byte> into) {
        std::size_t got = 0;
        // TLS's own messages come between.
        for (int tries = 0; tries < 100; ++tries) {
            if (SSL_read_ex(session_.get(), into.data(), into.size(), &got) == 1) return got;
            if (SSL_get_error(session_.get(), 0) != SSL_ERROR_WANT_READ || errno == EAGAIN) return 0;
        }
        return 0;
    }
    bool read(std::span<std::byte> into) {
        while (!into.empty()) {
            const std::size_t got = read_some(into);
            if (got == 0) return false;
            into = into.subspan(got);
        }
        return true;
    }

    std::uint16_t port_ = 0;
    SecretKey key_;
    Credential credential_;
    Connection connection_;
    Tls tls_;
    std::unique_ptr<ssl_st, void (*)(ssl_st*)> session_;
};

}  // namespace chaos::net
