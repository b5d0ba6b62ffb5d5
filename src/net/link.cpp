// One link: what travels on its connections.
#include "net/link.h"

#include "base/words.h"
#include "net/bulk_socket.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <bit>

namespace chaos::net {
namespace {

constexpr std::size_t control_write_bytes = 64 << 10;  // frames that wait leave together
constexpr std::size_t queued_frame_bytes = 64;         // what a frame that waits takes besides its own
constexpr double counted_bytes = 4096;                 // a longer control message counts for several
constexpr std::uint64_t handled_at_once = 64;          // control messages, before others have their turn
constexpr std::uint64_t frames_until_told = 32;
constexpr std::uint64_t bytes_until_told = 4 << 20;
constexpr std::chrono::milliseconds pace_interval{20};
constexpr int intervals_until_rest = 50;  // without anything to send
constexpr double rate_gain = 0.1;
constexpr double equal_share = 0.2;
constexpr std::size_t least_unsent_bytes = 16 << 10;
constexpr std::uint64_t unsent_per_s = 250;  // the system takes 4 ms ahead

bool any_in(const BulkQueues& queues) {
    return std::ranges::any_of(queues, [](const auto& queue) { return !queue.empty(); });
}

// Sleeps until somebody cancels the timer.
awaitable<void> sleep_on(asio::steady_timer& timer) {
    timer.expires_at(asio::steady_timer::time_point::max());
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

}  // namespace

std::vector<std::byte> frame_of(const wire::Control& message) {
    const std::size_t size = message.ByteSizeLong();
    std::vector<std::byte> frame(control_head_bytes + size);
    std::ranges::copy(encode_control_size(size), frame.begin());
    message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(frame.data() + control_head_bytes));
    return frame;
}

Link::Link(LinksState& links, NodeId other)
    : owner(links.shared_from_this()),
      state(links),
      peer(other),
      wake(links.loop),
      closing_limit(links.loop),
      watching(links.loop),
      allowance(links.options.control_per_s, links.options.control_at_once, Allowance::Clock::now()) {}

void Link::start() {
    for (std::uint32_t place = 0; place < state.options.bulk_connections + 1; ++place)
        places.push_back(std::make_unique<BulkPlace>(state.loop));
    // Not at once: that the link is up is told before what comes over it.
    asio::post(state.loop, [self = shared_from_this()] {
        asio::co_spawn(self->state.loop, self->read_control(self->control), asio::detached);
    });
    asio::co_spawn(state.loop, write_control(control), asio::detached);
    asio::co_spawn(state.loop, watch_places(), asio::detached);
    if (!dialled) return;
    for (std::uint32_t place = 0; place < places.size(); ++place)
        asio::co_spawn(state.loop, keep_bulk(place), asio::detached);
}

void Link::send(const wire::Control& message) {
    queue(frame_of(message));
}

void Link::send_cluster(std::span<const std::uint8_t> message) {
    wire::Control control_message;
    control_message.set_cluster(message.data(), message.size());
    send(control_message);
}

void Link::queue(std::vector<std::byte> frame) {
    if (ended || closing || failing) return;
    ++figures.control_sent;
    if (idle && frame.size() <= Stream::max_now_bytes) {
        idle = control->write_now(frame, {});
        if (!idle) wake.cancel();
        return;
    }
    idle = false;  // nothing short overtakes it
    outgoing_bytes += frame.size() + queued_frame_bytes;
    outgoing.push_back(std::move(frame));
    if (outgoing_bytes > state.options.max_waiting_bytes) {
        ++state.counters.dropped_slow;
        return end_soon("it does not read what it is sent");
    }
    wake.cancel();
}

// Whoever sends does not expect to hear of the link's end before that is done.
void Link::end_soon(const std::string& why) {
    failing = true;
    asio::post(state.loop, [self = shared_from_this(), why] { self->end(why); });
}

// The link is over, for whatever reason. Coroutines that still hold it see `ended`.
void Link::end(const std::string& why) {
    if (ended) return;
    ended = true;
    const std::shared_ptr<Link> keep = shared_from_this();
    control->close();
    wake.cancel();
    closing_limit.cancel();
    watching.cancel();
    state.closing.erase(keep);
    for (const auto& place : places) {
        if (place->stream) place->stream->close();
        place->wake.cancel();
        place->may_read.cancel();
    }
    const auto known = state.links.find(peer);
    const bool ours = known != state.links.end() && known->second == keep;
    if (ours) state.links.erase(known);
    if (!ours || closing || state.stopped) return;
    if (state.dialling.contains(peer) && state.self < peer && !has_bulk()) {
        state.orphans.insert(peer);
        return;
    }
    state.events.link_closed(peer, why);
}

awaitable<void> Link::write_control(StreamPtr stream) {
    const std::shared_ptr<Link> keep = shared_from_this();
    std::vector<std::byte> together;
    while (!ended) {
        if (outgoing.empty() && !stream->has_unsent()) {
            if (closing) co_return end("closed");
            idle = true;
            co_await sleep_on(wake);
            continue;
        }
        idle = false;
        together.clear();
        while (!outgoing.empty() &&
               (together.empty() || together.size() + outgoing.front().size() <= control_write_bytes)) {
            outgoing_bytes -= outgoing.front().size() + queued_frame_bytes;
            if (together.empty()) {
                together = std::move(outgoing.front());
            } else {
                together.insert(together.end(), outgoing.front().begin(), outgoing.front().end());
            }
            outgoing.pop_front();
        }
        if (const Result<void> sent = co_await stream->write(together, {}); !sent) co_return end(sent.error().message);
    }
}

awaitable<void> Link::read_control(StreamPtr stream) {
    const std::shared_ptr<Link> keep = shared_from_this();
    ControlReader reader;
    while (!ended) {
        const std::span<std::byte> room = reader.room();
        const Result<std::size_t> got = co_await stream->read_some(room);
        if (ended) co_return;
        if (!got) co_return end(got.error().message);
        reader.filled(*got);
        double taken = 0;
        for (std::uint64_t frames = 1;; ++frames) {
            const auto frame = reader.next();
            if (frame && !frame->has_value()) break;
            const Result<double> handled = frame ? handle(**frame) : Result<double>(frame.error());
            if (!handled) {
                ++state.counters.malformed;
                co_return end(handled.error().message);
            }
            if (ended) co_return;
            taken += *handled;
            if (frames % handled_at_once == 0) co_await asio::post(state.loop, asio::use_awaitable);
            if (ended) co_return;
        }
        const Allowance::Clock::duration pause = allowance.take(taken, Allowance::Clock::now());
        if (!co_await hold_back(pause)) co_return;
    }
}

// Of a peer that sends too much nothing is read for a while; one that does so for long is dropped. False: it was.
awaitable<bool> Link::hold_back(Allowance::Clock::duration pause) {
    const Allowance::Clock::time_point now = Allowance::Clock::now();
    if (pause.count() == 0) {
        loud_since.reset();
        co_return true;
    }
    ++state.counters.control_delayed;
    if (!loud_since) loud_since = now;
    if (now - *loud_since > state.options.longest_loud) {
        ++state.counters.dropped_loud;
        end("it sends more messages than anybody needs");
        co_return false;
    }
    asio::steady_timer timer(state.loop, pause);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    co_return true;
}

// What it counts for in the peer's allowance.
Result<double> Link::handle(std::span<const std::byte> frame) {
    constexpr double next_to_nothing = 1.0 / 16;  // it costs us little, and a fast link has many
    const double all = 1 + static_cast<double>(frame.size()) / counted_bytes;
    if (closing || state.stopped) return all;  // nobody hears it any more
    ++figures.control_received;
    wire::Control message;
    if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size())))
        return Error{"it sent what is no message"};
    switch (message.what_case()) {
        case wire::Control::kCluster:
            state.events.received(
                peer, {reinterpret_cast<const std::uint8_t*>(message.cluster().data()), message.cluster().size()});
            return all;
        case wire::Control::kWork:
            state.events.received_work(
                peer, {reinterpret_cast<const std::uint8_t*>(message.work().data()), message.work().size()});
            return all;
        case wire::Control::kPing: {
            wire::Control answer;
            answer.mutable_pong()->set_number(message.ping().number());
            send(answer);
            // Where little comes, it is confirmed at last: the other end keeps it until then.
            for (std::uint32_t number = 0; number < places.size(); ++number) confirm_arrived(number);
            return all;
        }
        case wire::Control::kPong:
            if (message.pong().number() == ping_number && ping_number != 0) {
                figures.round_trip = std::chrono::steady_clock::now() - pinged_at;
                figures.round_trips.add(figures.round_trip);
            }
            return next_to_nothing;
        case wire::Control::kArrived: {
            if (message.arrived().place() >= places.size())
                return Error{"it speaks of a connection that does not exist"};
            BulkPlace& place = *places[message.arrived().place()];
            const std::uint64_t frames = message.arrived().frames();
            if (frames <= place.confirmed) return next_to_nothing;  // a fresh connection's greeting told it before
            if (!plausible(message.arrived().place(), frames))
                return Error{"it says that more has arrived than was sent"};
            confirm(place, frames);
            return next_to_nothing;
        }
        case wire::Control::kRefusal:
            end("refused: " + printable(message.refusal()));
            return all;
        default:
            return Error{"it sent a message that has no place here"};
    }
}

