// Nodes of one benchmark or test know each other beforehand: the key of number `n` is made from `n`, and one
// institution vouches for all.
#pragma once

#include "net/credential.h"

namespace chaos::bench {

[[nodiscard]] inline const net::SecretKey& numbered_institution() {
    static const net::SecretKey key = net::SecretKey::from_seed(net::Seed{0xc4});
    return key;
}

[[nodiscard]] inline net::SecretKey key_of(unsigned number) {
    return net::SecretKey::from_seed(net::Seed{1, static_cast<std::uint8_t>(number)});
}

[[nodiscard]] inline cluster::NodeId id_of(unsigned number) {
    return net::node_id(key_of(number).public_key());
}

[[nodiscard]] inline net::Credential credential_of(unsigned number) {
    return net::vouch_for(numbered_institution(), key_of(number).public_key(), 4'000'000'000);
}

}  // namespace chaos::bench
