// Those who compute one model together: who has which slice, which texts are written, and what becomes of them when
// somebody comes or goes.
//
// The longest-standing member leads: it takes what members can do (Able), plans (division.h) and tells everybody who
// has which slice (Division). Whoever has one loads it. Then all of them run the same scheduler on the same requests:
// every member draws every token itself, from the same logits. One of them, the chief (the leader, where that
// computes), decides which requests come next, and nothing else. It says so at the end of a pass, together with its
// logits, which everybody waits for anyway; or with a message of its own where nothing was computed. A node that would
// only slow the others has no slice; it asks the chief for its texts and is told every token.
//
//   leader   Division ──► all: get units, load ── Ready ──► chief ── Begin: commands ──► all: pass, pass, pass ...
//   all      Able ──► leader; Ask, Drop ──► chief                      commands ride on the end of each pass
//                                          chief ── Told ──► who asked and has no slice
//
// Where texts are being written and somebody comes, the leader sends its Division ahead: everybody gets what it will
// need from those who have it, says so (Prepared), and only then passes stop for the time that loading takes.
//
// Not everybody has a link with the leader and the chief: what they say to each other goes over others then (relay.h).
// Whoever loses a link that the division leans on interrupts it; whoever computes nothing and passes nothing on any
// more says so again and again, until the leader's division comes.
//
// A client's text belongs to the node that holds the client's connection. When the group breaks (a member dies,
// freezes, comes, goes; a link breaks), passes stop, the leader of the next view divides anew, and every node asks for
// its texts again, with the tokens that were drawn so far: their keys and values are computed once more, and the text
// goes on as if nothing had been, because a token depends on the tokens before it alone.
//
// Texts under way must go on: who offers shorter texts than the group has, or fewer at once, has no slice. And every
// division is later than all that any member has taken up, in whichever line of views that was.
//
// Members also learn how long they really take, and tell; where another division is clearly faster, the leader divides
// anew when nothing is being written. The first they learn before anything is written: who has a slice of a size that
// it has not had yet, and nothing to do, passes some tokens through it for itself (rehearsal.h), until a text is asked
// for. From what they tell then the leader says what a token will take:
//
//   all: load ── Ready ──► chief;  rehearse ── Able ──► leader ── Forecast ──► all: say how fast it will be
//
// Messages and views come on the loop; loading is done by a thread; computing is done by compute(), which the loop's
// thread calls when ready(), but never from within a handler: what a handler changes here takes effect between passes.
//
//   session.cpp  who is there, divisions as they come, loading, rehearsing, passes
//   leading.cpp  the leader's part: divisions as they are made
//   writing.cpp  texts: asked for, queued, told
#pragma once

#include "base/result.h"
#include "cluster/view.h"
#include "infer/engine.h"
#include "infer/scheduler.h"
#include "tensor/ability.h"
#include "tensor/division.h"
#include "tensor/echoes.h"
#include "tensor/exchange.h"
#include "tensor/gateway.h"
#include "tensor/rehearsal.h"

#include "proto/session.pb.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
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
    std::uint64_t disk_bytes_per_s = 0;  // that it streams; 0: all is in memory
    std::shared_ptr<void> owner;         // of both
};

// What a division asks of a member.
struct Portion {
    infer::Slice slice;
    std::size_t context = 0;
    std::size_t sequences = 0;
    std::size_t batch = 0;  // tokens at once

    friend bool operator==(const Portion&, const Portion&) = default;
};

