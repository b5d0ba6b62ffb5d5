#include "base/hash.h"

#include "base/assert.h"

#include <openssl/evp.h>
#include <xxhash.h>

namespace chaos {

struct Sha256::Context {
    EVP_MD_CTX* evp = EVP_MD_CTX_new();
    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
    CHAOS_ASSERT(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::add(std::span<const std::byte> bytes) {
    CHAOS_ASSERT(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
    return *this;
}

Sha256& Sha256::add(std::string_view text) {
    return add(std::as_bytes(std::span(text)));
}

Digest Sha256::finish() {
    Digest digest{};
    CHAOS_ASSERT(EVP_DigestFinal_ex(context_->evp, digest.data(), nullptr) == 1);
    return digest;
}

Digest sha256(std::string_view text) {
    return Sha256().add(text).finish();
}

std::string hex(std::span<const std::uint8_t> bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const std::uint8_t byte : bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

std::uint64_t xxh3(std::span<const std::byte> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace chaos
