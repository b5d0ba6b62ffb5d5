// Who a node is. Both halves lie in its folder, so that several nodes of one machine are different nodes:
//
//   DIR/node.key      its secret key, made when it is first needed
//   DIR/credential    why others let it in, in one word: the certificate, or the join token redeemed for this key
//
// Where nothing is given and nothing is kept, an institution of this machine vouches for the key.
#pragma once

#include "base/result.h"
#include "net/credential.h"
#include "net/key.h"

#include <filesystem>
#include <string>

namespace chaos::node {

struct Identity {
    net::SecretKey key;
    net::Credential credential;
    std::string institution_name;   // that vouches for it, where this machine keeps it; else empty
    bool made_institution = false;  // ... and it was made just now
    bool made_key = false;
};

struct IdentityOptions {
    std::filesystem::path dir;
    std::string token;                  // a join token
    std::string certificate;            // or a certificate; instead of the credential that is kept
    std::string institution;            // that is to vouch for the node; empty: the only one of this machine
    bool may_make_institution = false;  // named "local", where there is none
    std::filesystem::path home = {};    // of institutions; empty: chaos_home()
};

// The node's key and a credential that holds now, both kept in `dir`. Whoever calls holds the lock of `dir`.
[[nodiscard]] Result<Identity> identity_of(const IdentityOptions& options);

[[nodiscard]] std::filesystem::path key_file(const std::filesystem::path& dir);
// Never replaces one. The folder is the owner's alone from then on.
[[nodiscard]] Result<net::SecretKey> make_key(const std::filesystem::path& dir);

}  // namespace chaos::node
