// What arrives on a connection: control frames in pieces of any size, and the heads of bulk frames.
#include "fuzz/seeds.h"
#include "net/frame.h"

#include "proto/link.pb.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>

namespace {

using namespace chaos;
using namespace chaos::net;

struct Cut {
    std::vector<std::vector<std::byte>> frames;
    bool failed = false;
    bool operator==(const Cut&) const = default;
};

// As a link does it, with pieces as long as `next_piece` says.
template <class NextPiece>
Cut cut(std::span<const std::byte> bytes, NextPiece next_piece) {
    Cut result;
    ControlReader reader;
    while (!bytes.empty()) {
        const std::span<std::byte> room = reader.room();
        CHAOS_ASSERT(!room.empty() && room.size() <= control_head_bytes + max_control_bytes);
        const std::size_t piece = std::clamp<std::size_t>(next_piece(), 1, std::min(room.size(), bytes.size()));
        std::copy_n(bytes.begin(), piece, room.begin());
        bytes = bytes.subspan(piece);
        reader.filled(piece);
        while (true) {
            const auto frame = reader.next();
            result.failed = !frame;
            if (result.failed) return result;
            if (!frame->has_value()) break;
            result.frames.emplace_back((*frame)->begin(), (*frame)->end());
        }
    }
    return result;
}

void check_control(std::span<const std::byte> frame) {
    wire::Control message;
    if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) return;
    wire::Control again;
    CHAOS_ASSERT(again.ParseFromString(message.SerializeAsString()));
    CHAOS_ASSERT(again.what_case() == message.what_case());
}

void check_bulk(std::span<const std::byte> bytes) {
    for (; bytes.size() >= bulk_head_bytes; bytes = bytes.subspan(bulk_head_bytes)) {
        const Result<BulkHead> head = decode_bulk_head(bytes.first<bulk_head_bytes>());
        if (!head) continue;
        CHAOS_ASSERT(head->bytes <= max_bulk_bytes);
        CHAOS_ASSERT(std::ranges::equal(encode(*head), bytes.first(bulk_head_bytes)));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedDataProvider input(data, size);
    const auto piece = input.ConsumeIntegralInRange<std::size_t>(1, 300);
    const bool growing = input.ConsumeBool();
    const std::vector<std::uint8_t> rest = input.ConsumeRemainingBytes<std::uint8_t>();
    const std::span<const std::byte> bytes = std::as_bytes(std::span(rest));
    std::size_t next = piece;
    const Cut pieces = cut(bytes, [&] { return growing ? next++ : piece; });
    CHAOS_ASSERT(pieces == cut(bytes, [&] { return bytes.size(); }));
    for (const auto& frame : pieces.frames) check_control(frame);
    check_bulk(bytes);
    return 0;
}

namespace {

void add_frame(fuzz::Bytes& stream, const wire::Control& message) {
    const std::string content = message.SerializeAsString();
    for (const std::byte byte : encode_control_size(content.size()))
        stream.push_back(std::to_integer<std::uint8_t>(byte));
    stream.insert(stream.end(), content.begin(), content.end());
}

}  // namespace

// FuzzedDataProvider takes its numbers from the end: zeros there mean pieces of one byte.
std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<wire::Control> messages(7);
    messages[0].mutable_hello()->set_version(1);
    messages[0].mutable_hello()->set_instance(77);
    messages[1].mutable_hello()->set_purpose(wire::Hello::BULK);
    messages[1].mutable_hello()->set_frames(1000);
    messages[2].set_refusal("its institution is not in");
    messages[3].set_cluster(std::string(300, 'c'));
    messages[4].mutable_ping()->set_number(1);
    messages[5].mutable_pong()->set_number(1);
    messages[6].mutable_arrived()->set_frames(32);
    std::vector<Bytes> seeds;
    Bytes all;
    for (const wire::Control& message : messages) {
        seeds.emplace_back();
        add_frame(seeds.back(), message);
        add_frame(all, message);
    }
    seeds.push_back(all);
    const BulkHead head{.kind = BulkKind::state, .bytes = max_bulk_bytes, .first = 1, .second = 2, .third = 3};
    Bytes bulk;
    for (const std::byte byte : encode(head)) bulk.push_back(std::to_integer<std::uint8_t>(byte));
    seeds.push_back(bulk);
    for (Bytes& seed : seeds) seed.insert(seed.end(), 3, 0);
    return seeds;
}
