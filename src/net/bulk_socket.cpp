#include "net/bulk_socket.h"

// The C library's header knows an older tcp_info.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace chaos::net {

void set_congestion_control(int socket, const std::string& name) {
    if (name.empty()) return;
    ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
}

void set_unsent_bytes(int socket, std::size_t bytes) {
    const int value = static_cast<int>(bytes);
    ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, sizeof value);
}

void set_send_limit(int socket, std::uint64_t bytes_per_s) {
    ::setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof bytes_per_s);
}

std::optional<SocketReport> report_of(int socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
    return SocketReport{.received_bytes = info.tcpi_bytes_received,
                        .delivered_bytes = std::uint64_t{info.tcpi_delivered} * info.tcpi_snd_mss,
                        .bytes_per_s = info.tcpi_delivery_rate,
                        .round_trip = std::chrono::microseconds(info.tcpi_rtt),
                        .shortest_round_trip = std::chrono::microseconds(info.tcpi_min_rtt),
                        // A single probe of a full receiver may be on its way.
                        .answer_due = info.tcpi_unacked > 0 || info.tcpi_probes > 1,
                        .heard = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

}  // namespace chaos::net
