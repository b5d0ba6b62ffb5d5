#include "net/transfers.h"

#include <algorithm>

namespace chaos::net {
namespace {

constexpr std::size_t piece_bytes = 256 << 10;

}  // namespace

std::uint64_t Transfers::expect(NodeId from, std::size_t max_bytes, std::function<void(Arrived)> done) {
    Incoming& incoming = incoming_[++last_number_];
    incoming.from = from;
    incoming.max_bytes = max_bytes;
    incoming.done = std::move(done);
    return last_number_;
}

std::uint64_t Transfers::progress(std::uint64_t number) const {
    const auto at = incoming_.find(number);
    return at == incoming_.end() ? 0 : links_->figures(at->second.from).results_coming;
}

void Transfers::forget(std::uint64_t number) {
    incoming_.erase(number);
}

bool Transfers::send(NodeId to, BulkKind kind, std::uint64_t number, std::span<const std::byte> bytes,
                     const std::shared_ptr<const void>& owner) {
    for (std::size_t first = 0; first < bytes.size(); first += piece_bytes) {
        const std::span<const std::byte> piece = bytes.subspan(first, std::min(piece_bytes, bytes.size() - first));
        const BulkHead head{.kind = kind,
                            .bytes = static_cast<std::uint32_t>(piece.size()),
                            .first = number,
                            .second = first,
                            .third = bytes.size()};
        if (!links_->send_bulk(to, head, piece, any_lane, owner)) return false;
    }
    return true;
}

BulkReceiver::Place Transfers::place_for(NodeId from, const BulkHead& head) {
    received_bytes_ += head.bytes;
    const auto at = incoming_.find(head.first);
    if (at == incoming_.end() || at->second.from != from) return {};
    Incoming& incoming = at->second;
    if (head.third == 0 || head.third > incoming.max_bytes) return {};
    if (incoming.content.bytes == nullptr) {
        incoming.content = {.bytes = std::make_shared_for_overwrite<std::byte[]>(head.third), .count = head.third};
        incoming.pieces.resize((head.third + piece_bytes - 1) / piece_bytes);
    }
    const std::size_t count = incoming.content.count;
    if (head.third != count || head.second % piece_bytes != 0 || head.second >= count ||
        head.bytes != std::min<std::size_t>(piece_bytes, count - head.second))
        return {};
    if (incoming.pieces[head.second / piece_bytes]) return {};
    incoming.pieces[head.second / piece_bytes] = true;
    writing_.emplace(head.first, incoming.content.bytes);
    return {.kind = Place::Kind::here, .at = {incoming.content.bytes.get() + head.second, head.bytes}};
}

void Transfers::let_go(const BulkHead& head) {
    const auto at = writing_.find(head.first);
    CHAOS_ASSERT(at != writing_.end());
    writing_.erase(at);
}

void Transfers::arrived(NodeId, const BulkHead& head) {
    let_go(head);
    const auto at = incoming_.find(head.first);
    if (at == incoming_.end()) return;
    at->second.arrived += head.bytes;
    if (at->second.arrived < at->second.content.count) return;
    const Incoming whole = std::move(at->second);
    incoming_.erase(at);
    whole.done(whole.content);
}

void Transfers::dropped(NodeId, const BulkHead& head) {
    let_go(head);
    if (const auto at = incoming_.find(head.first); at != incoming_.end())
        at->second.pieces[head.second / piece_bytes] = false;
}

}  // namespace chaos::net
