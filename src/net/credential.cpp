#include "net/credential.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

namespace chaos::net {
namespace {

constexpr std::string_view token_prefix = "chaos-join-";
constexpr std::string_view certificate_prefix = "chaos-node-";
constexpr std::string_view revocation_prefix = "chaos-revoke-";

// Signatures for one purpose are worth nothing for another.
constexpr std::string_view vouch_purpose = "chaos vouches 1:";
constexpr std::string_view bind_purpose = "chaos token 1:";
constexpr std::string_view revoke_purpose = "chaos revokes 1:";

class Bytes {
public:
    void add(std::string_view text) { out.insert(out.end(), text.begin(), text.end()); }
    void add(std::span<const std::uint8_t> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }
    void add(std::uint64_t value) {
        for (unsigned i = 0; i < 8; ++i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
    void add(UnixSeconds value) { add(static_cast<std::uint64_t>(value)); }
    std::vector<std::uint8_t> out;
};

class Cursor {
public:
    explicit Cursor(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
    // The caller has checked that enough bytes are there.
    template <std::size_t N>
    void take(std::array<std::uint8_t, N>& value) {
        std::copy_n(rest_.begin(), N, value.begin());
        rest_ = rest_.subspan(N);
    }
    UnixSeconds take_number() {
        std::array<std::uint8_t, 8> bytes{};
        take(bytes);
        std::uint64_t value = 0;
        for (unsigned i = 0; i < 8; ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
        return static_cast<UnixSeconds>(value);
    }

private:
    std::span<const std::uint8_t> rest_;
};

std::vector<std::uint8_t> vouched_part(const PublicKey& institution, const PublicKey& subject, UnixSeconds not_after,
                                       bool token) {
    Bytes bytes;
    bytes.add(vouch_purpose);
    bytes.add(institution);
    bytes.add(subject);
    bytes.add(not_after);
    bytes.out.push_back(token ? 1 : 0);
    return std::move(bytes.out);
}

std::vector<std::uint8_t> bound_part(cluster::NodeId node) {
    Bytes bytes;
    bytes.add(bind_purpose);
    bytes.add(node.high);
    bytes.add(node.low);
    return std::move(bytes.out);
}

std::vector<std::uint8_t> revoked_part(const PublicKey& institution, const PublicKey& subject) {
    Bytes bytes;
    bytes.add(revoke_purpose);
    bytes.add(institution);
    bytes.add(subject);
    return std::move(bytes.out);
}

// The bytes that a word such as "chaos-join-00ff..." stands for.
Result<std::vector<std::uint8_t>> bytes_after(std::string_view prefix, std::string_view text, std::size_t size,
                                              const std::string& what) {
    if (!text.starts_with(prefix)) return Error{"a " + what + " begins with \"" + std::string(prefix) + "\""};
    text.remove_prefix(prefix.size());
    if (text.size() != 2 * size) return Error{"the " + what + " is not whole"};
    std::vector<std::uint8_t> bytes;
    bytes.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
        std::uint8_t byte = 0;
        const char* at = text.data() + 2 * i;
        const auto read = std::from_chars(at, at + 2, byte, 16);
        if (read.ec != std::errc() || read.ptr != at + 2)
            return Error{"the " + what + " holds a character that does not belong there"};
        bytes.push_back(byte);
    }
    return bytes;
}

std::string day_of(UnixSeconds time) {
    const std::time_t seconds = time;
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
    return text.data();
}

}  // namespace

std::vector<std::uint8_t> encode(const Credential& credential) {
    Bytes bytes;
    bytes.add(credential.institution);
    bytes.add(credential.subject);
    bytes.add(credential.not_after);
    bytes.out.push_back(credential.token ? 1 : 0);
    bytes.add(credential.vouched);
    bytes.add(credential.bound);
    return std::move(bytes.out);
}

Result<Credential> decode_credential(std::span<const std::uint8_t> bytes) {
    if (bytes.size() != credential_bytes) return Error{"a credential of the wrong size"};
    Cursor cursor(bytes);
    Credential credential;
    cursor.take(credential.institution);
    cursor.take(credential.subject);
    credential.not_after = cursor.take_number();
    std::array<std::uint8_t, 1> token{};
    cursor.take(token);
    if (token[0] > 1) return Error{"a credential of an unknown kind"};
    credential.token = token[0] == 1;
    cursor.take(credential.vouched);
    cursor.take(credential.bound);
    return credential;
}

std::string to_text(const Credential& credential) {
    return std::string(certificate_prefix) + hex(encode(credential));
}

Result<Credential> credential_from_text(std::string_view text) {
    const auto bytes = bytes_after(certificate_prefix, text, credential_bytes, "node certificate");
    if (!bytes) return bytes.error();
    return decode_credential(*bytes);
}

Result<void> check(const Credential& credential, cluster::NodeId node) {
    if (!verify(credential.institution,
                vouched_part(credential.institution, credential.subject, credential.not_after, credential.token),
                credential.vouched))
        return Error{"its credential is not signed by the institution that it names"};
    if (credential.token ? !verify(credential.subject, bound_part(node), credential.bound)
                         : node_id(credential.subject) != node)
        return Error{"its credential is for another node"};
    return {};
}

Result<void> check_date(const Credential& credential, UnixSeconds now) {
    if (now > credential.not_after) return Error{"its credential expired on " + day_of(credential.not_after)};
    return {};
}

cluster::Vouched vouched_by(const Credential& credential) {
    cluster::Vouched vouched{.institution = credential.institution};
    if (credential.token)
        vouched.token = cluster::JoinToken{.id = node_id(credential.subject), .not_after = credential.not_after};
    return vouched;
}

std::vector<std::uint8_t> encode(const Revocation& revocation) {
    Bytes bytes;
    bytes.add(revocation.institution);
    bytes.add(revocation.subject);
    bytes.add(revocation.signature);
    return std::move(bytes.out);
}

Result<Revocation> decode_revocation(std::span<const std::uint8_t> bytes) {
    if (bytes.size() != revocation_bytes) return Error{"a revocation of the wrong size"};
    Cursor cursor(bytes);
    Revocation revocation;
    cursor.take(revocation.institution);
    cursor.take(revocation.subject);
    cursor.take(revocation.signature);
    return revocation;
}

Result<void> check(const Revocation& revocation) {
    if (!verify(revocation.institution, revoked_part(revocation.institution, revocation.subject), revocation.signature))
        return Error{"the revocation is not signed by the institution that it names"};
    return {};
}

std::string to_text(const Revocation& revocation) {
    return std::string(revocation_prefix) + hex(encode(revocation));
}

Result<Revocation> revocation_from_text(std::string_view text) {
    const auto bytes = bytes_after(revocation_prefix, text, revocation_bytes, "revocation");
    if (!bytes) return bytes.error();
    return decode_revocation(*bytes);
}

Credential vouch_for(const SecretKey& institution, const PublicKey& node, UnixSeconds not_after) {
    Credential credential;
    credential.institution = institution.public_key();
    credential.subject = node;
    credential.not_after = not_after;
    credential.vouched = institution.sign(vouched_part(credential.institution, node, not_after, false));
    return credential;
}

Token issue_token(const SecretKey& institution, UnixSeconds not_after) {
    const SecretKey key = SecretKey::generate();
    Token token;
    token.institution = institution.public_key();
    token.secret = key.seed();
    token.not_after = not_after;
    token.vouched = institution.sign(vouched_part(token.institution, key.public_key(), not_after, true));
    return token;
}

std::string to_text(const Token& token) {
    Bytes bytes;
    bytes.add(token.institution);
    bytes.add(token.secret);
    bytes.add(token.not_after);
    bytes.add(token.vouched);
    return std::string(token_prefix) + hex(bytes.out);
}

Result<Token> token_from_text(std::string_view text) {
    constexpr std::size_t token_bytes = 32 + 32 + 8 + 64;
    const auto bytes = bytes_after(token_prefix, text, token_bytes, "join token");
    if (!bytes) return bytes.error();
    Cursor cursor(*bytes);
    Token token;
    cursor.take(token.institution);
    cursor.take(token.secret);
    token.not_after = cursor.take_number();
    cursor.take(token.vouched);
    return token;
}

Credential redeem(const Token& token, const PublicKey& node) {
    const SecretKey key = SecretKey::from_seed(token.secret);
    Credential credential;
    credential.institution = token.institution;
    credential.subject = key.public_key();
    credential.not_after = token.not_after;
    credential.token = true;
    credential.vouched = token.vouched;
    credential.bound = key.sign(bound_part(node_id(node)));
    return credential;
}

PublicKey key_of(const Token& token) {
    return SecretKey::from_seed(token.secret).public_key();
}

Revocation revoke(const SecretKey& institution, const PublicKey& subject) {
    return {.institution = institution.public_key(),
            .subject = subject,
            .signature = institution.sign(revoked_part(institution.public_key(), subject))};
}

}  // namespace chaos::net
