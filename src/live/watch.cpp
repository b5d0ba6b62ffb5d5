#include "live/watch.h"

#include <algorithm>
#include <vector>

namespace chaos::live {
namespace {

constexpr std::chrono::seconds look_every{1};
constexpr std::chrono::seconds probe_after{2};  // without anything sent
constexpr std::chrono::milliseconds probe_length{200};
constexpr std::chrono::milliseconds probe_tick{5};
constexpr std::uint64_t probe_ahead_bytes = 512 << 10;
constexpr std::uint64_t enough_bytes = 1 << 20;  // sent: the other end knows by now
constexpr std::uint32_t frame_bytes = 64 << 10;

}  // namespace

Watch::Watch(net::asio::io_context& loop, net::Links& links, Callbacks callbacks)
    : links_(links), callbacks_(std::move(callbacks)), tick_(loop), probing_(loop) {}

void Watch::start() {
    tick_.expires_after(look_every);
    tick_.async_wait([this, runs = runs_](boost::system::error_code cancelled) {
        if (cancelled || !*runs) return;
        look();
        if (*runs) start();
    });
}

void Watch::stop() {
    *runs_ = false;
    tick_.cancel();
    probing_.cancel();
}

void Watch::look() {
    const std::vector<NodeId> peers = links_.peers();
    std::erase_if(watched_, [&](const auto& entry) { return !std::ranges::binary_search(peers, entry.first); });
    for (const NodeId peer : peers) {
        (void)links_.ping(peer);
        const net::LinkFigures figures = links_.figures(peer);
        if (figures.receive_bytes_per_s > 0) callbacks_.measured(peer, figures.receive_bytes_per_s);
        Watched& watched = watched_.try_emplace(peer, Watched{.since = net::Clock::now()}).first->second;
        if (watched.probed || probe_runs_ || figures.bulk_sent_bytes >= enough_bytes ||
            net::Clock::now() - watched.since < probe_after || !callbacks_.may_probe(peer))
            continue;
        watched.probed = probe_runs_ = true;
        probe(std::make_shared<Probe>(
            Probe{.peer = peer, .until = net::Clock::now() + probe_length, .sent_before = figures.bulk_sent_bytes}));
    }
}

// Frames of no transfer (net/transfers.h): the other end reads past them, and sees how fast they come.
void Watch::probe(const std::shared_ptr<Probe>& probe) {
    static const auto nothing = std::make_shared<const std::vector<std::byte>>(frame_bytes);
    probe_runs_ = links_.linked(probe->peer) && net::Clock::now() < probe->until;
    if (!probe_runs_) return;
    const std::uint64_t sent_now = links_.figures(probe->peer).bulk_sent_bytes;
    probe_runs_ = sent_now >= probe->sent_before;  // else another link took its place
    if (!probe_runs_) return;
    const std::uint64_t sent = sent_now - probe->sent_before;
    for (; probe->queued < sent + probe_ahead_bytes; probe->queued += frame_bytes)
        (void)links_.send_bulk(probe->peer, {.kind = net::BulkKind::state, .bytes = frame_bytes}, *nothing,
                               net::any_lane, nothing);
    probing_.expires_after(probe_tick);
    probing_.async_wait([this, probe, runs = runs_](boost::system::error_code cancelled) {
        if (!cancelled && *runs) this->probe(probe);
    });
}

}  // namespace chaos::live
