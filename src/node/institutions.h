// Institutions whose root keys this machine keeps, and what they issue (net/credential.h says what that is good for).
// They live in the user's home for Chaos:
//
//   HOME/institutions/NAME.key       the root key
//   HOME/institutions/NAME.issued    whom it has invited and withdrawn (issued.h)
//
// Whatever is issued is written down first: what cannot be is not issued.
#pragma once

#include "base/result.h"
#include "net/credential.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace chaos::node {

inline constexpr std::uint32_t certificate_days = 365;
inline constexpr std::uint32_t token_days = 7;
inline constexpr std::uint32_t most_days = 36'500;

// $CHAOS_HOME, else ~/.chaos.
[[nodiscard]] Result<std::filesystem::path> chaos_home();

// Makes the folder of a key, that only its owner may enter.
[[nodiscard]] Result<void> make_private_folder(const std::filesystem::path& folder);

struct Institution {
    std::filesystem::path file;
    net::SecretKey key;

    [[nodiscard]] std::string name() const { return file.stem().string(); }
};

// Never replaces one.
[[nodiscard]] Result<Institution> make_institution(const std::filesystem::path& home, const std::string& name);
[[nodiscard]] Result<Institution> load_institution(const std::filesystem::path& home, const std::string& name);
// All of them, by name.
[[nodiscard]] Result<std::vector<Institution>> load_institutions(const std::filesystem::path& home);
// The only one that has invited the node or token with this key.
[[nodiscard]] Result<Institution> issuer_of(const std::filesystem::path& home, const net::PublicKey& subject);

[[nodiscard]] Result<net::Token> issue_token(const Institution& institution, std::uint32_t days);
[[nodiscard]] Result<net::Credential> issue_certificate(const Institution& institution, const net::PublicKey& node,
                                                        std::uint32_t days);
[[nodiscard]] Result<net::Revocation> issue_revocation(const Institution& institution, const net::PublicKey& subject);
[[nodiscard]] Result<bool> has_revoked(const Institution& institution, const net::PublicKey& subject);

}  // namespace chaos::node
