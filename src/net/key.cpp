#include "net/key.h"

#include "base/assert.h"
#include "base/file.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sodium.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace chaos::net {
namespace {

using KeyPtr = std::shared_ptr<EVP_PKEY>;

KeyPtr own(EVP_PKEY* key) {
    CHAOS_ASSERT(key != nullptr);
    return {key, EVP_PKEY_free};
}

}  // namespace

SecretKey::SecretKey(KeyPtr key) : key_(std::move(key)) {
    std::size_t size = public_key_.size();
    CHAOS_ASSERT(EVP_PKEY_get_raw_public_key(key_.get(), public_key_.data(), &size) == 1);
    auto* signing_key = new SigningKey;
    signing_key_ = {signing_key, [](SigningKey* spent) {
                        sodium_memzero(spent->data(), spent->size());
                        delete spent;
                    }};
    Seed secret = seed();
    PublicKey same{};
    CHAOS_ASSERT(crypto_sign_seed_keypair(same.data(), signing_key->data(), secret.data()) == 0 && same == public_key_);
    sodium_memzero(secret.data(), secret.size());
}

SecretKey SecretKey::generate() {
    return SecretKey(own(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")));
}

SecretKey SecretKey::from_seed(const Seed& seed) {
    return SecretKey(own(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size())));
}

Seed SecretKey::seed() const {
    Seed seed{};
    std::size_t size = seed.size();
    CHAOS_ASSERT(EVP_PKEY_get_raw_private_key(key_.get(), seed.data(), &size) == 1);
    return seed;
}

Result<SecretKey> SecretKey::load(const std::filesystem::path& path) {
    struct stat about{};
    if (::stat(path.c_str(), &about) == 0 && (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return Error{"others may read the secret key " + path.string() + "; make it yours alone: chmod 600 " +
                     path.string()};
    const auto text = read_file(path);
    if (!text) return text.error();
    const std::unique_ptr<BIO, decltype(&BIO_free)> memory(
        BIO_new_mem_buf(text->data(), static_cast<int>(text->size())), BIO_free);
    // Never asks for a password: a key with one is refused.
    EVP_PKEY* key = PEM_read_bio_PrivateKey(memory.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr);
    if (key == nullptr) return Error{path.string() + " is no secret key (PEM, without a password)"};
    KeyPtr owned = own(key);
    if (EVP_PKEY_get_id(key) != EVP_PKEY_ED25519)
        return Error{"the key in " + path.string() + " is not an Ed25519 key"};
    return SecretKey(std::move(owned));
}

Result<void> SecretKey::save(const std::filesystem::path& path) const {
    const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), BIO_free);
    CHAOS_ASSERT(PEM_write_bio_PKCS8PrivateKey(memory.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
    char* text = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &text);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) return Error{"cannot create " + path.string() + ": " + std::strerror(errno)};
    const bool written = ::write(file, text, static_cast<std::size_t>(size)) == size && ::fsync(file) == 0;
    const int problem = errno;
    ::close(file);
    if (written) return {};
    ::unlink(path.c_str());
    return Error{"cannot write " + path.string() + ": " + std::strerror(problem)};
}

RawSignature SecretKey::sign(std::span<const std::uint8_t> bytes) const {
    RawSignature signature{};
    CHAOS_ASSERT(crypto_sign_detached(signature.data(), nullptr, bytes.data(), bytes.size(), signing_key_->data()) ==
                 0);
    return signature;
}

bool verify(const PublicKey& key, std::span<const std::uint8_t> bytes, const RawSignature& signature) {
    return crypto_sign_verify_detached(signature.data(), bytes.data(), bytes.size(), key.data()) == 0;
}

cluster::NodeId node_id(const PublicKey& key) {
    const Digest digest = Sha256().add(std::as_bytes(std::span(key))).finish();
    cluster::NodeId id;
    for (unsigned i = 0; i < 8; ++i) {
        id.high = id.high << 8 | digest[i];
        id.low = id.low << 8 | digest[8 + i];
    }
    return id;
}

std::string to_text(const PublicKey& key) {
    return hex(key);
}

Result<PublicKey> key_from_text(std::string_view text) {
    PublicKey key{};
    if (text.size() != 2 * key.size())
        return Error{"a key has 64 hexadecimal digits, this has " + std::to_string(text.size())};
    for (std::size_t i = 0; i < key.size(); ++i) {
        const char* at = text.data() + 2 * i;
        const auto read = std::from_chars(at, at + 2, key[i], 16);
        if (read.ec != std::errc() || read.ptr != at + 2) return Error{"a key has hexadecimal digits only"};
    }
    return key;
}

}  // namespace chaos::net
