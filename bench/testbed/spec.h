// What a testbed consists of: hosts and the links between pairs of them. Written by a person as TOML:
//
//   name = "three-rooms"          # names the testbed; two with different names live side by side
//   queue_ms = 50                 # how long a packet may wait in front of a full link; longer queues drop
//   burst_kb = 256                # what an idle link without delay lets through at full speed of the machine
//   seed = 1                      # decides jitter and loss
//
//   [[host]]
//   name = "a"
//   cpus = 0.5                    # processes started in it share half a core; without it they take what they get
//   [[host]]
//   name = "b"
//
//   [defaults]                    # with it, every pair that has no link of its own gets one like this;
//   rate_mbit = 100               # without it, only the pairs that are named are linked
//
//   [[link]]
//   between = ["a", "b"]
//   rate_mbit = [100, 20]         # from a to b, from b to a; one number: both ways
//   delay_ms = 50                 # one way
//   jitter_ms = 5                 # each packet's delay is uniform in delay_ms +- jitter_ms; packets never overtake
//   loss_percent = 0.1            # of packets, independently
//
// Rates count what Ethernet frames would: TCP with full segments carries 95.6 % of a link's rate.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::testbed {

inline constexpr std::size_t max_hosts = 64;
inline constexpr std::size_t max_host_name = 12;  // an interface's name holds it after "to-"
inline constexpr std::size_t max_testbed_name = 32;

struct Host {
    std::string name{};
    double cpus = 0.0;  // 0: no quota

    bool operator==(const Host&) const = default;
};

struct Link {
    std::string a{};
    std::string b{};
    double rate_mbit = 100.0;     // from a to b
    double rate_back_mbit = 0.0;  // from b to a; 0: as much
    double delay_ms = 0.0;
    double jitter_ms = 0.0;
    double loss_percent = 0.0;

    // Whether traffic passes the relay: the kernel shapes rates only.
    [[nodiscard]] bool relayed() const { return delay_ms > 0.0 || jitter_ms > 0.0 || loss_percent > 0.0; }
    bool operator==(const Link&) const = default;
};

struct Spec {
    std::string name{};
    std::vector<Host> hosts{};
    std::vector<Link> links{};
    double queue_ms = 50.0;
    double burst_kb = 256.0;
    std::uint64_t seed = 1;

    bool operator==(const Spec&) const = default;
};

// `place` names the file in errors. What it returns has passed check_spec.
[[nodiscard]] Result<Spec> parse_spec(std::string_view text, const std::string& place);

// parse_spec(to_toml(spec)) is the spec again.
[[nodiscard]] std::string to_toml(const Spec& spec);

// Names, ranges, and that every link joins two hosts that exist and are not linked yet.
[[nodiscard]] Result<void> check_spec(const Spec& spec);

// Links every two hosts like `like`, whose ends do not matter.
void link_all(Spec& spec, const Link& like);

}  // namespace chaos::testbed