bool Link::plausible(std::uint32_t number, std::uint64_t frames_arrived) const {
    const BulkPlace& place = *places[number];
    return frames_arrived >= place.confirmed && frames_arrived - place.confirmed <= place.unconfirmed.size();
}

// It is on its way, and kept until it is known to have arrived.
void Link::sent(BulkPlace& place, BulkFrame frame) {
    unconfirmed_bytes += sizeof frame + frame.payload.size();
    place.unconfirmed.push_back(std::move(frame));
    if (unconfirmed_bytes <= state.options.max_unconfirmed_bytes || failing) return;
    ++state.counters.dropped_unconfirmed;
    end_soon("it does not confirm what it is sent");
}

void Link::confirm(BulkPlace& place, std::uint64_t frames) {
    for (; place.confirmed < frames; ++place.confirmed) {
        unconfirmed_bytes -= sizeof(BulkFrame) + place.unconfirmed.front().payload.size();
        place.unconfirmed.pop_front();
    }
}

// A fresh connection for this place. What had not arrived before is sent again.
void Link::attach(std::uint32_t number, const StreamPtr& stream, std::uint64_t frames_arrived) {
    BulkPlace& place = *places[number];
    CHAOS_ASSERT(plausible(number, frames_arrived));
    confirm(place, frames_arrived);
    while (!place.unconfirmed.empty()) {
        BulkFrame& frame = place.unconfirmed.back();
        unconfirmed_bytes -= sizeof frame + frame.payload.size();
        place.waiting[static_cast<std::size_t>(frame.head.kind)].push_front(std::move(frame));
        place.unconfirmed.pop_back();
    }
    if (place.stream) place.stream->close();
    place.stream = stream;
    place.may_read.cancel();
    place.writing = place.idle = false;
    place.unheard_since.reset();
    place.lacking_since.reset();
    place.delivered_bytes = 0;
    place.bytes_per_s = 0.0;
    place.limit = no_limit;
    place.unsent_bytes = most_unsent_bytes;
    state.prepare_bulk(*stream);
    state.share_limits();
    asio::co_spawn(state.loop, read_bulk(number, stream), asio::detached);
    asio::co_spawn(state.loop, write_bulk(number, stream), asio::detached);
}

