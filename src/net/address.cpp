#include "net/address.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace chaos::net {
namespace {

using boost::asio::ip::udp;

// Of the datagrams to there that this machine could send; none is sent.
std::optional<boost::asio::ip::address> source_towards(boost::asio::io_context& loop, const Address& there,
                                                       const udp& protocol) {
    boost::system::error_code problem;
    const auto found = udp::resolver(loop).resolve(protocol, there.host, there.port, problem);
    if (problem || found.empty()) return std::nullopt;
    udp::socket socket(loop);
    (void)socket.open(protocol, problem);
    if (!problem) (void)socket.connect(found.begin()->endpoint(), problem);
    if (problem) return std::nullopt;
    const auto source = socket.local_endpoint(problem).address();
    return problem || source.is_unspecified() ? std::nullopt : std::optional(source);
}

}  // namespace

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

std::string address_for_others(const std::string& listens, std::span<const std::string> contacts) {
    const Result<Address> own = address_from_text(listens);
    boost::system::error_code no_number;
    const auto host = own ? boost::asio::ip::make_address(own->host, no_number) : boost::asio::ip::address();
    if (!own || no_number || !host.is_unspecified()) return listens;
    const udp protocol = host.is_v6() ? udp::v6() : udp::v4();
    std::vector<Address> ways;
    for (const std::string& contact : contacts)
        if (const Result<Address> there = address_from_text(contact); there && !there->host.empty())
            ways.push_back(*there);
    // An address that nobody has: the way to it is the way out.
    ways.push_back({.host = host.is_v6() ? "2001:db8::1" : "192.0.2.1", .port = "9"});
    boost::asio::io_context loop;
    for (const Address& way : ways)
        if (const auto source = source_towards(loop, way, protocol))
            return (source->is_v6() ? "[" + source->to_string() + "]" : source->to_string()) + ":" + own->port;
    return (host.is_v6() ? "[::1]:" : "127.0.0.1:") + own->port;
}

}  // namespace chaos::net
