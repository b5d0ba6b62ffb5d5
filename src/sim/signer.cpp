#include "sim/signer.h"

#include "base/random.h"

#include <array>
#include <cstring>
#include <string>

namespace chaos::sim {
namespace {

using cluster::NodeId;

constexpr std::uint64_t token_mark = std::uint64_t{1} << 48;  // in the low half of an id: no host

struct Papers {
    std::uint64_t institution = 0;
    std::uint64_t token = 0;
    std::uint64_t vouched = 0;  // by the institution, for the node or for the token
    std::uint64_t bound = 0;    // by the token, for the node
};
struct Withdrawal {
    std::uint64_t institution = 0;
    std::uint64_t high = 0;  // of what is revoked
    std::uint64_t low = 0;
    std::uint64_t signature = 0;
};

std::uint64_t keyed(std::uint64_t seed, std::uint64_t purpose, std::uint64_t number, NodeId about) {
    const std::uint64_t secret = random_bits(seed, purpose, number);
    return random_bits(secret, about.high, about.low);
}
std::uint64_t vouch(std::uint64_t seed, std::uint64_t institution, NodeId about) {
    return keyed(seed, 0x766f756368, institution, about);
}
std::uint64_t bind(std::uint64_t seed, std::uint64_t token, NodeId node) {
    return keyed(seed, 0x62696e64, token, node);
}
std::uint64_t withdraw(std::uint64_t seed, std::uint64_t institution, NodeId subject) {
    return keyed(seed, 0x7265766f6b65, institution, subject);
}

template <class T>
std::vector<std::uint8_t> bytes_of(const T& value) {
    std::vector<std::uint8_t> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}
template <class T>
std::optional<T> read(std::span<const std::uint8_t> bytes) {
    T value;
    if (bytes.size() != sizeof value) return std::nullopt;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

}  // namespace

NodeId node_of(std::uint64_t seed, std::uint32_t host) {
    return {.high = random_bits(seed, 0x6e6f6465, host), .low = host};
}

cluster::Name institution_root(std::uint8_t number) {
    return sha256("institution " + std::to_string(number));
}

cluster::JoinToken token_of(std::uint64_t seed, std::uint32_t token) {
    return {.id = {.high = random_bits(seed, 0x746f6b656e, token), .low = token_mark | token}, .not_after = token};
}

std::vector<std::uint8_t> issue_credential(std::uint64_t seed, std::uint8_t institution, std::uint32_t host,
                                           std::uint32_t token) {
    const NodeId node = node_of(seed, host);
    Papers papers{.institution = institution, .token = token};
    papers.vouched = vouch(seed, institution, token == 0 ? node : token_of(seed, token).id);
    if (token != 0) papers.bound = bind(seed, token, node);
    return bytes_of(papers);
}

std::vector<std::uint8_t> issue_revocation(std::uint64_t seed, std::uint8_t institution, NodeId subject) {
    return bytes_of(Withdrawal{.institution = institution,
                               .high = subject.high,
                               .low = subject.low,
                               .signature = withdraw(seed, institution, subject)});
}

cluster::Signature Signer::sign(std::span<const std::uint8_t> bytes) const {
    return signature(host_, bytes);
}

bool Signer::verify(NodeId author, std::span<const std::uint8_t> bytes, const cluster::Signature& claimed) const {
    return author == node_of(seed_, host_of(author)) && claimed == signature(host_of(author), bytes);
}

Result<cluster::Vouched> Signer::vouched(NodeId node, std::span<const std::uint8_t> credential) const {
    if (pretence_ && node == node_of(seed_, host_)) return *pretence_;
    const auto papers = read<Papers>(credential);
    if (!papers || papers->institution > 255 || papers->token >> 32 != 0) return Error{"its credential is none"};
    const auto token = static_cast<std::uint32_t>(papers->token);
    const NodeId about = token == 0 ? node : token_of(seed_, token).id;
    if (papers->vouched != vouch(seed_, papers->institution, about) ||
        papers->bound != (token == 0 ? 0 : bind(seed_, token, node)))
        return Error{"its credential is forged, or for another node"};
    cluster::Vouched vouched{.institution = institution_root(static_cast<std::uint8_t>(papers->institution))};
    if (token != 0) vouched.token = token_of(seed_, token);
    return vouched;
}

Result<cluster::Revocation> Signer::revocation(std::span<const std::uint8_t> bytes) const {
    const auto withdrawal = read<Withdrawal>(bytes);
    if (!withdrawal || withdrawal->institution > 255) return Error{"the revocation is none"};
    const NodeId subject{.high = withdrawal->high, .low = withdrawal->low};
    if (withdrawal->signature != withdraw(seed_, withdrawal->institution, subject))
        return Error{"the revocation is not signed by the institution that it names"};
    return cluster::Revocation{.subject = subject,
                               .by = institution_root(static_cast<std::uint8_t>(withdrawal->institution))};
}

cluster::Signature Signer::signature(std::uint32_t host, std::span<const std::uint8_t> bytes) const {
    const std::uint64_t secret = random_bits(seed_, 0x736563726574, host);
    const std::uint64_t hash = xxh3(std::as_bytes(bytes));
    cluster::Signature result{};
    for (std::size_t i = 0; i < result.size(); i += sizeof hash) {
        const std::uint64_t part = random_bits(secret, hash, i);
        std::memcpy(result.data() + i, &part, sizeof part);
    }
    return result;
}

}  // namespace chaos::sim