// What is short leaves at once where nothing is before it. False: it has to wait for its turn.
bool Link::send_now(BulkPlace& place, BulkFrame& frame) {
    if (!place.idle || !place.stream || bulk_head_bytes + frame.payload.size() > Stream::max_now_bytes) return false;
    place.idle = place.stream->write_now(encode(frame.head), frame.payload);
    if (!place.idle) place.wake.cancel();
    figures.bulk_sent_bytes += frame.payload.size();
    sent(place, std::move(frame));
    return true;
}

void Link::queue_bulk(BulkFrame frame, std::uint32_t lane) {
    const auto kind = static_cast<std::size_t>(frame.head.kind);
    if (lane == any_lane && frame.head.kind != BulkKind::results) {
        const auto end = places.end() - 1;
        const auto free =
            std::find_if(places.begin(), end, [](const auto& place) { return place->stream && !place->writing; });
        if (free != end && send_now(**free, frame)) return;
        waiting[kind].push_back(std::move(frame));
        if (free != end) {
            (*free)->idle = false;
            (*free)->wake.cancel();
        }
    } else {
        const bool result = frame.head.kind == BulkKind::results;
        BulkPlace& place = result ? *places.back() : *places[lane % (places.size() - 1)];
        if (send_now(place, frame)) return;
        place.idle = false;
        place.waiting[kind].push_back(std::move(frame));
        place.wake.cancel();
    }
    // Within one machine a round trip tells how busy the processes are, not the line.
    if (pacing || (control->within_machine() && state.options.max_send_bytes_per_s == 0)) return;
    pacing = true;
    asio::co_spawn(state.loop, keep_pace(), asio::detached);
}

