#include "signers.h"

#include "base/random.h"
#include "net/signer.h"

#include <algorithm>
#include <cstring>

namespace chaos::bench {
namespace {

using cluster::NodeId;
using cluster::Signature;

cluster::Name stand_in_institution() {
    return sha256("institution");
}

class StandIn : public cluster::Signer {
public:
    explicit StandIn(NodeId self) : self_(self) {}
    Signature sign(std::span<const std::uint8_t> bytes) const override { return of(self_, bytes); }
    bool verify(NodeId author, std::span<const std::uint8_t> bytes, const Signature& signature) const override {
        return of(author, bytes) == signature;
    }

    // Nobody here is a stranger.
    Result<cluster::Vouched> vouched(NodeId, std::span<const std::uint8_t>) const override {
        return cluster::Vouched{.institution = stand_in_institution()};
    }
    Result<cluster::Revocation> revocation(std::span<const std::uint8_t>) const override {
        return Error{"this stand-in knows no revocations"};
    }

private:
    static Signature of(NodeId node, std::span<const std::uint8_t> bytes) {
        Signature signature{};
        const std::uint64_t hash = xxh3(std::as_bytes(bytes)) ^ (node.high * 0x9e3779b97f4a7c15U) ^ node.low;
        for (unsigned i = 0; i < 8; ++i) signature[i] = static_cast<std::uint8_t>(hash >> (8 * i));
        return signature;
    }
    NodeId self_;
};

}  // namespace

Residents make_residents(std::uint64_t seed, std::uint32_t count, bool real) {
    constexpr net::UnixSeconds not_after = 4'000'000'000;
    const net::SecretKey root = net::SecretKey::from_seed(net::Seed{1});
    Residents residents{.institution = real ? root.public_key() : stand_in_institution(), .nodes = {}};
    for (std::uint32_t i = 0; i < count; ++i) {
        Resident& resident = residents.nodes.emplace_back();
        resident.id = {.high = random_bits(seed, 1, i), .low = random_bits(seed, 2, i)};
        if (real) {
            net::Seed key_seed{};
            std::memcpy(key_seed.data(), &resident.id, sizeof resident.id);
            net::SecretKey key = net::SecretKey::from_seed(key_seed);
            resident.id = net::node_id(key.public_key());
            resident.credential = net::encode(net::vouch_for(root, key.public_key(), not_after));
            resident.signer = std::make_unique<net::KeySigner>(std::move(key));
        } else {
            resident.signer = std::make_unique<StandIn>(resident.id);
        }
    }
    std::ranges::sort(residents.nodes, {}, &Resident::id);
    return residents;
}

}  // namespace chaos::bench
