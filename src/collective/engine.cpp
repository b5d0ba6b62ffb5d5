#include "collective/engine.h"

#include "base/assert.h"

#include <algorithm>
#include <string>
#include <utility>

namespace chaos::collective {
namespace {

std::string say(ExchangeId id) {
    return "step " + std::to_string(id.step) + " of epoch " + std::to_string(id.epoch);
}

bool complete(const AllReduce& exchange) {
    return exchange.outcome() && std::holds_alternative<Complete>(*exchange.outcome());
}

}  // namespace

Engine::Engine(Transport& transport, Callbacks callbacks) : transport_(transport), callbacks_(std::move(callbacks)) {
    CHAOS_ASSERT(callbacks_.ended && callbacks_.refused);
}

Result<void> Engine::begin(ExchangeId id, std::shared_ptr<const Schedule> schedule, Vectors vectors,
                           std::optional<std::size_t> parts_ready) {
    if (newest_ && id <= *newest_) return Error{say(id) + " does not follow " + say(*newest_)};
    if (running() >= max_running) return Error{say(id) + " must wait: earlier exchanges have not ended"};
    if (vectors.input.size() != schedule->floats || vectors.output.size() != schedule->floats ||
        (!vectors.residual.empty() && vectors.residual.size() != schedule->floats))
        return Error{say(id) + " reduces " + std::to_string(schedule->floats) + " floats, its vectors have others"};
    newest_ = id;
    forget_old();
    cancel_unfinished();
    const std::size_t ready = parts_ready.value_or(schedule->parts());
    auto entry = std::make_shared<Entry>(
        Entry{AllReduce(transport_, pool_, std::move(schedule), id, std::move(vectors)), false});
    entries_.push_back(entry);
    for (const NodeId peer : lost_) entry->exchange.peer_lost(peer);
    entry->exchange.ready(ready);
    for (const NodeId peer : std::exchange(waiting_, {})) transport_.resume(peer);
    report(entry);
    return {};
}

void Engine::ready(ExchangeId id, std::size_t parts) {
    const EntryPtr entry = find(id);
    if (entry == nullptr) return;
    entry->exchange.ready(parts);
    report(entry);
}

AllReduce::Awaited Engine::awaited(ExchangeId id) const {
    const EntryPtr entry = find(id);
    return entry == nullptr ? AllReduce::Awaited{} : entry->exchange.awaited();
}

std::vector<Range> Engine::known(ExchangeId id) const {
    const EntryPtr entry = find(id);
    return entry == nullptr ? std::vector<Range>() : entry->exchange.known();
}

void Engine::peer_lost(NodeId peer) {
    lost_.insert(peer);
    waiting_.erase(peer);
    for (const EntryPtr& entry : entries_) entry->exchange.peer_lost(peer);
    report_all();
}

void Engine::peer_back(NodeId peer) {
    lost_.erase(peer);
}

void Engine::abandon() {
    for (const EntryPtr& entry : entries_) entry->exchange.abandon();
    report_all();
    cancel_unfinished();
}

void Engine::restart() {
    abandon();
    newest_.reset();
}

std::optional<EncodedResult> Engine::result(ExchangeId id) const {
    const EntryPtr entry = find(id);
    if (entry == nullptr || !complete(entry->exchange)) return std::nullopt;
    return entry->exchange.result();
}

Place Engine::place_for(NodeId from, const ChunkHeader& header) {
    if (const EntryPtr entry = find(header.exchange); entry != nullptr) {
        const std::variant<Place, Why> answer = entry->exchange.place_for(from, header);
        if (const Place* place = std::get_if<Place>(&answer)) return *place;
        callbacks_.refused({from, header, std::get<Why>(answer)});
        report(entry);
        return {};
    }
    if (newest_ && header.exchange <= *newest_) return {};
    // Nobody can have completed a step that this member has not contributed to.
    if (newest_ && header.exchange.epoch == newest_->epoch && header.exchange.step - newest_->step > 1) {
        callbacks_.refused({from, header, Why::far_ahead});
        return {};
    }
    waiting_.insert(from);
    return {Place::Verdict::wait, {}};
}

void Engine::arrived(NodeId from, const ChunkHeader& header) {
    const EntryPtr entry = find(header.exchange);
    CHAOS_ASSERT(entry != nullptr);
    entry->exchange.arrived(from, header);
    if (entry->reported) return forget_old();
    report(entry);
}

void Engine::dropped(NodeId from, const ChunkHeader& header) {
    const EntryPtr entry = find(header.exchange);
    CHAOS_ASSERT(entry != nullptr);
    entry->exchange.dropped(from, header);
    forget_old();
}

Engine::EntryPtr Engine::find(ExchangeId id) const {
    for (const EntryPtr& entry : entries_) {
        if (entry->exchange.id() == id) return entry;
    }
    return nullptr;
}

std::size_t Engine::running() const {
    return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), [](const EntryPtr& entry) {
        return !entry->exchange.outcome().has_value();
    }));
}

void Engine::report(const EntryPtr& entry) {
    if (entry->reported || !entry->exchange.outcome()) return;
    entry->reported = true;
    if (!complete(entry->exchange)) unfinished_.push_back(entry->exchange.id());
    forget_old();
    callbacks_.ended(entry->exchange.id(), *entry->exchange.outcome());
}

void Engine::report_all() {
    const std::deque<EntryPtr> entries = entries_;  // the callbacks may begin another
    for (const EntryPtr& entry : entries) report(entry);
}

void Engine::cancel_unfinished() {
    for (const ExchangeId id : std::exchange(unfinished_, {})) transport_.cancel(id);
}

void Engine::forget_old() {
    EntryPtr last_complete;
    for (const EntryPtr& entry : entries_) {
        if (complete(entry->exchange)) last_complete = entry;
    }
    std::erase_if(entries_, [&](const EntryPtr& entry) {
        return entry->reported && entry != last_complete && entry->exchange.settled();
    });
}

}  // namespace chaos::collective
