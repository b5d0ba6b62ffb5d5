#include "tensor/relay.h"

#include "tensor/wire.h"

#include <algorithm>
#include <deque>
#include <set>
#include <string_view>

namespace chaos::tensor {
namespace {

// What cannot be said again by itself: the generation that has to be divided anew where it is lost.
std::uint64_t generation_of(const wire::Work& message) {
    switch (message.content_case()) {
        case wire::Work::kReady:
            return message.ready().generation();
        case wire::Work::kAsk:
            return message.ask().generation();
        case wire::Work::kDrop:
            return message.drop().generation();
        case wire::Work::kBegin:
            return message.begin().generation();
        case wire::Work::kTold:
            return message.told().generation();
        default:
            return 0;
    }
}

// All that the author says, and for whom.
std::vector<std::uint8_t> signed_bytes(const wire::Relayed& message) {
    constexpr std::string_view purpose = "chaos: relayed among those who compute together";
    std::vector<std::uint8_t> bytes(purpose.begin(), purpose.end());
    for (const std::uint64_t number : {message.to().high(), message.to().low(), message.generation()})
        for (unsigned shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
    bytes.insert(bytes.end(), message.work().begin(), message.work().end());
    return bytes;
}

}  // namespace

bool Relay::send(NodeId to, const wire::Work& message) {
    if (callbacks_.send(to, message)) return true;
    wire::Relayed relayed;
    *relayed.mutable_author() = to_wire(self_);
    *relayed.mutable_to() = to_wire(to);
    relayed.set_generation(generation_of(message));
    relayed.set_work(message.SerializeAsString());
    const cluster::Signature signature = signer_.sign(signed_bytes(relayed));
    relayed.set_signature(signature.data(), signature.size());
    return pass_on(std::move(relayed));
}

void Relay::received(NodeId from, const wire::Relayed& message) {
    const NodeId author = node_from(message.author());
    const NodeId to = node_from(message.to());
    // Who has just been let in may know so earlier than this node does.
    if (view_ == nullptr || view_->find(from) == nullptr || view_->find(author) == nullptr || author == self_) return;
    carries(from, message.generation());
    if (to != self_) {
        if (!pass_on(message) && message.generation() > 0) callbacks_.lost(message.generation());
        return;
    }
    cluster::Signature signature{};
    if (message.signature().size() != signature.size()) return;
    std::ranges::copy(message.signature(), signature.begin());
    if (!signer_.verify(author, signed_bytes(message), signature)) return;
    const std::string& bytes = message.work();
    const auto work = work_from({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    if (work && generation_of(*work) == message.generation()) callbacks_.received(author, *work);
}

// The neighbour that is nearest to whom it is for, by the links of the view; what was passed on by somebody does not
// come to that one again.
std::optional<NodeId> Relay::next_for(const wire::Relayed& message) const {
    const NodeId to = node_from(message.to());
    if (view_ == nullptr || view_->find(to) == nullptr) return std::nullopt;
    const std::vector<NodeId> linked = callbacks_.linked();
    std::set<NodeId> seen{self_, to};
    for (const wire::Node& by : message.by()) seen.insert(node_from(by));
    std::deque<NodeId> at{to};
    for (; !at.empty(); at.pop_front()) {
        if (std::ranges::find(linked, at.front()) != linked.end()) return at.front();
        for (const NodeId next : view_->neighbours(at.front()))
            if (view_->is_active(next) && seen.insert(next).second) at.push_back(next);
    }
    return std::nullopt;
}

bool Relay::pass_on(wire::Relayed message) {
    const auto next = next_for(message);
    if (!next) return false;
    carries(*next, message.generation());
    *message.add_by() = to_wire(self_);
    wire::Work work;
    *work.mutable_relayed() = std::move(message);
    return callbacks_.send(*next, work);
}

void Relay::carries(NodeId peer, std::uint64_t generation) {
    if (generation == 0) return;
    std::uint64_t& newest = carried_[peer];
    newest = std::max(newest, generation);
}

std::uint64_t Relay::carried(NodeId peer) const {
    const auto found = carried_.find(peer);
    return found == carried_.end() ? 0 : found->second;
}

}  // namespace chaos::tensor
