// tensor/ computes one model on several nodes: they divide it between them, exchange sums over their links, heal when
// one is lost. It may call infer, live, plan and net; cli calls it.
//
// Read in this order: exchange.h (this file: sums and logits over links), rounds.h (what keeps the cluster's core
// going where nothing is trained), session.h (who computes what, and when), gateway.h (how texts are asked for).
//
// The exchange of those who compute together, over their links. Two shapes:
//
//   direct    everybody sends its sums to everybody, and adds what comes: one delay
//   tree      sums go up to the root, what it has comes down: two delays for a star; fewer messages, fewer links
//
// It is integers that are added, so both give the same.
//
// collective/ adds up gradients: floats, in the order of a schedule, encoded on the way, in chunks whose sizes all know
// beforehand, while other threads compute. Here whoever computes waits, a hundred times per token, for a few kilobytes
// with words of any length behind them, and every turn of a thread would show. So these sums have an exchange of their
// own, over the same links.
//
// A message is cut into bulk frames of gradients:
//
//   first: generation | second: number | third: bytes in all | fourth: up or down | fifth: which frame
//
// Those of an earlier generation are skipped, those of a later one wait on their connection until it has begun here.
// Within a generation a member is never more than a few messages ahead, because it needs ours to go on. What nobody
// waits for is skipped, too: of who is no neighbour in the tree, the wrong way, or longer than anybody has to say.
//
// Whoever computes waits here, and runs the loop meanwhile: no other thread is woken for a message, and whatever else
// happens on the loop goes on. So these calls are made in the loop's thread, but never by a handler of it.
#pragma once

#include "infer/exchange.h"
#include "net/links.h"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace chaos::tensor {

namespace asio = boost::asio;
using cluster::NodeId;

// Who computes together, and how they exchange.
struct Group {
    std::uint64_t generation = 0;
    std::vector<NodeId> members;
    std::size_t self = 0;  // our place among them
    // The place of each one's parent, the root's is its own; empty: direct.
    std::vector<std::size_t> parents;
    bool halves = true;                   // as infer::Exchange::by_halves()
    bool whole_heads = false;             // likewise
    std::uint64_t max_message_bytes = 0;  // the longest that anybody has to say
};

class LinkExchange final : public infer::Exchange, public net::BulkReceiver {
public:
    explicit LinkExchange(asio::io_context& loop) : loop_(loop) {}

    // Once, before anything else.
    void connect(net::Links& links) { links_ = &links; }

    // From now on. What was under way is forgotten.
    void begin(Group group);
    // Whoever waits gets this error, and so does everybody who comes until the next begin().
    void interrupt(const std::string& why) override;
    [[nodiscard]] bool interrupted() const { return !error_.empty(); }

    // Rides on the last sum of every pass: asked for when that leaves.
    void attach(std::function<std::vector<std::byte>()> what) { attachment_ = std::move(what); }
    // What a member attached to the last pass.
    [[nodiscard]] const std::vector<std::byte>& attached_by(std::size_t place) const { return attached_[place]; }

    [[nodiscard]] bool by_halves() const override { return group_.halves; }
    [[nodiscard]] bool whole_heads() const override { return group_.whole_heads; }
    void meanwhile(const std::function<void()>& work) override;
    Result<void> begin_sum(std::span<std::int64_t> sums, bool last) override;
    Result<void> end_sum() override;
    void between() override { loop_.poll(); }
    Result<std::span<const std::vector<std::byte>>> collect(std::vector<std::byte> ours) override;

    Place place_for(NodeId from, const net::BulkHead& head) override;
    void arrived(NodeId from, const net::BulkHead& head) override;
    void dropped(NodeId from, const net::BulkHead& head) override;

    // What was waited for others, in seconds.
    [[nodiscard]] double waited_s() const { return waited_s_; }

private:
    enum Way : std::uint32_t { up, down };
    struct Key {
        std::uint64_t number = 0;
        NodeId from;
        std::uint32_t way = up;
        auto operator<=>(const Key&) const = default;
    };
    // A message that comes, or has come. Its memory is not filled beforehand: what does not come takes none.
    struct Incoming {
        std::unique_ptr<std::byte[]> memory;
        std::span<std::byte> bytes;
        std::vector<bool> frames;    // that have a place, or are here
        std::size_t arrived = 0;     // bytes
        std::size_t being_read = 0;  // frames that the network writes to
    };
    struct Sum {
        std::uint64_t number = 0;
        std::span<std::int64_t> ours;
        bool last = false;                // of a pass
        std::vector<std::byte> attached;  // to it, as far as we know: a list
        bool told = false;                // to the parent, or, by the root, to the children
    };
    using Bytes = std::shared_ptr<const std::vector<std::byte>>;

    [[nodiscard]] Error nonsense();
    [[nodiscard]] bool is_direct() const { return group_.parents.empty(); }
    [[nodiscard]] bool is_root() const { return group_.parents[group_.self] == group_.self; }
    [[nodiscard]] NodeId parent() const { return group_.members[group_.parents[group_.self]]; }
    [[nodiscard]] std::vector<NodeId> children() const;
    [[nodiscard]] std::vector<NodeId> others() const;
    void send(NodeId to, std::uint64_t number, Way way, const Bytes& bytes);
    [[nodiscard]] bool is_waited_for(NodeId from, std::uint32_t way) const;
    [[nodiscard]] std::optional<std::span<const std::byte>> here(std::uint64_t number, NodeId from, Way way) const;
    [[nodiscard]] bool all_here(std::uint64_t number, std::span<const NodeId> from) const;
    [[nodiscard]] Result<void> advance(Sum& sum);
    [[nodiscard]] Result<void> add(Sum& sum, std::span<const NodeId> from);
    void forget(std::uint64_t number);
    void bury(std::map<Key, Incoming>::iterator end);
    [[nodiscard]] Incoming* being_read(NodeId from, const net::BulkHead& head);
    void let_go(NodeId from, const net::BulkHead& head);
    [[nodiscard]] bool is_complete(const Sum& sum) const;
    template <class Done>
    [[nodiscard]] Result<void> wait(const Done& done);
    [[nodiscard]] Result<void> collect_directly(const Bytes& ours);
    [[nodiscard]] Result<void> collect_by_tree(std::vector<std::byte> ours);
    [[nodiscard]] Result<void> take_list(std::span<const std::byte> list, std::vector<std::vector<std::byte>>& into);
    [[nodiscard]] static Bytes message_of(const Sum& sum);
    [[nodiscard]] Result<std::span<const std::byte>> attached_to(const Sum& sum, std::span<const std::byte> message);

    asio::io_context& loop_;
    net::Links* links_ = nullptr;
    Group group_;
    std::string error_ = "nothing has begun";
    std::uint64_t number_ = 0;    // of the last message of ours
    std::uint64_t finished_ = 0;  // all before it, and it, are over
    std::deque<Sum> sums_;
    std::map<Key, Incoming> incoming_;
    // Not wanted any more, but the network still writes to them; by their generations.
    std::map<std::pair<std::uint64_t, Key>, Incoming> buried_;
    std::function<std::vector<std::byte>()> attachment_;
    std::vector<std::vector<std::byte>> told_;
    std::vector<std::vector<std::byte>> attached_;
    double waited_s_ = 0.0;
    double usual_wait_s_ = 0.0;
};

}  // namespace chaos::tensor
