// Addresses as people write them: "host:port", "10.0.0.7:4545", "[2001:db8::7]:4545", ":4545".
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace chaos::net {

struct Address {
    std::string host;  // empty: this machine alone (loopback)
    std::string port;
};
[[nodiscard]] Result<Address> address_from_text(std::string_view text);

}  // namespace chaos::net
