#include "net/tls.h"

#include "base/assert.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>

namespace chaos::net {
namespace {

// Of our extension: a number made from a random UUID, so that it is nobody else's.
constexpr const char* extension_oid = "2.25.266078908448588346404306732532686849955";
constexpr unsigned char protocol_name[] =
    "\x07"
    "chaos/1";

const ASN1_OBJECT* extension_object() {
    static ASN1_OBJECT* const object = OBJ_txt2obj(extension_oid, 1);
    CHAOS_ASSERT(object != nullptr);
    return object;
}

std::unique_ptr<X509, decltype(&X509_free)> certificate_of(const SecretKey& key, const Credential& credential) {
    std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
    CHAOS_ASSERT(certificate != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate.get()), "20000101000000Z");
    ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate.get()), "99991231235959Z");
    X509_NAME* name = X509_get_subject_name(certificate.get());
    const std::string text = "chaos node " + cluster::brief(node_id(key.public_key()));
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1,
                               0);
    X509_set_issuer_name(certificate.get(), name);
    X509_set_pubkey(certificate.get(), key.native());
    const std::vector<std::uint8_t> content = encode(credential);
    const std::unique_ptr<ASN1_OCTET_STRING, decltype(&ASN1_OCTET_STRING_free)> octets(ASN1_OCTET_STRING_new(),
                                                                                       ASN1_OCTET_STRING_free);
    ASN1_OCTET_STRING_set(octets.get(), content.data(), static_cast<int>(content.size()));
    const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
        X509_EXTENSION_create_by_OBJ(nullptr, extension_object(), 0, octets.get()), X509_EXTENSION_free);
    CHAOS_ASSERT(X509_add_ext(certificate.get(), extension.get(), -1) == 1);
    CHAOS_ASSERT(X509_sign(certificate.get(), key.native(), nullptr) > 0);
    return certificate;
}

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
    unsigned char* chosen = nullptr;
    if (SSL_select_next_proto(&chosen, out_size, protocol_name, sizeof protocol_name - 1, offered, offered_size) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

bool has_fast_aes() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("aes") != 0;
#else
    return true;
#endif
}

}  // namespace

Tls::Tls(const SecretKey& key, const Credential& credential) : context_(SSL_CTX_new(TLS_method()), SSL_CTX_free) {
    SSL_CTX* context = context_.get();
    CHAOS_ASSERT(context != nullptr);
    CHAOS_ASSERT(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1);
    CHAOS_ASSERT(SSL_CTX_set_ciphersuites(context, has_fast_aes()
                                                       ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                                       : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256") == 1);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
    SSL_CTX_set_alpn_protos(context, protocol_name, sizeof protocol_name - 1);
    CHAOS_ASSERT(SSL_CTX_use_certificate(context, certificate_of(key, credential).get()) == 1);
    CHAOS_ASSERT(SSL_CTX_use_PrivateKey(context, key.native()) == 1);
    // That the peer has the key of the certificate it shows, the handshake proves; who vouches for that key, its
    // credential says (proven_by, check). X.509's own chain of authorities is not asked.
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_cert_verify_callback(context, [](X509_STORE_CTX*, void*) { return 1; }, nullptr);
}

std::unique_ptr<ssl_st, void (*)(ssl_st*)> Tls::session(bool dialled) const {
    std::unique_ptr<SSL, void (*)(SSL*)> session(SSL_new(context_.get()), SSL_free);
    CHAOS_ASSERT(session != nullptr);
    if (dialled) {
        SSL_set_connect_state(session.get());
    } else {
        SSL_set_accept_state(session.get());
    }
    return session;
}

Result<Proven> proven_by(ssl_st* session) {
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(session), X509_free);
    if (certificate == nullptr) return Error{"it shows no certificate"};
    return named_in(certificate.get());
}

Result<Proven> named_in(x509_st* certificate) {
    const EVP_PKEY* key = X509_get0_pubkey(certificate);
    if (key == nullptr || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519) return Error{"its certificate has no Ed25519 key"};
    Proven proven;
    std::size_t size = proven.key.size();
    if (EVP_PKEY_get_raw_public_key(key, proven.key.data(), &size) != 1)
        return Error{"its certificate has no usable key"};
    proven.node = node_id(proven.key);
    const int place = X509_get_ext_by_OBJ(certificate, extension_object(), -1);
    if (place < 0) return Error{"its certificate carries no credential"};
    const ASN1_OCTET_STRING* content = X509_EXTENSION_get_data(X509_get_ext(certificate, place));
    const auto credential =
        decode_credential({ASN1_STRING_get0_data(content), static_cast<std::size_t>(ASN1_STRING_length(content))});
    if (!credential) return credential.error();
    proven.credential = *credential;
    return proven;
}

}  // namespace chaos::net
