#include "tensor/giving.h"

#include "cluster/id.h"
#include "tensor/wire.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace chaos::tensor {
namespace {

constexpr std::size_t max_wishes_each = 256;
// On their way to one peer. Links keep what they sent until it is confirmed, some MiB on each connection.
constexpr std::uint64_t max_bytes_each = 32 << 20;

// What was read for a wish.
struct Read {
    std::shared_ptr<std::byte[]> bytes;
    std::optional<std::size_t> wrong;   // a unit that is not what it should be
    std::optional<std::string> reason;  // why, where it could not even be read
};

}  // namespace

void Giving::OnTheirWay::add(NodeId peer, std::uint64_t bytes) {
    to[peer] += bytes;
}

void Giving::OnTheirWay::has_left(NodeId peer, std::uint64_t bytes) {
    const auto at = to.find(peer);
    at->second -= bytes;
    if (at->second == 0) to.erase(at);
}

// Something may always be on its way.
bool Giving::OnTheirWay::has_room(NodeId peer, std::uint64_t bytes) const {
    const auto at = to.find(peer);
    return at == to.end() || at->second + bytes <= max_bytes_each;
}

Giving::Giving(asio::io_context& loop, net::Transfers& transfers, Callbacks callbacks)
    : loop_(loop), transfers_(transfers), callbacks_(std::move(callbacks)) {}

Giving::~Giving() {
    *alive_ = false;
    reader_.join();
}

void Giving::offer(const infer::Manifest& manifest, std::shared_ptr<const infer::UnitSource> units) {
    CHAOS_ASSERT(manifest.hashes.size() == units->layout().units.size());
    withdraw();
    spoilt_.clear();
    offer_ = std::make_shared<const Offer>(Offer{.identity = to_wire(infer::identity_of(manifest)),
                                                 .manifest = infer::encode(manifest),
                                                 .hashes = manifest.hashes,
                                                 .units = std::move(units)});
}

void Giving::withdraw() {
    for (const Wish& wish : std::exchange(wishes_, {})) refuse(wish.from, wish.transfer);
    offer_.reset();
}

void Giving::refuse(NodeId from, std::uint64_t transfer) {
    wire::UnitWork message;
    message.set_absent(transfer);
    callbacks_.send(from, message);
}

void Giving::received(NodeId from, const wire::ManifestAsk& ask) {
    const std::uint64_t bytes = offer_ == nullptr ? 0 : offer_->manifest.size();
    if (offer_ == nullptr || ask.identity() != offer_->identity || !callbacks_.may_ask(from) ||
        !on_their_way_->has_room(from, bytes))
        return refuse(from, ask.transfer());
    on_their_way_->add(from, bytes);
    const std::shared_ptr<const void> owner(offer_.get(), [offer = offer_, counted = on_their_way_, from,
                                                           bytes](const void*) { counted->has_left(from, bytes); });
    (void)transfers_.send(from, net::BulkKind::state, ask.transfer(), std::as_bytes(std::span(offer_->manifest)),
                          owner);  // no link: who asked asks somebody else
}

void Giving::received(NodeId from, const wire::HoldingAsk& ask) {
    wire::UnitWork message;
    wire::Holding& holding = *message.mutable_holding();
    holding.set_identity(ask.identity());
    if (offer_ != nullptr && ask.identity() == offer_->identity && callbacks_.may_ask(from)) {
        const infer::UnitSource& units = *offer_->units;
        const std::size_t count = units.layout().units.size();
        for (std::size_t first = 0; first < count;) {
            std::size_t end = first;
            while (end < count && units.has(end)) ++end;
            if (end > first) {
                holding.add_runs(static_cast<std::uint32_t>(first));
                holding.add_runs(static_cast<std::uint32_t>(end - first));
            }
            first = end + 1;
        }
        if (holding.runs_size() == 2 && holding.runs(1) == count) {
            holding.set_all(true);
            holding.clear_runs();
        }
    }
    callbacks_.send(from, message);
}

