// What the system can be told and asked about a TCP connection that carries bulk data. Where it lacks a feature, the
// connection works without it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace chaos::net {

void set_congestion_control(int socket, const std::string& name);
// How much the system takes that has not left yet: what is urgent overtakes the rest.
void set_unsent_bytes(int socket, std::size_t bytes);
// Bytes per second; no_limit of pacing.h: none.
void set_send_limit(int socket, std::uint64_t bytes_per_s);

struct SocketReport {
    std::uint64_t received_bytes = 0;
    std::uint64_t delivered_bytes = 0;       // whether or not something before them is missing
    std::uint64_t bytes_per_s = 0;           // delivered lately
    std::chrono::nanoseconds round_trip{0};  // smoothed
    std::chrono::nanoseconds shortest_round_trip{0};
    bool answer_due = false;             // the other end is to confirm something, or to say whether it has room again
    std::chrono::milliseconds heard{0};  // since it last confirmed anything
};
[[nodiscard]] std::optional<SocketReport> report_of(int socket);

}  // namespace chaos::net
