// Those who compute one model together: who has which slice, which texts are written, and what becomes of them when
// somebody comes or goes.
//
// The longest-standing member leads. It takes what members can do (Able) and tells everybody these facts (Division),
// from which each computes the same slices and loads its own. Then all of them run the same scheduler on the same
// requests: every member draws every token itself, from the same logits. The only thing that the leader decides is
// which requests come next. It says so at the end of a pass, together with its logits, which everybody waits for
// anyway; or with a message of its own where nothing was computed.
//
//   leader   Division ──────► all: load ── Ready ──► leader ── Begin: commands ──► all: pass, pass, pass ...
//   others   Able, Ask, Drop ──► leader                         commands ride on the end of each pass
//
// A client's text belongs to the member that holds the client's connection. When the group breaks (a member dies,
// freezes, comes, goes; a link breaks), passes stop, the leader of the next view divides anew, and every member asks
// for its texts again, with the tokens that were drawn so far: their keys and values are computed once more, and the
// text goes on as if nothing had been, because a token depends on the tokens before it alone.
//
// Messages and views come on the loop; loading is done by a thread; computing is done by compute(), which the loop's
// thread calls when ready(), but never from within a handler: what a handler changes here takes effect between passes.
#pragma once

#include "base/result.h"
#include "cluster/view.h"
#include "infer/engine.h"
#include "infer/scheduler.h"
#include "tensor/exchange.h"
#include "tensor/gateway.h"

#include "proto/session.pb.h"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace chaos::tensor {

using cluster::ViewPtr;

// A slice in memory, with the threads that compute it.
struct LoadedSlice {
    const infer::Model* model = nullptr;
    infer::Pool* pool = nullptr;
    std::shared_ptr<void> owner;  // of both
};

struct SessionOptions {
    std::size_t sequences = 4;  // texts at once
    std::size_t context = 0;    // tokens of each
    infer::KvType kv_type = infer::KvType::f16;
    bool speculate = true;
    std::uint64_t weight_bytes_per_s = 0;  // that this node multiplies, as far as it is known
    std::uint64_t memory_bytes = 0;        // it may take; 0: no limit
};

class Session final : public Desk {
public:
    struct Ports {
        std::function<bool(NodeId to, const wire::Work& message)> send;  // false: there is no link
        std::function<std::vector<NodeId>()> linked;
        // Loads a slice that can compute so many tokens at once; called by another thread.
        std::function<Result<LoadedSlice>(const infer::Slice& slice, std::size_t batch)> load;
        std::function<void()> whole;                        // texts can be written now
        std::function<void(const std::string& text)> note;  // one sentence
        std::function<void(const Error& why)> failed;       // this node cannot go on
    };

    Session(asio::io_context& loop, LinkExchange& exchange, NodeId self, const infer::Config& config,
            const SessionOptions& options, Ports ports, std::shared_ptr<Gateway::Told> told);
    ~Session() override;
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // ---- on the loop
    void adopted(const ViewPtr& view);
    // Not a member any more, until the next view.
    void excluded();
    void link_up(NodeId peer);
    void link_down(NodeId peer);
    void received(NodeId from, const wire::Work& message);
    void ask(infer::Writer::Id id, infer::Request request) override;
    void drop(infer::Writer::Id id) override;

    // ---- by the loop's thread, outside of its handlers
    // Whether compute() has something to do.
    [[nodiscard]] bool ready() const;
    void compute();

    // What is going on, for people and programs.
    struct State {
        std::uint64_t generation = 0;
        std::vector<NodeId> members;  // who compute together now
        bool whole = false;           // all of them have their slices
        infer::Slice slice;
        std::size_t texts = 0;  // asked for here
        std::uint64_t passes = 0;
        std::uint64_t healed = 0;  // divisions in mid-text
    };
    [[nodiscard]] State state() const;

private:
    // One division, and what this member made of it.
    struct Team {
        std::uint64_t generation = 0;
        NodeId leader;
        Group group;
        infer::Slice slice;
        std::size_t batch = 0;  // tokens of a pass
        LoadedSlice loaded;
        std::optional<infer::Engine> engine;
        std::optional<infer::Scheduler> scheduler;
        std::map<std::pair<NodeId, infer::Writer::Id>, infer::Scheduler::Id> ids;
        bool computing = false;
        // The leader has gone on while this member was still at the end of a pass.
        std::optional<wire::Commands> begun;
    };
    enum class Stage { none, loading, whole, broken };  // of the team
    struct Text {
        infer::Request request;  // with what was drawn so far
    };

    [[nodiscard]] std::optional<NodeId> leader() const;
    [[nodiscard]] bool leads() const { return leader() == self_; }
    [[nodiscard]] wire::Able able() const;
    void tell_able();
    void lead();
    [[nodiscard]] std::vector<NodeId> those_who_can() const;
    [[nodiscard]] wire::Division facts_of(const std::vector<NodeId>& members) const;
    void divide(const std::vector<NodeId>& members);
    void take(NodeId from, const wire::Division& division);
    void look_at_divisions();
    void received_interrupted(NodeId from, const wire::Interrupted& message);
    [[nodiscard]] bool needs_link_with(NodeId peer) const;
    [[nodiscard]] bool all_ready() const;
    void break_up(const std::string& why);
    void begin_if_asked();
    void ask_leader(infer::Writer::Id id, const Text& text);
    void tell_leader(const wire::Work& message);
    void queue(NodeId asker, const wire::Work& message);
    [[nodiscard]] wire::Commands next_commands();
    [[nodiscard]] static std::string words_for(const Team& team);
    void start_loading();
    void finish_loading();
    void take_up(Result<LoadedSlice> loaded);
    void apply(const wire::Commands& commands);
    void submit(NodeId asker, const wire::Ask& ask);
    void pass();

    asio::io_context& loop_;
    LinkExchange& exchange_;
    NodeId self_;
    infer::Config config_;
    SessionOptions options_;
    Ports ports_;
    std::shared_ptr<Gateway::Told> told_;

    ViewPtr view_;
    std::map<NodeId, wire::Able> ables_;
    std::map<NodeId, wire::Division> divisions_;  // the newest of each that may lead
    std::set<NodeId> unable_;                     // could not load what it was given, in this view
    std::uint64_t generation_ = 0;                // the newest heard of
    std::optional<wire::Division> next_;          // to be taken up between passes
    NodeId next_leader_;
    std::unique_ptr<Team> team_;
    Stage stage_ = Stage::none;
    std::map<NodeId, std::uint64_t> ready_;  // with which generation, as the leader knows
    std::thread loading_;
    std::optional<Result<LoadedSlice>> arrived_;  // of the thread
    std::deque<wire::Command> queue_;             // of the leader
    std::map<infer::Writer::Id, Text> texts_;
    std::uint64_t passes_ = 0;
    std::uint64_t healed_ = 0;
};

}  // namespace chaos::tensor