// Gradients before state; but while both wait, state gets its share.
std::optional<BulkFrame> Link::next_frame(BulkPlace& place) {
    if (&place == places.back().get()) {
        auto& results = place.waiting[static_cast<std::size_t>(BulkKind::results)];
        if (results.empty()) return std::nullopt;
        BulkFrame frame = std::move(results.front());
        results.pop_front();
        return frame;
    }
    const auto queue_of = [&](BulkKind kind) {
        const auto index = static_cast<std::size_t>(kind);
        return !place.waiting[index].empty() ? &place.waiting[index] : &waiting[index];
    };
    auto* const gradients = queue_of(BulkKind::gradients);
    auto* const shards = queue_of(BulkKind::state);
    if (gradients->empty() && shards->empty()) return std::nullopt;
    auto* chosen = gradients->empty() ? shards : gradients;
    if (shards->empty()) {
        state_credit_bytes = 0;
    } else if (chosen == gradients && state_credit_bytes >= shards->front().payload.size()) {
        chosen = shards;
        state_credit_bytes -= shards->front().payload.size();
    } else if (chosen == gradients) {
        const std::uint64_t share = std::min(state.options.state_share_percent, 99U);
        state_credit_bytes += gradients->front().payload.size() * share / (100 - share);
    }
    BulkFrame frame = std::move(chosen->front());
    chosen->pop_front();
    return frame;
}

awaitable<void> Link::write_bulk(std::uint32_t number, StreamPtr stream) {
    const std::shared_ptr<Link> keep = shared_from_this();
    BulkPlace& place = *places[number];
    while (!ended && place.stream == stream) {
        std::optional<BulkFrame> next = next_frame(place);
        if (!next && !stream->has_unsent()) {
            place.idle = true;
            co_await sleep_on(place.wake);
            continue;
        }
        place.idle = false;
        if (!next) {
            if (const Result<void> rest = co_await stream->write({}, {}); !rest) co_return lose(place, stream);
            continue;
        }
        const BulkFrame frame = *next;
        sent(place, std::move(*next));
        place.writing = true;
        const Result<void> written = co_await stream->write(encode(frame.head), frame.payload);
        if (place.stream == stream) place.writing = false;
        if (!written) co_return lose(place, stream);  // and a new connection takes its place
        figures.bulk_sent_bytes += frame.payload.size();
    }
}

bool Link::has_bulk() const {
    return any_in(waiting) || std::ranges::any_of(places, [&](const auto& place) {
               return any_in(place->waiting) || !place->unconfirmed.empty();
           });
}

// Whether bulk data waits because this place has no connection.
bool Link::needs_connection(const BulkPlace& place) const {
    if (place.stream) return false;
    if (any_in(place.waiting) || !place.unconfirmed.empty()) return true;
    return &place != places.back().get() && any_in(waiting) &&
           std::none_of(places.begin(), places.end() - 1, [](const auto& other) { return other->stream != nullptr; });
}

// The system would wait for a quarter of an hour before it tells that nothing is answered any more. (TCP_USER_TIMEOUT
// would also end connections whose other end answers, but does not want to read yet: receivers may wait for long.)
awaitable<void> Link::watch_places() {
    const std::shared_ptr<Link> keep = shared_from_this();
    const auto limit = state.options.longest_without_bulk;
    const auto interval = limit / 8;
    const auto lasts = [&](std::optional<Clock::time_point>& since, bool condition) {
        if (!condition) {
            since.reset();
        } else if (!since) {
            since = Clock::now();
        }
        return since && Clock::now() - *since >= limit;
    };
    while (!ended) {
        watching.expires_after(interval);
        co_await watching.async_wait(asio::as_tuple(asio::use_awaitable));
        if (ended) co_return;
        for (const auto& place : places) {
            const std::optional<SocketReport> report =
                place->stream ? report_of(place->stream->socket().native_handle()) : std::nullopt;
            const bool unheard = report && report->answer_due && report->heard > interval;
            if (lasts(place->unheard_since, unheard)) lose(*place, place->stream);
            if (!lasts(place->lacking_since, needs_connection(*place))) continue;
            ++state.counters.dropped_without_bulk;
            co_return end("bulk data waits for a connection that does not come");
        }
    }
}

bool Link::busy(const BulkPlace& place) const {
    return place.stream && (place.writing || any_in(place.waiting));
}

std::size_t Link::busy_places() const {
    return static_cast<std::size_t>(std::ranges::count_if(places, [&](const auto& place) { return busy(*place); }));
}

