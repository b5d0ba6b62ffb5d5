// Addresses as people write them: "host:port", "10.0.0.7:4545", "[2001:db8::7]:4545", ":4545".
#pragma once

#include "base/result.h"

#include <span>
#include <string>
#include <string_view>

namespace chaos::net {

struct Address {
    std::string host;  // empty: this machine alone (loopback)
    std::string port;
};
[[nodiscard]] Result<Address> address_from_text(std::string_view text);

// Where others dial a node that listens there. Who listens at every address of its machine (0.0.0.0, [::]) is dialled
// at the one from which its way to one of these contacts begins, or its way out; at loopback where it has no other.
// What stands between them (NAT) is not seen: a person says the address then.
[[nodiscard]] std::string address_for_others(const std::string& listens, std::span<const std::string> contacts);

}  // namespace chaos::net
