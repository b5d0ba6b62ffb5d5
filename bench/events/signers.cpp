#include "signers.h"

#include "base/random.h"
#include "net/signer.h"

#include <algorithm>
#include <cstring>

namespace chaos::bench {
namespace {

using cluster::NodeId;
using cluster::Signature;

class StandIn : public cluster::Signer {
public:
    explicit StandIn(NodeId self) : self_(self) {}
    Signature sign(std::span<const std::uint8_t> bytes) const override { return of(self_, bytes); }
    bool verify(NodeId author, std::span<const std::uint8_t> bytes, const Signature& signature) const override {
        return of(author, bytes) == signature;
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

std::vector<std::pair<NodeId, std::unique_ptr<cluster::Signer>>> make_signers(std::uint64_t seed, std::uint32_t count,
                                                                              bool real) {
    std::vector<std::pair<NodeId, std::unique_ptr<cluster::Signer>>> signers;
    for (std::uint32_t i = 0; i < count; ++i) {
        NodeId id{.high = random_bits(seed, 1, i), .low = random_bits(seed, 2, i)};
        if (real) {
            net::Seed key_seed{};
            std::memcpy(key_seed.data(), &id, sizeof id);
            net::SecretKey key = net::SecretKey::from_seed(key_seed);
            id = net::node_id(key.public_key());
            signers.emplace_back(id, std::make_unique<net::KeySigner>(std::move(key)));
        } else {
            signers.emplace_back(id, std::make_unique<StandIn>(id));
        }
    }
    std::ranges::sort(signers, {}, [](const auto& entry) { return entry.first; });
    return signers;
}

}  // namespace chaos::bench