void Giving::received(NodeId from, const wire::UnitAsk& ask) {
    if (offer_ == nullptr || ask.identity() != offer_->identity || !callbacks_.may_ask(from))
        return refuse(from, ask.transfer());
    const auto& units = offer_->units->layout().units;
    const std::size_t first = ask.first();
    const std::size_t count = ask.count();
    if (count == 0 || first >= units.size() || count > units.size() - first) return refuse(from, ask.transfer());
    std::uint64_t bytes = 0;
    for (std::size_t unit = first; unit < first + count && (unit == first || bytes <= max_ask_bytes); ++unit)
        bytes += units[unit].bytes;
    const auto of_peer = std::ranges::count(wishes_, from, &Wish::from);
    if ((count > 1 && bytes > max_ask_bytes) || of_peer >= static_cast<std::ptrdiff_t>(max_wishes_each))
        return refuse(from, ask.transfer());
    wishes_.push_back({.from = from, .transfer = ask.transfer(), .first = first, .count = count, .bytes = bytes});
    serve();
}

// In turn: whoever has enough on its way waits until some of that has left.
void Giving::serve() {
    for (std::size_t waiting = wishes_.size(); waiting > 0; --waiting) {
        const Wish wish = wishes_.front();
        wishes_.pop_front();
        if (on_their_way_->has_room(wish.from, wish.bytes)) {
            give(wish);
        } else {
            wishes_.push_back(wish);
        }
    }
}

void Giving::give(const Wish& wish) {
    on_their_way_->add(wish.from, wish.bytes);
    auto read = std::make_shared<Read>();
    // Let go in the loop once all has left, or the link is gone.
    read->bytes = std::shared_ptr<std::byte[]>(
        new std::byte[wish.bytes], [this, alive = alive_, counted = on_their_way_, wish](const std::byte* memory) {
            delete[] memory;
            counted->has_left(wish.from, wish.bytes);
            if (*alive && !wishes_.empty())
                asio::post(loop_, [this, alive] {
                    if (*alive) serve();
                });
        });
    auto then = [this, alive = alive_, wish, read, offer = offer_] {
        if (!*alive) return;
        if (read->wrong) {
            if (spoilt_.insert(*read->wrong).second)
                callbacks_.note("unit " + std::to_string(*read->wrong) +
                                " of the model is not given to others, because " + *read->reason);
            callbacks_.spoilt(*read->wrong);
            return refuse(wish.from, wish.transfer);
        }
        given_bytes_ += wish.bytes;
        (void)transfers_.send(wish.from, net::BulkKind::state, wish.transfer, {read->bytes.get(), wish.bytes},
                              read->bytes);  // no link: who asked asks somebody else
    };
    asio::post(reader_, [this, wish, read, offer = offer_, then = std::move(then)]() mutable {
        std::span<std::byte> rest(read->bytes.get(), wish.bytes);
        for (std::size_t unit = wish.first; unit < wish.first + wish.count; ++unit) {
            const std::span<std::byte> to = rest.first(offer->units->layout().units[unit].bytes);
            rest = rest.subspan(to.size());
            const Result<void> got = offer->units->read(unit, to);
            if (got && infer::hash_of(to) == offer->hashes[unit]) continue;
            read->wrong = unit;
            read->reason = got ? "what is on disk is not what it was" : got.error().message;
            break;
        }
        offer->units->release();
        read.reset();  // its last owner is to be in the loop
        offer.reset();
        asio::post(loop_, std::move(then));
    });
}

void Giving::link_down(NodeId peer) {
    std::erase_if(wishes_, [&](const Wish& wish) { return wish.from == peer; });
}

Giving::Load Giving::load() const {
    Load load{.wishes = wishes_.size(), .bytes_on_their_way = 0};
    for (const auto& [node, bytes] : on_their_way_->to) load.bytes_on_their_way += bytes;
    return load;
}

}  // namespace chaos::tensor
