// Credentials: why a stranger is let in. An institution's root key vouches for a node's key, until a date; there is no
// authority above institutions, and which of them are in is agreed in the view.
//
//   institution ──signs──► node key                         a node certificate: `chaos institution invite --node KEY`
//   institution ──signs──► token key ──signs──► node key    a one-time join token: `chaos institution invite`
//
//   institution ──signs──► "no more" and a node's or a token's key    a revocation: `chaos institution revoke`
//
// A token is a secret that the institution hands to whoever is to join: it holds the secret half of a key made for this
// purpose. The joiner signs its own key with it and shows only that, so that nobody who sees the credential can use the
// token again; and the view remembers which node used it. A revocation is no secret: any member may carry it.
//
// Encodings are fixed: numbers little-endian, keys and signatures as they are.
#pragma once

#include "net/key.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::net {

using UnixSeconds = std::int64_t;

struct Credential {
    PublicKey institution{};
    PublicKey subject{};  // the node's key, or the token's
    UnixSeconds not_after = 0;
    bool token = false;
    RawSignature vouched{};  // by the institution, over the fields above
    RawSignature bound{};    // token: by the token's key, over the node's id
    bool operator==(const Credential&) const = default;
};

inline constexpr std::size_t credential_bytes = 32 + 32 + 8 + 1 + 64 + 64;

[[nodiscard]] std::vector<std::uint8_t> encode(const Credential& credential);
[[nodiscard]] Result<Credential> decode_credential(std::span<const std::uint8_t> bytes);

// Whether the institution vouches for this node by it, whatever the date; or why not.
[[nodiscard]] Result<void> check(const Credential& credential, cluster::NodeId node);
// Whether it still holds.
[[nodiscard]] Result<void> check_date(const Credential& credential, UnixSeconds now);

// A certificate as it is handed over, in one word: it begins with "chaos-node-".
[[nodiscard]] std::string to_text(const Credential& credential);
[[nodiscard]] Result<Credential> credential_from_text(std::string_view text);

// What the cluster is told of it.
[[nodiscard]] cluster::Vouched vouched_by(const Credential& credential);

// "This node, or this token with whoever came in by it, is no longer ours." It holds for good.
struct Revocation {
    PublicKey institution{};
    PublicKey subject{};
    RawSignature signature{};
    bool operator==(const Revocation&) const = default;
};

inline constexpr std::size_t revocation_bytes = 32 + 32 + 64;

[[nodiscard]] std::vector<std::uint8_t> encode(const Revocation& revocation);
[[nodiscard]] Result<Revocation> decode_revocation(std::span<const std::uint8_t> bytes);

// Whether the institution that it names signed it.
[[nodiscard]] Result<void> check(const Revocation& revocation);

// As it is handed over, in one word: it begins with "chaos-revoke-".
[[nodiscard]] std::string to_text(const Revocation& revocation);
[[nodiscard]] Result<Revocation> revocation_from_text(std::string_view text);

// ---- what an institution issues

[[nodiscard]] Credential vouch_for(const SecretKey& institution, const PublicKey& node, UnixSeconds not_after);

// A join token as it is handed over, in one word: it begins with "chaos-join-".
struct Token {
    PublicKey institution{};
    Seed secret{};
    UnixSeconds not_after = 0;
    RawSignature vouched{};
};
[[nodiscard]] Token issue_token(const SecretKey& institution, UnixSeconds not_after);
[[nodiscard]] std::string to_text(const Token& token);
[[nodiscard]] Result<Token> token_from_text(std::string_view text);
[[nodiscard]] Credential redeem(const Token& token, const PublicKey& node);
[[nodiscard]] PublicKey key_of(const Token& token);  // by which it is revoked

[[nodiscard]] Revocation revoke(const SecretKey& institution, const PublicKey& subject);

}  // namespace chaos::net
