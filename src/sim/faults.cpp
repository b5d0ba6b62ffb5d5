#include "sim/faults.h"

#include <array>
#include <cstdio>

namespace chaos::sim {
namespace {

std::string node(Host host) {
    return "n" + std::to_string(host);
}

std::string lies_of(std::uint64_t bits) {
    constexpr std::array<const char*, 8> words = {
        "sends wrong shards",         "names wrong hashes",
        "claims wrong figures",       "votes twice",
        "forges what it relays",      "reports steps it has not done",
        "speaks for links of others", "speaks for impostors and institutions"};
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i)
        if ((bits >> i & 1) != 0) text += (text.empty() ? "" : " and ") + std::string(words[i]);
    return text.empty() ? "tells the truth again" : text;
}

std::string what(const Fault& f) {
    const std::string a = node(f.host);
    const std::string b = node(f.other);
    const std::string value = std::to_string(f.value);
    switch (f.kind) {
        case FaultKind::crash:
            return a + " crashes";
        case FaultKind::power_loss:
            return a + " loses power";
        case FaultKind::restart:
            return a + " restarts";
        case FaultKind::restart_blank:
            return a + " restarts with an empty disk";
        case FaultKind::freeze:
            return a + " freezes";
        case FaultKind::thaw:
            return a + " thaws";
        case FaultKind::cut:
            return a + " and " + b + " are cut off from each other";
        case FaultKind::cut_one_way:
            return "nothing passes from " + a + " to " + b;
        case FaultKind::mend:
            return "the path between " + a + " and " + b + " is mended";
        case FaultKind::partition:
            return "the network is divided (mask " + value + ")";
        case FaultKind::heal:
            return "the network heals";
        case FaultKind::slow:
            return a + " is " + value + " times slower";
        case FaultKind::drift:
            return a + "'s clock drifts by " + std::to_string(static_cast<std::int64_t>(f.value) - 1000) + " ppm";
        case FaultKind::corrupt:
            return a + " sends " + value + " ppm corrupted messages";
        case FaultKind::lossy:
            return "paths lose, double and reorder " + value + " ppm each";
        case FaultKind::lie:
            return a + " " + lies_of(f.value);
        case FaultKind::join:
            return a + " joins";
        case FaultKind::leave:
            return a + " leaves";
        case FaultKind::connect:
            return a + " asks for a link with " + b;
        case FaultKind::disconnect:
            return a + " drops its link with " + b;
        case FaultKind::admit:
            return a + " admits institution " + value;
        case FaultKind::remove:
            return a + " removes institution " + value;
        case FaultKind::revoke:
            return a + " brings word that " + b + (f.value == 1 ? "'s join token" : "") + " is revoked";
        case FaultKind::all_down:
            return f.value == 0 ? "everybody crashes" : "everybody loses power";
        case FaultKind::all_up:
            return "everybody restarts";
    }
    return "";
}

}  // namespace

std::string describe(const Fault& fault) {
    std::array<char, 32> at{};
    std::snprintf(at.data(), at.size(), "at %.3f s ", static_cast<double>(fault.at) / second);
    return at.data() + what(fault);
}

}  // namespace chaos::sim