// What the system tells of the connections that are busy; nothing where there are none, or it does not tell.
std::optional<Pacer::Sample> Link::ask_connections(std::chrono::nanoseconds elapsed) {
    Pacer::Sample sample{.elapsed = elapsed, .delivered_bytes = 0, .round_trip = std::chrono::nanoseconds::max()};
    bool told = false;
    for (const auto& place : places) {
        if (!place->stream) continue;
        const std::optional<SocketReport> report = report_of(place->stream->socket().native_handle());
        if (!report) continue;
        // It counts in 32 bits.
        const std::uint64_t delivered =
            report->delivered_bytes - std::min(place->delivered_bytes, report->delivered_bytes);
        sample.delivered_bytes += delivered;
        place->bytes_per_s +=
            rate_gain *
            (static_cast<double>(delivered) / std::chrono::duration<double>(elapsed).count() - place->bytes_per_s);
        place->delivered_bytes = report->delivered_bytes;
        pacer.know_path(report->shortest_round_trip);
        if (report->bytes_per_s > 0) keep_unsent(*place, report->bytes_per_s / unsent_per_s);
        if (!busy(*place)) continue;
        sample.round_trip = std::min(sample.round_trip, report->round_trip);
        told = true;
    }
    return told ? std::optional(sample) : std::nullopt;
}

// Watches the connections while there is something to send, and says how fast they may.
awaitable<void> Link::keep_pace() {
    const std::shared_ptr<Link> keep = shared_from_this();
    asio::steady_timer tick(state.loop);
    auto before = std::chrono::steady_clock::now();
    bool was_busy = false;
    for (int resting = 0; resting < intervals_until_rest;) {
        tick.expires_after(pace_interval);
        co_await tick.async_wait(asio::as_tuple(asio::use_awaitable));
        if (ended) co_return;
        const auto now = std::chrono::steady_clock::now();
        const std::optional<Pacer::Sample> sample = ask_connections(now - before);
        if (sample && was_busy) {
            paced = pacer.step(*sample);
        } else {
            pacer.pause();
        }
        if (state.options.max_send_bytes_per_s == 0) set_limits(paced);
        state.share_limits();
        before = now;
        was_busy = sample.has_value();
        resting = was_busy ? 0 : resting + 1;
    }
    pacing = false;
}

void Link::keep_unsent(BulkPlace& place, std::size_t bytes) {
    bytes = std::bit_ceil(std::clamp(bytes, least_unsent_bytes, most_unsent_bytes));
    if (bytes == place.unsent_bytes) return;
    place.unsent_bytes = bytes;
    set_unsent_bytes(place.stream->socket().native_handle(), bytes);
}

// `all`: bytes per second for all places together. Congestion control does not give connections equal parts: each gets
// a little of an equal part, and most of what it had.
void Link::set_limits(std::uint64_t all) {
    double total = 0.0;
    for (const auto& place : places)
        if (busy(*place)) total += place->bytes_per_s;
    const double equal = 1.0 / static_cast<double>(std::max<std::size_t>(busy_places(), 1));
    for (const auto& place : places) {
        const double had = busy(*place) && total > 0.0 ? place->bytes_per_s / total : equal;
        const double part = equal_share * equal + (1.0 - equal_share) * had;
        const auto limit = all == no_limit ? no_limit : static_cast<std::uint64_t>(part * static_cast<double>(all));
        if (!place->stream || place->limit == limit) continue;
        place->limit = limit;
        set_send_limit(place->stream->socket().native_handle(), limit);
    }
}

// What the node may send in all is divided among the links that send; one that begins to gets as much as it would have
// with them, until it is counted.
void LinksState::share_limits() {
    if (options.max_send_bytes_per_s == 0) return;
    std::vector<Link*> busy;
    std::vector<std::uint64_t> wishes;
    for (const auto& [peer, link] : links) {
        if (link->busy_places() == 0) continue;
        busy.push_back(link.get());
        wishes.push_back(link->paced);
    }
    for (const auto& [peer, link] : links) {
        if (link->busy_places() == 0) link->set_limits(options.max_send_bytes_per_s / (busy.size() + 1));
    }
    const std::vector<std::uint64_t> shares = share_out(options.max_send_bytes_per_s, wishes);
    for (std::size_t i = 0; i < busy.size(); ++i) busy[i]->set_limits(shares[i]);
}

