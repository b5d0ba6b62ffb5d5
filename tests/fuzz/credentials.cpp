// What people paste and strangers show: addresses, keys, tokens, node certificates as text, and the certificate of a
// TLS handshake. Whatever is read is written back as it was.
#include "fuzz/seeds.h"
#include "net/address.h"
#include "net/signer.h"
#include "net/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace {

using namespace chaos;
using namespace chaos::net;

std::string lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

const PublicKey& some_key() {
    static const PublicKey key = SecretKey::from_seed(Seed{7}).public_key();
    return key;
}

void judge(const Credential& credential, cluster::NodeId node) {
    (void)check(credential, node);
    (void)check_date(credential, 1'800'000'000);
    (void)vouched_by(credential);
}

void read_text(std::string_view text) {
    if (const auto address = address_from_text(text))
        CHAOS_ASSERT(!address->port.empty() && address->port.size() + address->host.size() < text.size());
    if (const auto key = key_from_text(text)) CHAOS_ASSERT(to_text(*key) == lower(text));
    if (const auto token = token_from_text(text)) {
        CHAOS_ASSERT(to_text(*token) == lower(text));
        judge(redeem(*token, some_key()), node_id(some_key()));
    }
    if (const auto credential = credential_from_text(text)) {
        CHAOS_ASSERT(to_text(*credential) == lower(text));
        judge(*credential, node_id(some_key()));
    }
    if (const auto revocation = revocation_from_text(text)) {
        CHAOS_ASSERT(to_text(*revocation) == lower(text));
        (void)check(*revocation);
    }
}

void read_certificate(std::span<const std::uint8_t> bytes) {
    const unsigned char* at = bytes.data();
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        d2i_X509(nullptr, &at, static_cast<long>(bytes.size())), X509_free);
    if (certificate == nullptr) return;
    const Result<Proven> proven = named_in(certificate.get());
    if (!proven) return;
    CHAOS_ASSERT(proven->node == node_id(proven->key));
    judge(proven->credential, proven->node);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    read_text({reinterpret_cast<const char*>(data), size});
    read_certificate({data, size});
    if (const auto credential = decode_credential({data, size}))
        CHAOS_ASSERT(std::ranges::equal(encode(*credential), std::span(data, size)));
    if (const auto revocation = decode_revocation({data, size}))
        CHAOS_ASSERT(std::ranges::equal(encode(*revocation), std::span(data, size)));
    static const KeySigner signer(SecretKey::from_seed(Seed{7}));
    (void)signer.vouched(node_id(some_key()), {data, size});
    (void)signer.revocation({data, size});
    return 0;
}

namespace {

// The certificate that a node shows.
fuzz::Bytes certificate_of(const SecretKey& key, const Credential& credential) {
    const Tls tls(key, credential);
    const auto session = tls.session(true);
    unsigned char* bytes = nullptr;
    const int size = i2d_X509(SSL_get_certificate(session.get()), &bytes);
    CHAOS_ASSERT(size > 0);
    const fuzz::Bytes result(bytes, bytes + size);
    OPENSSL_free(bytes);
    return result;
}

}  // namespace

std::vector<fuzz::Bytes> fuzz::seeds() {
    const SecretKey institution = SecretKey::from_seed(Seed{1});
    const SecretKey node = SecretKey::from_seed(Seed{7});
    const Token token = issue_token(institution, 4'000'000'000);
    const Credential vouched = vouch_for(institution, node.public_key(), 4'000'000'000);
    const Credential redeemed = redeem(token, node.public_key());
    std::vector<Bytes> seeds;
    const auto add = [&](const std::string& text) { seeds.emplace_back(text.begin(), text.end()); };
    add("example.org:4545");
    add("[2001:db8::7]:4545");
    add(":0");
    add(to_text(node.public_key()));
    add(to_text(token));
    add(to_text(vouched));
    add(to_text(redeemed));
    const Revocation revocation = revoke(institution, node.public_key());
    add(to_text(revocation));
    seeds.push_back(encode(revocation));
    seeds.push_back(encode(vouched));
    seeds.push_back(encode(redeemed));
    seeds.push_back(certificate_of(node, vouched));
    seeds.push_back(certificate_of(node, redeemed));
    return seeds;
}
