#include "net/signer.h"

#include <algorithm>

namespace chaos::net {

cluster::Signature KeySigner::sign(std::span<const std::uint8_t> bytes) const {
    cluster::Signature signature{};
    static_assert(sizeof(cluster::Signature) == sizeof(PublicKey) + sizeof(RawSignature));
    std::ranges::copy(key_.public_key(), signature.begin());
    std::ranges::copy(key_.sign(bytes), signature.begin() + sizeof(PublicKey));
    return signature;
}

bool KeySigner::verify(cluster::NodeId author, std::span<const std::uint8_t> bytes,
                       const cluster::Signature& signature) const {
    PublicKey key{};
    RawSignature raw{};
    std::copy_n(signature.begin(), key.size(), key.begin());
    std::copy_n(signature.begin() + sizeof(PublicKey), raw.size(), raw.begin());
    return node_id(key) == author && net::verify(key, bytes, raw);
}

Result<cluster::Vouched> KeySigner::vouched(cluster::NodeId node, std::span<const std::uint8_t> credential) const {
    const Result<Credential> read = decode_credential(credential);
    if (!read) return read.error();
    if (const Result<void> holds = check(*read, node); !holds) return holds.error();
    return vouched_by(*read);
}

Result<cluster::Revocation> KeySigner::revocation(std::span<const std::uint8_t> bytes) const {
    const Result<Revocation> read = decode_revocation(bytes);
    if (!read) return read.error();
    if (const Result<void> holds = check(*read); !holds) return holds.error();
    return cluster::Revocation{.subject = node_id(read->subject), .by = read->institution};
}

}  // namespace chaos::net
