#include "bare_tls.h"

#include "peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace chaos::bench {
namespace {

constexpr unsigned port_number = 7;  // of the meeting's ports, one that no process has

sockaddr* address_of(sockaddr_in& address) {
    return reinterpret_cast<sockaddr*>(&address);
}

int connect_to(const Meeting& meeting) {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    there.sin_port = htons(meeting.port_of(port_number));
    const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(connection, address_of(there), sizeof there) != 0) give_up("cannot connect");
    return connection;
}

int accept_one(Meeting& meeting) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof here;
    if (::bind(listening, address_of(here), size) != 0 || ::listen(listening, 1) != 0 ||
        ::getsockname(listening, address_of(here), &size) != 0)
        give_up("cannot listen");
    meeting.tell_port(port_number, ntohs(here.sin_port));
    const int connection = ::accept(listening, nullptr, nullptr);
    ::close(listening);
    return connection;
}

}  // namespace

BareTls::BareTls(Meeting& meeting, unsigned number)
    : tls_(key_of(number), credential_of(number)),
      socket_(number == 0 ? accept_one(meeting) : connect_to(meeting)),
      session_(tls_.session(number != 0)) {
    SSL_set_fd(session_.get(), socket_);
    SSL_set_read_ahead(session_.get(), 1);  // one system call for a short message, not two
    const int yes = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (SSL_do_handshake(session_.get()) != 1) give_up("the bare session fails");
}

BareTls::~BareTls() {
    ::close(socket_);
}

void BareTls::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        std::size_t sent = 0;
        if (SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &sent) != 1) give_up("the bare session ended");
        bytes = bytes.subspan(sent);
    }
}

void BareTls::read(std::span<std::byte> into) {
    while (!into.empty()) {
        std::size_t got = 0;
        if (SSL_read_ex(session_.get(), into.data(), into.size(), &got) != 1) give_up("the bare session ended");
        into = into.subspan(got);
    }
}

}  // namespace chaos::bench
