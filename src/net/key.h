// net/ is how nodes reach each other: keys and credentials (who is who, and who vouches for whom), links over TCP and
// TLS 1.3, and the monitor that measures them. It may touch sockets, timers, OpenSSL and libsodium; it knows the
// cluster's ids and carries its messages, but decides nothing.
//
// Read in this order: key.h (this file), credential.h (why a stranger is let in), tls.h, admission.h, stream.h,
// links.h.
//
// Every node and every institution has an Ed25519 key pair. A node's id is the hash of its public key, so whoever sees
// the key can tell whose it is, and nobody can take another's id.
#pragma once

#include "base/result.h"
#include "cluster/message.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace chaos::net {

using PublicKey = std::array<std::uint8_t, 32>;
using RawSignature = std::array<std::uint8_t, 64>;
using Seed = std::array<std::uint8_t, 32>;  // what a secret key is made from

class SecretKey {
public:
    [[nodiscard]] static SecretKey generate();
    [[nodiscard]] static SecretKey from_seed(const Seed& seed);
    // PEM (PKCS #8), as other tools read and write it. A file that others may read is refused.
    [[nodiscard]] static Result<SecretKey> load(const std::filesystem::path& path);
    // Readable by the owner only. Never replaces a file.
    [[nodiscard]] Result<void> save(const std::filesystem::path& path) const;

    [[nodiscard]] const PublicKey& public_key() const { return public_key_; }
    [[nodiscard]] Seed seed() const;
    [[nodiscard]] RawSignature sign(std::span<const std::uint8_t> bytes) const;
    [[nodiscard]] evp_pkey_st* native() const { return key_.get(); }

private:
    explicit SecretKey(std::shared_ptr<evp_pkey_st> key);
    using SigningKey = std::array<std::uint8_t, 64>;
    std::shared_ptr<evp_pkey_st> key_;               // for TLS and files
    std::shared_ptr<const SigningKey> signing_key_;  // for libsodium, which signs and verifies in half OpenSSL's time
    PublicKey public_key_{};
};

[[nodiscard]] bool verify(const PublicKey& key, std::span<const std::uint8_t> bytes, const RawSignature& signature);

[[nodiscard]] cluster::NodeId node_id(const PublicKey& key);

// 64 hexadecimal digits, as people exchange keys.
[[nodiscard]] std::string to_text(const PublicKey& key);
[[nodiscard]] Result<PublicKey> key_from_text(std::string_view text);

}  // namespace chaos::net
