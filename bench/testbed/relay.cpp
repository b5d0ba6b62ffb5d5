#include "testbed/relay.h"

#include "base/random.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <span>
#include <utility>

namespace chaos::testbed {
namespace {

constexpr std::size_t max_packet_bytes = 65'536 + 1024;
constexpr std::int64_t ethernet_bytes = 14;  // rates count frames, as the kernel's shaper does on a veth
constexpr int max_reads_at_once = 64;        // so that packets of the other way are not late
constexpr std::int64_t ns_per_s = 1'000'000'000;
// A thread wakes a little late. What waited for it meanwhile could have been sent: the link may have been busy that
// long before now.
constexpr std::int64_t forgiven_ns = 1'000'000;

// What the kernel puts before each packet: virtio_net_hdr of linux/virtio_net.h, which C++ cannot include.
struct PacketHeader {
    std::uint8_t flags;
    std::uint8_t segmentation;  // 0: the packet is one frame
    std::uint16_t header_bytes;
    std::uint16_t segment_bytes;
    std::uint16_t checksum_start;  // where TCP's header begins
    std::uint16_t checksum_offset;
};
static_assert(sizeof(PacketHeader) == 10);

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * ns_per_s + now.tv_nsec;
}

std::int64_t to_ns(double ms) {
    return static_cast<std::int64_t>(ms * 1e6);
}

// What the packet would take on a wire: a packet of several TCP segments stands for as many frames.
std::int64_t wire_bytes(std::span<const std::byte> packet) {
    PacketHeader header{};
    std::memcpy(&header, packet.data(), sizeof header);
    const auto bytes = static_cast<std::int64_t>(packet.size() - sizeof header);
    const std::size_t tcp = sizeof header + header.checksum_start;
    if (header.segmentation == 0 || header.segment_bytes == 0 || tcp + 13 > packet.size()) {
        return bytes + ethernet_bytes;
    }
    const auto tcp_header_bytes = std::to_integer<std::int64_t>(packet[tcp + 12] >> 4) * 4;
    const std::int64_t headers = header.checksum_start + tcp_header_bytes;
    const std::int64_t frames =
        std::max<std::int64_t>((bytes - headers + header.segment_bytes - 1) / header.segment_bytes, 1);
    return bytes + (frames - 1) * headers + frames * ethernet_bytes;
}

struct Packet {
    std::int64_t arrives_ns = 0;
    std::size_t size = 0;
    std::unique_ptr<std::byte[]> bytes;  // NOLINT(modernize-avoid-c-arrays)
};

// One way of a link.
class Road {
public:
    Road(const RelayedLink& relayed, Way way)
        : from_(way == Way::forth ? relayed.tun_a.get() : relayed.tun_b.get()),
          to_(way == Way::forth ? relayed.tun_b.get() : relayed.tun_a.get()),
          turn_(way == Way::forth ? *relayed.forth : *relayed.back),
          queue_ns_(to_ns(relayed.queue_ms)),
          delay_ns_(to_ns(relayed.link.delay_ms)),
          jitter_ns_(to_ns(relayed.link.jitter_ms)),
          loss_(relayed.link.loss_percent / 100.0),
          seed_(random_bits(relayed.seed, 0, static_cast<std::uint64_t>(way))) {}

    [[nodiscard]] int from() const { return from_; }
    // When the next packet arrives; the largest number when none is on its way.
    [[nodiscard]] std::int64_t next_ns() const { return packets_.empty() ? INT64_MAX : packets_.front().arrives_ns; }

    [[nodiscard]] std::size_t packets() const { return packets_.size(); }

    void take(std::span<std::byte> scratch) {
        for (int i = 0; i < max_reads_at_once; ++i) {
            const ssize_t got = ::read(from_, scratch.data(), scratch.size());
            if (got <= static_cast<ssize_t>(sizeof(PacketHeader))) return;
            admit(scratch.first(static_cast<std::size_t>(got)), now_ns());
        }
    }

