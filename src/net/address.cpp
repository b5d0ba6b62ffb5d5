#include "net/address.h"

#include <algorithm>
#include <charconv>

namespace chaos::net {

Result<Address> address_from_text(std::string_view text) {
    const auto wrong = [&](const std::string& why) {
        return Error{"\"" + std::string(text) + "\" is no address: " + why +
                     " (e.g. example.org:4545, [::1]:4545, :4545)"};
    };
    Address address;
    std::string_view rest = text;
    if (rest.starts_with('[')) {
        const std::size_t end = rest.find(']');
        if (end == std::string_view::npos) return wrong("the bracket is not closed");
        address.host = rest.substr(1, end - 1);
        rest.remove_prefix(end + 1);
    } else {
        const std::size_t colon = rest.rfind(':');
        if (colon == std::string_view::npos) return wrong("it has no port");
        address.host = rest.substr(0, colon);
        if (address.host.find(':') != std::string::npos) return wrong("an IPv6 address is written in brackets");
        rest.remove_prefix(colon);
    }
    if (!rest.starts_with(':')) return wrong("it has no port");
    rest.remove_prefix(1);
    unsigned port = 0;
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), port);
    if (rest.empty() || read.ec != std::errc() || read.ptr != rest.data() + rest.size() || port > 65535)
        return wrong("a port is a number up to 65535");
    address.port = rest;
    return address;
}

}  // namespace chaos::net
