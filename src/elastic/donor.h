// The giving end of a join: shards of the state as it is now, and, for those who follow, the parts of each step's
// result that their shards need. Nobody waits for a joiner: shards are copied aside while this node computes, and
// results are kept for a few steps only while somebody may ask for them.
//
// What goes to a joiner besides shards is stable, so that it is never undone; a shard may be younger than that, and
// says by its lineage what it is. (Who is active already gets what is not stable yet: everybody waits for it.)
//
// What is held for one joiner has limits of its own, so that one that asks and does not read takes neither memory nor
// turns from others: bytes on their way to it, results of which it has not read its parts, and wishes. What is more
// waits, or is refused; so are results of steps that are far from being done.
//
// One exception to "nobody waits": a joiner whose links carry hardly more than what training makes would take so long
// that it costs less to let everybody wait for the rest of its state (joiner.h). It asks one donor, which then begins
// no further step for a while: as long as it was asked for or not at all, since a pause that is too short is for
// nothing; no longer than the whole state takes over their link; while the joiner asks for it; and a few times an hour.
#pragma once

#include "elastic/compute_thread.h"
#include "elastic/steps.h"
#include "elastic/trainer.h"
#include "elastic/work.h"
#include "live/member.h"
#include "state/shards.h"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::elastic {

class Donor {
public:
    Donor(asio::io_context& loop, ComputeThread& thread, Steps& steps, Trainer& trainer, const state::Shards& shards,
          std::function<void(const std::string& text)> note);
    ~Donor();
    Donor(const Donor&) = delete;
    Donor& operator=(const Donor&) = delete;

    // Once, before the member starts.
    void connect(live::Member& member) { member_ = &member; }

    void received(NodeId from, const wire::ShardAsk& ask);
    void received(NodeId from, const wire::PartAsk& ask);
    void received(NodeId from, const wire::RootAsk& ask);
    void received(NodeId from, const wire::PauseAsk& ask);

    void applied(const AppliedStep& step, const state::StepRecord& record);
    void stable();
    void adopted(const cluster::View& view);
    void forget(NodeId peer);
    // The state in memory is no longer one that others may have; and is it again.
    void stop();
    void go_on() { gives_ = true; }

    // What is held for joiners.
    struct Load {
        std::size_t wishes = 0;
        std::size_t results = 0;
        std::uint64_t bytes_on_their_way = 0;
    };
    [[nodiscard]] Load load() const;
    // The newcomer for which no further step is begun, and until when at most.
    struct Pause {
        NodeId newcomer;
        std::chrono::steady_clock::time_point until;
        std::chrono::steady_clock::time_point asked_at;  // when it last asked, or something was on its way to it
    };
    [[nodiscard]] const std::optional<Pause>& pause() const { return pause_; }

private:
    using Clock = std::chrono::steady_clock;

    struct ShardWish {
        NodeId from;
        std::uint64_t transfer = 0;
        state::ShardSpan span;
    };
    struct PartWish {
        NodeId from;
        std::uint64_t transfer = 0;
        std::uint64_t step = 0;
        state::ShardSpan span;
    };
    struct KeptResult {
        std::uint64_t step = 0;
        cluster::Name before{};
        state::StepRecord record;
        std::shared_ptr<const std::vector<float>> floats;
    };
    struct Hashes {
        StateLabel label;
        std::vector<std::uint64_t> shards;
    };
    // On its way to one joiner.
    struct Given {
        std::uint64_t shard_bytes = 0;
        std::uint64_t part_bytes = 0;
        std::map<std::uint64_t, unsigned> parts;  // by step; each of these results stays in memory
    };
    struct PausesHad {
        unsigned count = 0;
        Clock::time_point last;
    };
    struct Watcher {
        unsigned steps_left = 0;
        std::uint64_t told = 0;  // of the state after fewer steps than this
    };

    [[nodiscard]] bool some_view(const std::function<bool(const cluster::View&)>& says) const;
    [[nodiscard]] bool is_member(NodeId node) const;
    [[nodiscard]] bool is_active(NodeId node) const;
    [[nodiscard]] bool may_ask(NodeId node) const;
    [[nodiscard]] bool may_have(NodeId node, std::uint64_t applied) const;
    void serve();
    void refuse(NodeId from, std::uint64_t transfer);
    void refuse_part(NodeId from, std::uint64_t transfer);
    void give_shards(const ShardWish& wish);
    bool give_part(const PartWish& wish);
    void serve_parts();
    [[nodiscard]] std::size_t wishes_of(NodeId node) const;
    [[nodiscard]] bool has_room_for_wish_of(NodeId node) const;
    [[nodiscard]] std::shared_ptr<Given> given_to(NodeId node);
    [[nodiscard]] bool may_give_part(NodeId to, std::uint64_t step, std::uint64_t bytes);
    [[nodiscard]] std::shared_ptr<const void> hold_part(NodeId to, const KeptResult& kept, std::uint64_t bytes);
    void hash_state();
    void tell_roots();
    void look_for_joiners();
    [[nodiscard]] std::chrono::milliseconds longest_pause_for(const cluster::View& view, NodeId joiner) const;
    void watch_pause();
    void end_pause();
    void send(NodeId to, const wire::Work& message);

    asio::io_context& loop_;
    ComputeThread& thread_;
    Steps& steps_;
    Trainer& trainer_;
    const state::Shards& shards_;
    live::Member* member_ = nullptr;
    std::size_t kept_results_;
    std::function<void(const std::string& text)> note_;
    asio::steady_timer pause_timer_;
    std::optional<Pause> pause_;
    std::map<NodeId, PausesHad> pauses_had_;
    bool gives_ = true;
    bool followed_ = false;         // somebody joins, or may be back soon: results are kept
    std::uint64_t kept_until_ = 0;  // this step, for those who were lost
    std::vector<NodeId> members_;   // of the youngest view
    std::deque<ShardWish> shard_wishes_;
    std::deque<PartWish> part_wishes_;
    std::map<NodeId, std::shared_ptr<Given>> given_;
    bool serves_parts_soon_ = false;
    std::deque<KeptResult> results_;
    std::map<NodeId, Watcher> watchers_;
    std::deque<Hashes> hashes_;
    bool hashing_ = false;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace chaos::elastic
