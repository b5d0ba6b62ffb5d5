// The relay: what a link with delay, jitter or loss consists of. A TUN device in each of the two hosts, and a thread
// that carries packets between them:
//
//   host a                     the relay's thread                              host b
//   TUN  --read-->  [waits for the link to be free]  [is on its way]  --write-->  TUN
//                     at most queue_ms, at the rate     for delay_ms
//
// A packet's whole journey is computed when it is read: it leaves when the link has sent what came before and itself,
// and arrives a delay later. Packets never overtake each other.
#pragma once

#include "base/result.h"
#include "testbed/process.h"
#include "testbed/switches.h"

#include <cstdint>
#include <string>
#include <thread>

namespace chaos::testbed {

// Makes the TUN device in the calling thread's network namespace. Packets carry the kernel's virtio header; where
// `whole_segments`, up to 64 kB of a TCP stream travel as one packet, which saves most of the relay's work.
[[nodiscard]] Result<Descriptor> open_tun(const std::string& name, bool whole_segments);

struct RelayedLink {
    Link link;
    double queue_ms = 0.0;
    std::uint64_t seed = 0;  // decides jitter and loss
    Descriptor tun_a;
    Descriptor tun_b;
    Switch* forth = nullptr;  // outlive the relay
    Switch* back = nullptr;
};

// Runs while it lives.
class Relay {
public:
    static Result<Relay> start(RelayedLink link);
    ~Relay();
    Relay(Relay&&) = default;
    Relay& operator=(Relay&&) = delete;

private:
    Relay(Descriptor stop, std::thread thread) : stop_(std::move(stop)), thread_(std::move(thread)) {}

    Descriptor stop_;
    std::thread thread_;
};

}  // namespace chaos::testbed
