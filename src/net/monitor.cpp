#include "net/monitor.h"

#include "base/cores.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace chaos::net {
namespace {

constexpr std::chrono::milliseconds window_length{100};
constexpr std::chrono::milliseconds pause_length{20};
constexpr std::size_t least_window_bytes = 64 << 10;

}  // namespace

void RateMeter::arrived(std::size_t bytes, Clock::time_point begin, Clock::time_point end) {
    if (begin - last_ > pause_length) {
        window_began_ = begin;
        window_bytes_ = 0;
    }
    window_bytes_ += bytes;
    if (end - window_began_ >= window_length) close_window(end);
    last_ = end;
}

void RateMeter::close_window(Clock::time_point now) {
    const double seconds = std::chrono::duration<double>(now - window_began_).count();
    const auto rate = static_cast<std::uint64_t>(static_cast<double>(window_bytes_) / seconds);
    if (window_bytes_ >= least_window_bytes)
        bytes_per_s_ = rate >= bytes_per_s_ ? rate : bytes_per_s_ - (bytes_per_s_ - rate) / 16;
    window_began_ = now;
    window_bytes_ = 0;
}

void RoundTrips::add(std::chrono::nanoseconds round_trip) {
    if (mean_.count() == 0) {
        mean_ = least_ = round_trip;
        spread_ = round_trip / 2;
        return;
    }
    const std::chrono::nanoseconds off = round_trip > mean_ ? round_trip - mean_ : mean_ - round_trip;
    spread_ = (3 * spread_ + off) / 4;
    mean_ = (7 * mean_ + round_trip) / 8;
    least_ = std::min(least_, round_trip);
}

Segments segments_of(int socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
    if (size < offsetof(tcp_info, tcpi_data_segs_out) + sizeof info.tcpi_data_segs_out) return {};
    return {.sent = info.tcpi_data_segs_out, .again = info.tcpi_total_retrans};
}

Machine measure_machine() {
    Machine machine;
    machine.cores = cores_of_this_process();
    std::ifstream memory("/proc/meminfo");
    for (std::string line; std::getline(memory, line);) {
        std::istringstream words(line);
        std::string name;
        std::uint64_t kilobytes = 0;
        words >> name >> kilobytes;
        if (name == "MemTotal:") machine.memory_bytes = kilobytes * 1024;
        if (name == "MemAvailable:") machine.free_memory_bytes = kilobytes * 1024;
    }
    std::ifstream("/proc/loadavg") >> machine.load;
    std::error_code none;
    for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
        (void)gpu;
        ++machine.gpus;
    }
    return machine;
}

}  // namespace chaos::net
