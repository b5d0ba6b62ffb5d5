// TLS 1.3 as links use it: both ends show a certificate, and nothing is sent in the clear. A node's certificate is made
// by the node itself: it is signed with the node's own key, which the handshake proves to be there, and carries the
// node's credential in an extension. Certificate authorities, host names and dates of X.509 play no part.
#pragma once

#include "net/credential.h"

#include <memory>
#include <optional>

struct ssl_ctx_st;  // OpenSSL's SSL_CTX
struct ssl_st;      // OpenSSL's SSL
struct x509_st;     // OpenSSL's X509

namespace chaos::net {

// Who is at the other end, as the handshake proved it. The credential is what it shows, not yet checked.
struct Proven {
    PublicKey key{};
    cluster::NodeId node;
    Credential credential;
};

// One per node; every connection is made from it.
class Tls {
public:
    Tls(const SecretKey& key, const Credential& credential);

    // A session, of the end that dialled or of the other. What it reads from and writes to, the caller sets.
    [[nodiscard]] std::unique_ptr<ssl_st, void (*)(ssl_st*)> session(bool dialled) const;

private:
    std::shared_ptr<ssl_ctx_st> context_;
};

// After the handshake: who it is, or why that is not clear.
[[nodiscard]] Result<Proven> proven_by(ssl_st* session);
// Who it is that shows this certificate, once it has proved that the key is its own.
[[nodiscard]] Result<Proven> named_in(x509_st* certificate);

}  // namespace chaos::net