struct SessionOptions {
    std::size_t sequences = 4;        // texts at once
    std::size_t context = 0;          // tokens of each
    infer::Speed speed;               // of this node, as measured
    std::uint64_t memory_bytes = 0;   // it may take; 0: no limit
    std::uint64_t program_bytes = 0;  // of them, that are taken already
    bool everyone = false;            // all compute, even where fewer were faster; as the leader has it
    std::chrono::milliseconds times_patience{10'000};  // with a neighbour, until it is known how far it is
    std::chrono::milliseconds retry_pause{10'000};     // where nobody could load its part; doubled each time
};

// The model, as far as everybody knows it.
struct Subject {
    infer::Config config;
    std::vector<infer::PackedTensor> tensors;  // of the whole model, without memory
};

class Session final : public Desk {
public:
    struct Ports {
        std::function<bool(NodeId to, const wire::Work& message)> send;  // false: there is no way to it
        // The newest generation of which something went over the link with a peer for others; 0: none.
        std::function<std::uint64_t(NodeId peer)> carried;
        std::function<std::vector<NodeId>()> linked;
        // How long messages to a neighbour take; none where it is not known.
        std::function<std::optional<Echoes::Times>(NodeId peer)> times;
        // Brings what a slice needs onto this node's disk; `done` is called unless something else is asked for by then.
        std::function<void(const infer::Slice& slice, std::function<void(const Result<void>&)> done)> get;
        // Likewise what will be needed, beside what is; as far as there is room for both.
        std::function<void(const infer::Slice& slice, std::function<void(const Result<void>&)> done)> get_ahead;
        // Likewise what is not needed now, as long as nothing else is asked for; and whether there is something to
        // compute, when nothing may come or go that is not needed.
        std::function<void()> get_rest;
        std::function<void(bool busy)> busy;
        // Loads a slice; called by another thread.
        std::function<Result<LoadedSlice>(const Portion& portion)> load;
        std::function<void(bool whole)> whole;              // texts can be written now; or not, until they can again
        std::function<void(const std::string& text)> note;  // one sentence
        std::function<void(const Error& why)> failed;       // this node cannot go on
    };

    Session(asio::io_context& loop, LinkExchange& exchange, NodeId self, Subject subject, const SessionOptions& options,
            Ports ports, std::shared_ptr<Gateway::Told> told);
    ~Session() override;
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // ---- on the loop
    void adopted(const ViewPtr& view);
    // Not a member any more, until the next view.
    void excluded();
    void link_up(NodeId peer);
    void link_down(NodeId peer);
    // Something of this generation, of others, did not find its way.
    void lost(std::uint64_t generation);
    // Times of messages to it are known now.
    void measured(NodeId peer);
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
        std::string exchange;         // how
        bool computes = false;        // this node is one of them
        bool whole = false;           // texts can be written
        bool offers_less = false;     // than the others have, and so does not compute
        infer::Slice slice;
        std::uint64_t weight_bytes = 0;  // of the slice
        std::size_t texts = 0;           // asked for here
        std::uint64_t passes = 0;
        std::uint64_t healed = 0;              // divisions in mid-text
        double predicted_s = 0.0;              // a token
        bool forecast = false;                 // by the leader, who has heard from all who compute
        std::optional<double> measured_s;      // likewise, of this division
        std::optional<double> measured_own_s;  // of it, that this node computes
        std::vector<std::string> reasons;      // the leader's, for its division, and who has no part of it
        std::string left_out;                  // of them, why this node has none; where it is so
    };
    [[nodiscard]] State state() const;

private:
    using Clock = std::chrono::steady_clock;

    // Of a text, for all who compute it.
    struct TextKey {
        cluster::MemberId asker;
        infer::Writer::Id number = 0;
        auto operator<=>(const TextKey&) const = default;
    };
    // One division, and what this node made of it.
    struct Team {
        wire::Division division;
        NodeId leader;
        NodeId chief;
        Group group;  // where this node computes; else without members
        Portion portion;
        LoadedSlice loaded;
        std::optional<infer::Engine> engine;
        std::optional<infer::Scheduler> scheduler;
        std::map<TextKey, infer::Scheduler::Id> ids;
        bool computing = false;
        // The chief has gone on while this member was still at the end of a pass.
        std::optional<wire::Commands> begun;
        // The chief lacks something of ours: there was no way to it.
        bool unheard = false;
        bool rehearsed = false;  // or there is no need to
        bool forecast = false;   // the leader's has come

        [[nodiscard]] std::uint64_t generation() const { return division.generation(); }
        [[nodiscard]] bool computes() const { return !group.members.empty(); }
    };
    enum class Stage { none, getting, loading, whole, broken };  // of the team
    struct Text {
        infer::Request request;  // with what was drawn so far
    };
    // What a token took those who computed.
    struct Experience {
        double token_s = 0.0;
        Clock::time_point when;
    };
    struct Queued {
        std::uint64_t generation = 0;
        NodeId asker;
        wire::Command command;
    };
    // Of the leader: how often somebody interrupted the others lately.
    struct Trouble {
        double times = 0.0;
        Clock::time_point last;
    };
    // Likewise: without whom it plans for a while.
    struct Aside {
        Clock::time_point until;
        std::string why;
    };
    // A division of the leader's that everybody prepares for.
    struct Ahead {
        Divided divided;
        std::set<NodeId> waited_for;
    };

    [[nodiscard]] std::optional<NodeId> leader() const;
    [[nodiscard]] bool leads() const { return leader() == self_; }
    [[nodiscard]] bool is_chief() const { return team_ != nullptr && team_->chief == self_; }
    [[nodiscard]] bool under_way() const;
    [[nodiscard]] const wire::Division& current() const;
    [[nodiscard]] bool is_outdone() const;
    [[nodiscard]] bool believes(NodeId node, std::uint64_t taken) const;
    void count_interruption(NodeId by);
    void put_aside(NodeId node, const std::string& why);
    void let_come_back();
    [[nodiscard]] std::uint64_t taken() const;
    [[nodiscard]] std::uint64_t next_generation() const;
    enum class Texts { fit, end };  // those under way
    [[nodiscard]] std::string why_left_out(NodeId node, const Divided& planned) const;
    [[nodiscard]] std::vector<std::string> reasons_of(const Divided& in_force, const Divided& planned,
                                                      const std::vector<std::string>& said) const;
    [[nodiscard]] std::vector<Fact> facts_of(const std::vector<NodeId>& members, Texts texts) const;
    [[nodiscard]] wire::Able able() const;
    [[nodiscard]] bool awaits_times() const;
    void tell_able();
    void tell_far_leader();
    void tell_if_learnt();
    void lead();
    [[nodiscard]] std::vector<NodeId> those_who_can() const;
    [[nodiscard]] bool is_worth_it(const wire::Division& division) const;
    void prepare(Divided divided);
    void divide(Divided divided);
    void forecast();
    void send_to_all(const wire::Division& division);
    void take(NodeId from, const wire::Division& division);
    void look_at_divisions();
    void received_division(NodeId from, const wire::Division& division);
    void received_ahead(NodeId from, const wire::Division& division);
    void received_prepared(NodeId from, const wire::Prepared& message);
    void received_interrupted(NodeId from, const wire::Interrupted& message);
    void received_begin(NodeId from, const wire::Begin& message);
    void received_told(NodeId from, const wire::Told& message);
    void received_forecast(NodeId from, const wire::Forecast& message);
    [[nodiscard]] bool leans_on(NodeId peer) const;
    [[nodiscard]] bool needs_link_with(NodeId peer) const;
    [[nodiscard]] bool all_ready() const;
    void send_to_members(const wire::Work& message);
    void watch();
    void tell_interrupted(std::uint64_t generation);
    void break_up(const std::string& why);
    void interrupt(const std::string& why);
    void begin_if_asked();
    void ask_chief(infer::Writer::Id id);
    void ask_for_all();
    bool tell(NodeId to, const wire::Work& message);
    void tell_chief(const wire::Work& message);
    void queue(NodeId asker, const wire::Work& message);
    void queue_drop(NodeId asker, const wire::Drop& drop);
    [[nodiscard]] Result<void> may_wait(NodeId asker, const wire::Ask& ask) const;
    void refuse(NodeId asker, const wire::Ask& ask, const std::string& why);
    [[nodiscard]] std::uint64_t incarnation() const;
    [[nodiscard]] bool is_gone(const cluster::MemberId& asker) const;
    void forget_askers_that_are_gone();
    [[nodiscard]] wire::Commands next_commands();
    [[nodiscard]] bool offers_less(const wire::Division& division) const;
    [[nodiscard]] std::string words_for(const Team& team) const;
    void start();
    void load();
    void finish_loading();
    void give_up(const Error& why);
    void tell_unable(NodeId to, std::uint64_t generation, const Error& why);
    void take_up(Result<LoadedSlice> loaded);
    void is_whole();
    void look_at_rest();
    [[nodiscard]] bool may_rehearse() const;
    void begin_rehearsal();
    void rehearse();
    void end_rehearsal();
    void apply(const wire::Commands& commands);
    void submit(NodeId asker, const wire::Ask& ask);
    [[nodiscard]] infer::Listener listener_for(const TextKey& key, std::uint64_t drawn);
    wire::Told& telling(const TextKey& key, std::uint64_t drawn);
    void tell_askers();
    void tell_asker(NodeId asker, const wire::Work& message);
    void drawn(infer::Writer::Id id, const infer::Sampled& sampled);
    void ended(infer::Writer::Id id, const infer::Ended& ended);
    void pass();

    asio::io_context& loop_;
    LinkExchange& exchange_;
    NodeId self_;
    Subject subject_;
    SessionOptions options_;
    Ports ports_;
    std::shared_ptr<Gateway::Told> told_;

    ViewPtr view_;
    std::map<NodeId, wire::Able> ables_;
    std::map<NodeId, wire::Division> divisions_;  // the newest of each that may lead
    std::map<NodeId, Clock::time_point> linked_at_;
    bool untold_ = false;                       // what this node can do: times are awaited
    std::set<NodeId> unsound_;                  // those who say what they cannot mean
    std::map<NodeId, std::string> unable_;      // could not load what it was given, in this view, and why
    Clock::time_point unable_since_;            // the last of them
    std::chrono::milliseconds retry_pause_{0};  // until they are asked again, where nobody can compute
    std::map<NodeId, Trouble> troubles_;
    std::map<NodeId, Aside> aside_;
    std::uint64_t generation_ = 0;         // the newest heard of
    std::uint64_t past_ = 0;               // up to this one they are over, whoever they were of
    std::vector<NodeId> considered_;       // who could, when the leader last planned
    std::vector<std::string> reasons_;     // of that
    Clock::time_point planned_;            // when
    std::optional<Ahead> ahead_;           // of the leader
    std::optional<Divided> divided_;       // of the leader: the last that it told
    std::optional<wire::Division> later_;  // to be prepared for, once what is in force is here
    std::optional<wire::Division> next_;   // to be taken up between passes
    NodeId next_leader_;
    std::unique_ptr<Team> team_;
    Stage stage_ = Stage::none;
    std::map<NodeId, std::uint64_t> ready_;  // with which generation, as the chief knows
    std::thread loading_;
    std::optional<Result<LoadedSlice>> arrived_;  // of the thread
    std::deque<Queued> queue_;                    // of the chief
    // Of the chief: what is to be told of each text at the end of a pass.
    std::map<TextKey, wire::Told> telling_;
    std::map<infer::Writer::Id, Text> texts_;
    std::uint64_t passes_ = 0;
    std::uint64_t healed_ = 0;
    Ability ability_;
    Paces paces_;  // of the team
    std::unique_ptr<Rehearsal> rehearsal_;
    std::uint64_t rehearsed_bytes_ = 0;                                      // of weights, the last time
    std::map<std::pair<std::vector<NodeId>, bool>, Experience> experience_;  // by members, and whole heads
    std::uint64_t disk_bytes_per_s_ = 0;
    asio::steady_timer watch_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace chaos::tensor
