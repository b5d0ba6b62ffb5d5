#include "streams.h"

#include "bare_tls.h"
#include "peer.h"
#include "processes.h"
#include "report.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

namespace chaos::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t frame_bytes = 256 << 10;
constexpr std::size_t frames = 1024;  // in a round
constexpr std::size_t message_bytes = 64;
constexpr unsigned trips = 500;  // in a round

double seconds_since(Clock::time_point begun) {
    return std::chrono::duration<double>(Clock::now() - begun).count();
}

// Takes every frame to the same place.
class Sink final : public net::BulkReceiver {
public:
    Place place_for(NodeId, const net::BulkHead& head) override {
        return {.kind = Place::Kind::here, .at = std::span(memory_).first(head.bytes)};
    }
    void arrived(NodeId, const net::BulkHead&) override { ++arrivals_; }
    void dropped(NodeId, const net::BulkHead&) override { give_up("a bulk connection broke"); }

    [[nodiscard]] std::size_t arrivals() const { return arrivals_; }
    [[nodiscard]] const std::vector<std::byte>& memory() const { return memory_; }

private:
    std::vector<std::byte> memory_ = std::vector<std::byte>(frame_bytes);
    std::size_t arrivals_ = 0;
};

// The two processes' link, and the bare session beside it. Whatever arrives is counted from the start: a process may be
// ahead of the other.
struct Ends {
    Ends(Meeting& meeting, unsigned number, bool answers)
        : bare(meeting, number), peer(number, false, 1, &sink), other(id_of(1 - number)) {
        peer.on_message = [this, answers](NodeId from, std::span<const std::uint8_t> content) {
            ++messages;
            if (answers) peer.links.send(from, content);
        };
        meeting.tell_port(number, peer.listen("127.0.0.1:0"));
        if (number == 1) peer.connect(0, "127.0.0.1:" + std::to_string(meeting.port_of(0)));
        peer.await_links(1);
    }

    BareTls bare;
    Sink sink;
    Peer peer;
    NodeId other;
    std::size_t messages = 0;
    std::size_t messages_expected = 0;
    std::size_t frames_expected = 0;
};

void part(Ends& ends, Meeting& meeting) {
    meeting.wait([&] { ends.peer.run_briefly(); });
    meeting.wait([] { std::this_thread::yield(); });
}

// From number 0 to number 1, until it says that everything is there.
double link_stream_s(Ends& ends, unsigned number, const std::vector<std::byte>& frame) {
    const auto begun = Clock::now();
    if (number == 0) {
        for (std::size_t i = 0; i < frames; ++i)
            ends.peer.links.send_bulk(ends.other, {.kind = net::BulkKind::state, .bytes = frame_bytes}, frame, 0,
                                      nullptr);
        ++ends.messages_expected;
        ends.peer.run_until([&] { return ends.messages == ends.messages_expected; });
    } else {
        ends.frames_expected += frames;
        ends.peer.run_until([&] { return ends.sink.arrivals() == ends.frames_expected; });
        if (ends.sink.memory() != frame) give_up("a frame changed on its way");
        constexpr std::array<std::uint8_t, 1> done{1};
        ends.peer.links.send(ends.other, done);
    }
    return seconds_since(begun);
}

double bare_stream_s(Ends& ends, unsigned number, const std::vector<std::byte>& frame) {
    std::array<std::byte, 1> done{};
    std::vector<std::byte> place(frame_bytes);
    const auto begun = Clock::now();
    if (number == 0) {
        for (std::size_t i = 0; i < frames; ++i) ends.bare.write(frame);
        ends.bare.read(done);
    } else {
        for (std::size_t i = 0; i < frames; ++i) ends.bare.read(place);
        if (place != frame) give_up("a frame changed on its way");
        ends.bare.write(done);
    }
    return seconds_since(begun);
}

// Number 0 asks, number 1 answers; each round trip by itself.
std::vector<double> link_trips_s(Ends& ends, unsigned number) {
    const std::array<std::uint8_t, message_bytes> message{};
    std::vector<double> seconds;
    for (unsigned i = 0; i < trips; ++i) {
        const auto begun = Clock::now();
        if (number == 0) ends.peer.links.send(ends.other, message);
        ++ends.messages_expected;
        ends.peer.run_until([&] { return ends.messages >= ends.messages_expected; });
        seconds.push_back(seconds_since(begun));
    }
    return seconds;
}

std::vector<double> bare_trips_s(Ends& ends, unsigned number) {
    std::array<std::byte, message_bytes> message{};
    std::vector<double> seconds;
    for (unsigned i = 0; i < trips; ++i) {
        const auto begun = Clock::now();
        if (number == 0) ends.bare.write(message);
        ends.bare.read(message);
        if (number == 1) ends.bare.write(message);
        seconds.push_back(seconds_since(begun));
    }
    return seconds;
}

void append(std::vector<double>& all, const std::vector<double>& more) {
    all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

StreamFigures compare_streams(unsigned rounds) {
    const std::vector<double> seen = run_together(2, [&](Meeting& meeting, unsigned number) {
        Ends ends(meeting, number, false);
        std::vector<std::byte> frame(frame_bytes);
        for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(i * 7919 >> 8);
        std::vector<double> ours;
        std::vector<double> bare;
        for (unsigned round = 0; round < rounds + 1; ++round) {  // the first warms up
            for (const bool bare_turn : {round % 2 == 0, round % 2 != 0}) {
                meeting.wait([&] { ends.peer.run_briefly(); });
                const double seconds =
                    bare_turn ? bare_stream_s(ends, number, frame) : link_stream_s(ends, number, frame);
                if (round > 0) (bare_turn ? bare : ours).push_back(seconds);
                meeting.wait([&] { ends.peer.run_briefly(); });
            }
        }
        part(ends, meeting);
        return std::vector<double>{median(ours), median(bare)};
    });
    constexpr double bytes = static_cast<double>(frames * frame_bytes);
    return {.bytes_per_s = bytes / seen[0], .bare_bytes_per_s = bytes / seen[1]};
}

RoundTripFigures compare_round_trips(unsigned rounds) {
    const std::vector<double> seen = run_together(2, [&](Meeting& meeting, unsigned number) {
        Ends ends(meeting, number, number == 1);
        std::vector<double> ours;
        std::vector<double> bare;
        for (unsigned round = 0; round < rounds + 1; ++round) {  // the first warms up
            for (const bool bare_turn : {round % 2 == 0, round % 2 != 0}) {
                meeting.wait([&] { ends.peer.run_briefly(); });
                const auto seconds = bare_turn ? bare_trips_s(ends, number) : link_trips_s(ends, number);
                if (round > 0) append(bare_turn ? bare : ours, seconds);
                meeting.wait([&] { ends.peer.run_briefly(); });
            }
        }
        part(ends, meeting);
        std::ranges::sort(ours);
        return std::vector<double>{median(ours), ours[ours.size() * 99 / 100], median(bare)};
    });
    return {.median_s = seen[0], .p99_s = seen[1], .bare_median_s = seen[2]};
}

}  // namespace chaos::bench
