#include "node/identity.h"

#include "base/file.h"
#include "base/words.h"
#include "node/institutions.h"

#include <algorithm>
#include <ctime>
#include <optional>
#include <string_view>
#include <vector>

namespace chaos::node {
namespace {

namespace fs = std::filesystem;

constexpr const char* founders_institution = "local";
constexpr const char* how_to_get_in =
    "ask whoever keeps the institution for a token (chaos institution invite NAME, on its machine) and start with "
    "--token WORD";

fs::path credential_file(const fs::path& dir) {
    return dir / "credential";
}

std::string trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return "";
    return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

Result<net::Credential> from_token(const std::string& word, const net::PublicKey& node) {
    const Result<net::Token> token = net::token_from_text(trimmed(word));
    if (!token) return Error{"--token: " + token.error().message};
    net::Credential credential = net::redeem(*token, node);
    if (const auto fits = net::check(credential, net::node_id(node)); !fits)
        return Error{"--token: " + fits.error().message};
    if (!net::check_date(credential, std::time(nullptr)))
        return Error{std::string("the token of --token has expired; ") + how_to_get_in};
    return credential;
}

Result<net::Credential> from_certificate(const std::string& word, const net::PublicKey& node) {
    Result<net::Credential> credential = net::credential_from_text(trimmed(word));
    if (!credential) return Error{"--certificate: " + credential.error().message};
    if (!net::check(*credential, net::node_id(node)))
        return Error{
            "the certificate of --certificate is not for this node; ask for one for its key: chaos "
            "institution invite NAME --node " +
            net::to_text(node)};
    if (!net::check_date(*credential, std::time(nullptr)))
        return Error{
            "the certificate of --certificate has expired; ask for another one: chaos institution invite NAME "
            "--node " +
            net::to_text(node)};
    return credential;
}

// Of an earlier start; nullopt: there is none.
Result<std::optional<net::Credential>> kept_credential(const fs::path& dir, const net::PublicKey& node) {
    const fs::path file = credential_file(dir);
    if (!fs::exists(file)) return std::optional<net::Credential>();
    CHAOS_TRY(const std::string word, read_file(file));
    const Result<net::Credential> credential = net::credential_from_text(trimmed(word));
    if (!credential)
        return Error{file.string() + ": " + credential.error().message + "; remove the file, or " + how_to_get_in};
    if (!net::check(*credential, net::node_id(node)))
        return Error{file.string() + " is not for the key in " + key_file(dir).string() + "; remove it, or " +
                     how_to_get_in};
    return std::optional(*credential);
}

class Vouching {
public:
    Vouching(const IdentityOptions& options, Identity& identity, std::vector<Institution> institutions,
             Result<fs::path> home)
        : options_(options),
          identity_(identity),
          institutions_(std::move(institutions)),
          home_(std::move(home)),
          node_(identity.key.public_key()) {}

    Result<void> settle() {
        if (!options_.token.empty() && !options_.certificate.empty())
            return Error{"--token and --certificate exclude each other: both say why this node is let in"};
        if (!options_.token.empty()) {
            CHAOS_TRY(const net::Credential redeemed, from_token(options_.token, node_));
            return keep(redeemed);
        }
        if (!options_.certificate.empty()) {
            CHAOS_TRY(const net::Credential certificate, from_certificate(options_.certificate, node_));
            return keep(certificate);
        }
        CHAOS_TRY(const std::optional<net::Credential> kept, kept_credential(options_.dir, node_));
        return kept ? use(*kept) : vouch();
    }

private:
    const Institution* find(const net::PublicKey& root) const {
        const auto at =
            std::ranges::find_if(institutions_, [&](const Institution& one) { return one.key.public_key() == root; });
        return at == institutions_.end() ? nullptr : &*at;
    }

    // Takes what is kept, unless it has expired or another institution is to vouch.
    Result<void> use(const net::Credential& kept) {
        const Institution* issuer = find(kept.institution);
        const bool other =
            !options_.institution.empty() && (issuer == nullptr || issuer->name() != options_.institution);
        if (other) return vouch();
        if (net::check_date(kept, std::time(nullptr))) return take(kept);
        if (issuer != nullptr) return vouch_by(*issuer);
        return Error{"the credential in " + credential_file(options_.dir).string() + " has expired; " + how_to_get_in};
    }

    Result<void> vouch() {
        CHAOS_CHECK(home_);
        if (!options_.institution.empty()) {
            CHAOS_TRY(const Institution chosen, load_institution(*home_, options_.institution));
            return vouch_by(chosen);
        }
        if (institutions_.size() == 1) return vouch_by(institutions_.front());
        if (institutions_.size() > 1) {
            std::vector<std::string> names;
            names.reserve(institutions_.size());
            for (const Institution& one : institutions_) names.push_back(one.name());
            const std::vector<std::string_view> words(names.begin(), names.end());
            return Error{
                "this machine keeps several institutions; say which one vouches for this node: --institution " +
                one_of(words)};
        }
        if (!options_.may_make_institution)
            return Error{std::string("nobody vouches for this node: this machine keeps no institution; ") +
                         how_to_get_in};
        CHAOS_TRY(Institution made, make_institution(*home_, founders_institution));
        identity_.made_institution = true;
        institutions_.push_back(std::move(made));
        return vouch_by(institutions_.front());
    }

    Result<void> vouch_by(const Institution& institution) {
        CHAOS_TRY(const bool revoked, has_revoked(institution, node_));
        if (revoked)
            return Error{"the institution " + institution.name() + " has revoked the key of this node, in " +
                         key_file(options_.dir).string() + ", for good; a node in another folder gets another key"};
        CHAOS_TRY(const net::Credential certificate, issue_certificate(institution, node_, certificate_days));
        return keep(certificate);
    }

    Result<void> keep(const net::Credential& credential) {
        CHAOS_CHECK(write_file_atomically(credential_file(options_.dir), net::to_text(credential) + "\n"));
        return take(credential);
    }

    Result<void> take(const net::Credential& credential) {
        identity_.credential = credential;
        if (const Institution* issuer = find(credential.institution)) identity_.institution_name = issuer->name();
        return {};
    }

    const IdentityOptions& options_;
    Identity& identity_;
    std::vector<Institution> institutions_;
    Result<fs::path> home_;
    net::PublicKey node_;
};

}  // namespace

fs::path key_file(const fs::path& dir) {
    return dir / "node.key";
}

Result<net::SecretKey> make_key(const fs::path& dir) {
    CHAOS_CHECK(make_private_folder(dir));
    net::SecretKey key = net::SecretKey::generate();
    CHAOS_CHECK(key.save(key_file(dir)));
    return key;
}

Result<Identity> identity_of(const IdentityOptions& options) {
    // Who brings a credential along needs no institution here, nor a home.
    const Result<fs::path> home = options.home.empty() ? chaos_home() : options.home;
    std::vector<Institution> institutions;
    if (home) {
        CHAOS_TRY(institutions, load_institutions(*home));
    }
    const bool new_here = !fs::exists(key_file(options.dir));
    CHAOS_TRY(net::SecretKey key, new_here ? make_key(options.dir) : net::SecretKey::load(key_file(options.dir)));
    Identity identity{.key = std::move(key),
                      .credential = {},
                      .institution_name = "",
                      .made_institution = false,
                      .made_key = new_here};
    CHAOS_CHECK(Vouching(options, identity, std::move(institutions), home).settle());
    return identity;
}

}  // namespace chaos::node
