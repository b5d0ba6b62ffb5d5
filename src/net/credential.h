// Credentials: why a stranger is let in. An institution's root key vouches for a node's key, until a date; there is no
// authority above institutions, and which of them are in is agreed in the view.
//
//   institution ──signs──► node key                         a node certificate: `chaos institution invite --node KEY`
//   institution ──signs──► token key ──signs──► node key    a one-time join token: `chaos institution invite`
//
// A token is a secret that the institution hands to whoever is to join: it holds the secret half of a key made for this
// purpose. The joiner signs its own key with it and shows only that, so that nobody who sees the credential can use the
// token again; and the view remembers which node used it.
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
    RawSignature bound{};    // token: by the token's key, over the node's key
    bool operator==(const Credential&) const = default;
};

inline constexpr std::size_t credential_bytes = 32 + 32 + 8 + 1 + 64 + 64;

[[nodiscard]] std::vector<std::uint8_t> encode(const Credential& credential);
[[nodiscard]] Result<Credential> decode_credential(std::span<const std::uint8_t> bytes);

// Whether it lets the node with this key in at that time, or why not. Whether the institution is in the cluster, the
// node revoked or the token used, only the view can tell.
[[nodiscard]] Result<void> check(const Credential& credential, const PublicKey& node, UnixSeconds now);

// A certificate as it is handed over, in one word: it begins with "chaos-node-".
[[nodiscard]] std::string to_text(const Credential& credential);
[[nodiscard]] Result<Credential> credential_from_text(std::string_view text);

// What the view remembers of a used token; absent: no token.
[[nodiscard]] std::optional<cluster::Name> token_name(const Credential& credential);

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

}  // namespace chaos::net