    void deliver(std::int64_t now) {
        while (!packets_.empty() && packets_.front().arrives_ns <= now) {
            const Packet& packet = packets_.front();
            // A refused packet is a lost one.
            if (turn_.cut == 0) [[maybe_unused]]
                const ssize_t written = ::write(to_, packet.bytes.get(), packet.size);
            packets_.pop_front();
        }
    }

private:
    void admit(std::span<const std::byte> packet, std::int64_t now) {
        if (turn_.cut != 0) return;
        ++count_;
        free_ns_ = std::max(free_ns_, now - forgiven_ns);
        if (free_ns_ - now > queue_ns_) return;
        const auto rate = static_cast<std::int64_t>(turn_.rate_bits_per_s.load());
        free_ns_ += wire_bytes(packet) * 8 * ns_per_s / std::max<std::int64_t>(rate, 1);
        if (random_unit(random_bits(seed_, 1, count_)) < loss_) return;

        std::int64_t delay = delay_ns_;
        if (jitter_ns_ > 0) {
            const double part = random_unit(random_bits(seed_, 2, count_)) * 2.0 - 1.0;
            delay += static_cast<std::int64_t>(part * static_cast<double>(jitter_ns_));
        }
        last_ns_ = std::max({last_ns_, std::max(free_ns_, now) + delay, now});
        auto bytes = std::make_unique_for_overwrite<std::byte[]>(packet.size());  // NOLINT(modernize-avoid-c-arrays)
        std::memcpy(bytes.get(), packet.data(), packet.size());
        packets_.push_back({last_ns_, packet.size(), std::move(bytes)});
    }

    int from_;
    int to_;
    Switch& turn_;
    std::int64_t queue_ns_;
    std::int64_t delay_ns_;
    std::int64_t jitter_ns_;
    double loss_;
    std::uint64_t seed_;

    std::uint64_t count_ = 0;
    std::int64_t free_ns_ = 0;  // when the link has sent all it was given
    std::int64_t last_ns_ = 0;  // when the last packet arrives
    std::deque<Packet> packets_;
};

// Waking up costs more than carrying a packet. While many are on their way, those that come or are due within so short
// a time are handled together: a hundredth of the delay, which nobody can tell from none.
constexpr std::size_t crowd = 16;
std::int64_t together_ns(const Link& link) {
    return std::clamp<std::int64_t>(to_ns(link.delay_ms) / 100, 20'000, 250'000);
}

void carry(const RelayedLink& relayed, int stop) {
    // Packets are due to the microsecond, also when hosts keep the cores busy. Where this is refused, they are less so.
    ::prctl(PR_SET_TIMERSLACK, 1);
    const sched_param first{.sched_priority = 1};
    ::pthread_setschedparam(::pthread_self(), SCHED_RR, &first);

    std::array<Road, 2> roads = {Road(relayed, Way::forth), Road(relayed, Way::back)};
    std::array<pollfd, 3> events = {pollfd{stop, POLLIN, 0}, pollfd{roads[0].from(), POLLIN, 0},
                                    pollfd{roads[1].from(), POLLIN, 0}};
    std::vector<std::byte> scratch(max_packet_bytes);
    const std::int64_t together = together_ns(relayed.link);
    while (events[0].revents == 0) {
        const std::int64_t next = std::min(roads[0].next_ns(), roads[1].next_ns());
        const bool crowded = roads[0].packets() + roads[1].packets() > crowd;
        std::int64_t wait = std::max<std::int64_t>(next - now_ns(), 0);
        if (crowded) wait = std::min(wait, together);
        const timespec timeout{wait / ns_per_s, wait % ns_per_s};
        ::ppoll(events.data(), crowded ? 1 : events.size(), next == INT64_MAX ? nullptr : &timeout, nullptr);
        if (((events[1].revents | events[2].revents) & POLLERR) != 0) return;  // a host is gone
        for (Road& road : roads) {
            road.take(scratch);
            road.deliver(now_ns() + (crowded ? together / 2 : 0));
        }
    }
}

}  // namespace

Result<Descriptor> open_tun(const std::string& name, bool whole_segments) {
    Descriptor tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (tun.get() < 0) return system_error("cannot open /dev/net/tun");
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    CHAOS_ASSERT(name.size() < IFNAMSIZ);
    std::memcpy(request.ifr_name, name.data(), name.size());
    if (::ioctl(tun.get(), TUNSETIFF, &request) != 0) return system_error("cannot make the TUN device " + name);
    const unsigned long offload = TUN_F_CSUM | (whole_segments ? TUN_F_TSO4 | TUN_F_TSO6 : 0U);
    if (::ioctl(tun.get(), TUNSETOFFLOAD, offload) != 0) return system_error("cannot set up the TUN device " + name);
    return tun;
}

Result<Relay> Relay::start(RelayedLink link) {
    const int stop = ::eventfd(0, EFD_CLOEXEC);
    if (stop < 0) return system_error("cannot make an event");
    Descriptor mine(stop);
    return Relay(std::move(mine), std::thread([link = std::move(link), stop] { carry(link, stop); }));
}

Relay::~Relay() {
    if (!thread_.joinable()) return;
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
}

}  // namespace chaos::testbed
