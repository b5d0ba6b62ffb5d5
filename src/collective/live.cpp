#include "collective/live.h"

namespace chaos::collective {
namespace {

constexpr std::uint32_t down_bit = 1U << 31;

//   first: epoch | second: step | third: plan | fourth: tree, and whether it comes down | fifth: chunk
net::BulkHead head_of(const ChunkHeader& header) {
    return {.kind = net::BulkKind::gradients,
            .bytes = header.bytes,
            .first = header.exchange.epoch,
            .second = header.exchange.step,
            .third = header.plan,
            .fourth = header.tree | (header.down ? down_bit : 0),
            .fifth = header.chunk};
}

ChunkHeader header_of(const net::BulkHead& head) {
    return {.exchange = {.epoch = head.first, .step = head.second},
            .plan = head.third,
            .tree = head.fourth & ~down_bit,
            .chunk = head.fifth,
            .bytes = head.bytes,
            .down = (head.fourth & down_bit) != 0};
}

}  // namespace

void LiveTransport::connect(net::Links& links, Receiver& receiver) {
    links_ = &links;
    receiver_ = &receiver;
}

void LiveTransport::send(NodeId to, const ChunkHeader& header, std::span<const std::byte> payload,
                         std::shared_ptr<const void> owner) {
    // A peer whose link is gone gets nothing; that it is gone, the engine is told by whoever hears of it (peer_lost).
    (void)links_->send_bulk(to, head_of(header), payload, net::any_lane, std::move(owner));
}

void LiveTransport::resume(NodeId from) {
    links_->resume(from);
}

void LiveTransport::cancel(ExchangeId exchange) {
    links_->cancel_gradients(exchange.epoch, exchange.step);
}

net::BulkReceiver::Place LiveTransport::place_for(NodeId from, const net::BulkHead& head) {
    if (head.kind != net::BulkKind::gradients) return {};
    const collective::Place place = receiver_->place_for(from, header_of(head));
    switch (place.verdict) {
        case collective::Place::Verdict::take:
            return {.kind = net::BulkReceiver::Place::Kind::here, .at = place.bytes};
        case collective::Place::Verdict::skip:
            return {.kind = net::BulkReceiver::Place::Kind::skip};
        case collective::Place::Verdict::wait:
            return {.kind = net::BulkReceiver::Place::Kind::wait};
    }
    return {};
}

void LiveTransport::arrived(NodeId from, const net::BulkHead& head) {
    receiver_->arrived(from, header_of(head));
}

void LiveTransport::dropped(NodeId from, const net::BulkHead& head) {
    receiver_->dropped(from, header_of(head));
}

}  // namespace chaos::collective