awaitable<Result<void>> Link::take_payload(BulkPlace& at, Stream& stream, const BulkHead& head) {
    while (!ended && !closing && !state.stopped && at.stream.get() == &stream) {
        const BulkReceiver::Place place = state.receiver.place_for(peer, head);
        switch (place.kind) {
            case BulkReceiver::Place::Kind::here: {
                const auto begun = Clock::now();
                Result<void> read = co_await stream.read(place.at);
                meter.arrived(read ? head.bytes : 0, begun, Clock::now());
                if (state.stopped) co_return Error{"this node stops"};  // and its receiver may be gone
                if (read) {
                    state.receiver.arrived(peer, head);
                } else {
                    state.receiver.dropped(peer, head);
                }
                co_return read;
            }
            case BulkReceiver::Place::Kind::skip: {
                std::array<std::byte, 16 << 10> nowhere;
                const auto begun = Clock::now();
                for (std::size_t left = head.bytes; left > 0;) {
                    const Result<std::size_t> got =
                        co_await stream.read_some(std::span(nowhere).first(std::min(left, nowhere.size())));
                    if (!got) co_return got.error();
                    left -= *got;
                }
                meter.arrived(head.bytes, begun, Clock::now());
                co_return Result<void>{};
            }
            case BulkReceiver::Place::Kind::wait:
                co_await sleep_on(at.may_read);
                break;
        }
    }
    co_return Error{"the link ended"};
}

awaitable<void> Link::read_bulk(std::uint32_t number, StreamPtr stream) {
    const std::shared_ptr<Link> keep = shared_from_this();
    BulkPlace& place = *places[number];
    while (!ended && place.stream == stream) {
        std::array<std::byte, bulk_head_bytes> bytes{};
        if (const Result<void> read = co_await stream->read(bytes); !read) break;
        const Result<BulkHead> head = decode_bulk_head(bytes);
        if (!head) {
            ++state.counters.malformed;
            co_return end(head.error().message);
        }
        if (const Result<void> taken = co_await take_payload(place, *stream, *head); !taken) break;
        if (ended || place.stream != stream) co_return;
        figures.bulk_received_bytes += head->bytes;
        bulk_arrived(number, head->bytes);
    }
    lose(place, stream);
}

// This connection is no more; whoever reads or writes on it finds out.
void Link::lose(BulkPlace& place, const StreamPtr& stream) {
    stream->close();
    if (ended || place.stream != stream) return;
    place.stream.reset();
    place.writing = place.idle = false;
    place.wake.cancel();
    place.may_read.cancel();
}

void Link::bulk_arrived(std::uint32_t number, std::size_t bytes) {
    BulkPlace& place = *places[number];
    ++place.received;
    place.received_bytes += bytes;
    if (place.received - place.told >= frames_until_told || place.received_bytes >= bytes_until_told)
        confirm_arrived(number);
}

void Link::confirm_arrived(std::uint32_t number) {
    BulkPlace& place = *places[number];
    if (place.received == place.told) return;
    place.told = place.received;
    place.received_bytes = 0;
    wire::Control message;
    message.mutable_arrived()->set_place(number);
    message.mutable_arrived()->set_frames(place.received);
    send(message);
}

// Dials this place's connection, and dials it again when it breaks, ever later.
awaitable<void> Link::keep_bulk(std::uint32_t number) {
    const std::shared_ptr<Link> keep = shared_from_this();
    BulkPlace& place = *places[number];
    asio::steady_timer pause(state.loop);
    constexpr std::chrono::milliseconds longest_pause{5000};
    std::chrono::milliseconds next_pause{50};
    while (!ended) {
        if (place.stream) {
            pause.expires_after(next_pause);
            co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
            continue;
        }
        const Result<StreamPtr> stream = co_await state.connect(address);
        if (ended) co_return;
        if (stream) {
            const Watchdog watchdog(state.loop, *stream, state.options.handshake_limit);
            const auto hello = state.hello(wire::Hello::BULK, number, place.received);
            const auto greeted = co_await state.introduce(**stream, hello, peer);
            if (ended) co_return (*stream)->close();
            if (greeted && greeted->hello.instance() == instance && plausible(number, greeted->hello.frames())) {
                attach(number, *stream, greeted->hello.frames());
                next_pause = std::chrono::milliseconds{50};
                continue;
            }
            (*stream)->close();
        }
        pause.expires_after(next_pause);
        next_pause = std::min(2 * next_pause, longest_pause);
        co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

}  // namespace chaos::net
