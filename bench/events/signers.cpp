#include "signers.h"

#include "base/assert.h"

#include <openssl/evp.h>

#include <map>

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

using Key = std::shared_ptr<EVP_PKEY>;
using Keys = std::map<NodeId, Key>;

class Ed25519 : public cluster::Signer {
public:
    Ed25519(NodeId self, std::shared_ptr<const Keys> keys) : self_(self), keys_(std::move(keys)) {}

    Signature sign(std::span<const std::uint8_t> bytes) const override {
        const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
        Signature signature{};
        std::size_t size = signature.size();
        EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, keys_->at(self_).get());
        CHAOS_ASSERT(EVP_DigestSign(context.get(), signature.data(), &size, bytes.data(), bytes.size()) == 1);
        return signature;
    }
    bool verify(NodeId author, std::span<const std::uint8_t> bytes, const Signature& signature) const override {
        const auto key = keys_->find(author);
        if (key == keys_->end()) return false;
        const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
        EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key->second.get());
        return EVP_DigestVerify(context.get(), signature.data(), signature.size(), bytes.data(), bytes.size()) == 1;
    }

private:
    NodeId self_;
    std::shared_ptr<const Keys> keys_;
};

}  // namespace

std::vector<std::unique_ptr<cluster::Signer>> make_signers(const std::vector<NodeId>& nodes, bool real) {
    std::vector<std::unique_ptr<cluster::Signer>> signers;
    auto keys = std::make_shared<Keys>();
    if (real)
        for (const NodeId node : nodes)
            keys->emplace(node, Key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free));
    for (const NodeId node : nodes) {
        if (real) {
            signers.push_back(std::make_unique<Ed25519>(node, keys));
        } else {
            signers.push_back(std::make_unique<StandIn>(node));
        }
    }
    return signers;
}

}  // namespace chaos::bench
