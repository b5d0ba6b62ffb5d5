// The taking end of a join. It pulls shards from all its donors at once, each as of that donor's step, and follows from
// the same moment: results of later steps, for the shards it holds already.
//
//   shard 0   step 7 ──► 8 ──► 9 ──► 10
//   shard 1               step 9 ──► 10        all at 10: compared with what the donors say of their state then
//   shard 2         step 8 ──► 9 ──► 10
//
// Each donor begins in a region of its own, in proportion to what its link carries, and is asked for a twentieth of a
// second's worth at a time, a fifth of a second ahead. Whoever is done helps the one that is furthest behind: first
// with shards that nobody was asked for, in the end with those that were; and the last ones are left to those who will
// be done with them first. What a donor that dies has not sent is missing again, and nothing else.
//
// A shard has a lineage: a result is applied only to what it belongs to. A shard that nobody has the next result for
// (it was taken from a step that was undone, or too long ago) is pulled again. More than half of the donors must agree
// on the root of the state; where it differs from ours, the shards' hashes show which are wrong, and whose they were.
//
// No single donor is believed about how far the state is and what its lineage is, either: what it gave is pulled again
// where most donors say otherwise (claims.h). That may be an honest donor's misfortune (a step was undone, it was busy)
// once; the second time nothing is asked of it any more, as of whoever sent a wrong shard. With two donors that
// contradict each other nobody can tell.
//
// Training never waits for a joiner, unless that costs less. With N members that train, results of G bytes every T
// seconds, links that carry B bytes a second and the part f of the shards here, of which results must be followed,
//
//   every member waits for the rest:   (N + 1) / B      node-seconds for each byte that is missing
//   nobody waits but the joiner:       1 / (B - f G/T)  node-seconds
//
// so from f G / (T B) > N / (N + 1) on a pause is asked for, of one donor after the other; nobody could ever join over
// a link slower than results otherwise. Where none grants as much as is needed, a joiner stays out: it asks for nothing
// more, and tries again later, or at once over a link that is new.
//
// Once all of it was seen as one state it stays one: what is learnt in a step is applied when all of it is here, and
// the step is reported when that begins. So whoever was let in holds, at any moment, the state that it told of, and can
// go on from it should nobody else be left. That takes memory: the results of the next two steps are kept whole, and
// one that is being applied counts as one of them.
//
// What this node held before counts: one that was away for a moment follows from where it stood.
//
// joiner.cpp: donors, and what holds it together; pulling.cpp, following.cpp, comparing.cpp, judging.cpp, pausing.cpp:
// the rest.
#pragma once

#include "elastic/claims.h"
#include "elastic/compute_thread.h"
#include "elastic/steps.h"
#include "elastic/trainer.h"
#include "elastic/work.h"
#include "live/member.h"
#include "state/shards.h"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::elastic {

class Joiner {
public:
    struct Callbacks {
        // The whole state is here, and is what the donors have.
        std::function<void(const StateLabel& state, const cluster::Name& root)> synced;
        // After that: all of it is one step further, once the compute thread is done with what it was given so far.
        std::function<void(const StateLabel& state, const state::StepRecord& record)> rolled;
        // It is not let in for now; one sentence.
        std::function<void(const std::string& why)> kept_out;
        std::function<void(const std::string& text)> note;
    };

    Joiner(asio::io_context& loop, ComputeThread& thread, Steps& steps, Trainer& trainer, const state::Shards& shards,
           Callbacks callbacks);
    ~Joiner();
    Joiner(const Joiner&) = delete;
    Joiner& operator=(const Joiner&) = delete;

    // Once, before the member starts.
    void connect(live::Member& member) { member_ = &member; }

    // Pull the state from the neighbours in this view. `have`: what is in memory, where that is one whole state.
    void begin(const cluster::View& view, const std::optional<StateLabel>& have);
    void adopted(const cluster::View& view);
    // Nothing comes in any more, nor is anything more told; what is in memory stays this joiner's.
    void pause();
    // After a pause: from where it stood.
    void go_on(const cluster::View& view);
    // What is in memory now belongs to somebody else.
    void stop();
    [[nodiscard]] bool running() const { return running_; }
    // After stop(): what it followed last turned out to be what the others have. Until then it is remembered who gave
    // it, should what is in memory be wrong when the next join begins.
    void proven() { followed_from_.clear(); }
    // What is in memory is this joiner's: from begin() to stop().
    [[nodiscard]] bool holds_state() const { return !states_.empty(); }
    // What is in memory, where all of it is of one step; or will be, when the compute thread is done with what it was
    // given so far.
    [[nodiscard]] std::optional<StateLabel> whole() const;
    // Likewise, where it is what the donors have.
    [[nodiscard]] std::optional<StateLabel> compared() const { return verified_ ? whole() : std::nullopt; }

    void link_up(NodeId peer);
    void link_down(NodeId peer);
    void received(NodeId from, const wire::ShardAnswer& answer);
    void received(NodeId from, const wire::PartAnswer& answer);
    void received(NodeId from, const wire::RootAnswer& answer);
    void received(NodeId from, const wire::PauseAnswer& answer);

    // How far it is.
    struct Progress {
        std::uint32_t shards = 0;  // that are here
        std::uint32_t of = 0;
        std::uint64_t shard_bytes = 0;  // that came so far
        std::uint64_t result_bytes = 0;
        std::uint64_t received_bytes = 0;  // in all, with what came in vain
    };
    [[nodiscard]] Progress progress() const;
    // How its donors do.
    struct Donation {
        NodeId donor;
        bool linked = false;
        bool blamed = false;             // gave wrong shards; others are asked
        bool pauses = false;             // was asked to let training wait for the rest of the state
        double bytes_per_s = 0.0;        // of shards, lately; 0: not known
        std::uint64_t asked_bytes = 0;   // of shards that have yet to come
        std::chrono::nanoseconds still;  // since something came of what it was asked for
    };
    [[nodiscard]] std::vector<Donation> donations() const;

private:
    using Clock = std::chrono::steady_clock;

    static constexpr std::uint64_t most_ask_bytes = 8 << 20;
    static constexpr double rate_gain = 0.5;  // of a newer rate, over what was known

    struct Shard {
        enum class Stage : std::uint8_t { missing, asked, here };
        Stage stage = Stage::missing;
        std::uint64_t job = 0;  // of the compute thread that changes it; 0: none
        StateLabel label;
        std::uint64_t asked_to = 0;  // results of steps before this one were asked for
        unsigned refusals = 0;       // of donors that lack its next result
        NodeId origin;               // who gave what was not compared yet, maybe this node; none: nobody
        NodeId other;                // who gave some of that besides
        NodeId donor;                // who is asked for what follows
    };
    struct Ahead {  // of what most donors say
        std::uint64_t applied = 0;
        Clock::time_point since;
    };
    struct DonorState {
        NodeId node;
        bool linked = false;
        bool blamed = false;  // sent a wrong shard, or was doubted twice
        unsigned doubts = 0;
        Clock::time_point doubted_at;
        std::optional<Ahead> ahead;
        state::ShardSpan region;   // where it begins
        double bytes_per_s = 0.0;  // of shards, lately; 0: not known
        std::uint64_t asked_bytes = 0;
        std::uint64_t window_bytes = 0;  // that came since then
        Clock::time_point window_begun;
        Clock::time_point last_arrival;
        Clock::time_point refused_until;                      // it is not asked for shards
        std::optional<std::chrono::milliseconds> most_pause;  // it grants no longer one
    };
    struct Fetch {  // something that was asked for
        NodeId donor;
        state::ShardSpan span;
        std::optional<std::uint64_t> step;  // a part of this step's result; none: shards
        Clock::time_point asked_at;
        std::uint64_t progress = 0;  // of parts of results: when something came last, or could not come yet
        Clock::time_point moved_at;
        bool answered = false;
        StateLabel label;  // as answered: what the shards are, or what the part applies to
        state::StepRecord record;
        std::optional<net::Transfers::Arrived> content;
    };
    struct Part {  // of a result, here and not applied to everything yet
        NodeId donor;
        state::ShardSpan span;
        std::uint64_t step = 0;
        cluster::Name before{};
        cluster::Name after{};
        state::StepRecord record;
        net::Transfers::Arrived content;
    };
    struct Root {
        NodeId donor;
        StateLabel label;
        std::vector<std::uint64_t> hashes;
    };

    struct PauseWish {
        double load = 0.0;                    // what training takes of what links carry
        std::chrono::milliseconds needed{0};  // without a margin
    };

    [[nodiscard]] static double seconds_between(Clock::time_point a, Clock::time_point b) {
        return std::chrono::duration<double>(b - a).count();
    }

    [[nodiscard]] DonorState* find(NodeId node);
    [[nodiscard]] std::vector<NodeId> linked() const;
    void divide();
    void pull();
    [[nodiscard]] static double rate_of(const DonorState& donor);
    [[nodiscard]] bool is_left_to_others(const DonorState& donor) const;
    [[nodiscard]] state::ShardSpan next_for(const DonorState& donor, std::uint32_t most) const;
    [[nodiscard]] state::ShardSpan duplicate_for(const DonorState& donor);
    [[nodiscard]] std::uint64_t expect(std::uint64_t bytes, Fetch fetch);
    void ask_shards(DonorState& donor, state::ShardSpan span);
    void follow();
    void ask_part(DonorState& donor, state::ShardSpan span, std::uint64_t step);
    [[nodiscard]] bool is_asked(std::uint32_t shard, std::uint64_t step) const;
    [[nodiscard]] NodeId linked_after(NodeId node) const;
    void ask_roots(bool now);
    [[nodiscard]] Clock::duration patience_with(const DonorState& donor) const;
    void complete(std::uint64_t transfer);
    void take_shards(Fetch fetch);
    void take_part(Fetch fetch);
    void roll();
    void leave_out(const Part& part);
    [[nodiscard]] bool apply_to_all();
    void apply(const Part& part, state::ShardSpan span, std::uint64_t id);
    [[nodiscard]] std::function<void()> work_of(const Part& part, state::ShardSpan span);
    void advance(Shard& shard, const Part& part);
    void give_up(std::uint64_t transfer);
    void lose(Shard& shard);
    void look();
    void compare();
    void look_again(std::chrono::milliseconds after);
    void watch_pace();
    [[nodiscard]] bool may_stay_out() const;
    void ask_for_pause_if_cheaper();
    void ask_fastest_for_pause(const PauseWish& wish);
    void ask_for_pause(DonorState& donor, const PauseWish& wish, std::chrono::milliseconds asked);
    void stay_out(const PauseWish& wish);
    void try_again();
    [[nodiscard]] std::uint64_t bytes_left();
    void end_pause();
    void pull_what_differs(const Root& agreed);
    void judge();
    void judge_who_is_ahead();
    void give_up_late_parts();
    void doubt(NodeId node, const std::string& why);
    void doubt_givers(const Shard& shard, const std::string& why);
    void blame(DonorState& donor, const std::string& why);
    void note_reached();

    asio::io_context& loop_;
    ComputeThread& thread_;
    Steps& steps_;
    Trainer& trainer_;
    const state::Shards& shards_;
    Callbacks callbacks_;
    live::Member* member_ = nullptr;
    bool running_ = false;
    std::uint64_t sync_ = 0;  // jobs of an earlier one count for nothing
    std::uint64_t jobs_ = 0;
    Clock::time_point roots_asked_;
    std::vector<Shard> states_;
    std::vector<DonorState> donors_;
    std::map<std::uint64_t, Fetch> fetches_;  // by transfer
    std::list<Part> parts_;
    bool applies_to_all_ = false;            // the compute thread brings the whole state one step further
    std::vector<Root> roots_;                // what donors said; the newest of each
    Claims claims_;                          // likewise, of steps
    std::vector<NodeId> followed_from_;      // by shard: who gave what was not compared before stop()
    std::optional<StateLabel> looked_at_;    // the whole state that was last seen
    state::StepRecord look_record_;          // of the step that led there
    std::vector<std::uint64_t> own_hashes_;  // of that; empty: not known yet
    bool verified_ = false;
    Progress progress_;
    struct Pace {
        Clock::time_point looked;
        std::uint64_t bytes = 0;    // that had come by then
        bool is_steady = false;     // nothing comes any more that was saved up before
        double bytes_per_s = 0.0;   // that come, lately
        Clock::time_point first;    // when it was first heard how far most donors are
        std::uint64_t applied = 0;  // steps in it then
        std::uint64_t newest = 0;   // steps that most donors have
    };
    Pace pace_;
    struct Pause {
        NodeId donor;  // that begins no further step
        Clock::time_point until;
        PauseWish wish;
    };
    std::optional<Pause> pause_;
    std::optional<Clock::time_point> out_until_;  // it asks for nothing
    unsigned times_out_ = 0;                      // with the links that it has
    std::uint64_t duplicated_bytes_ = 0;
    std::uint64_t received_before_ = 0;
    asio::steady_timer timer_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace chaos::elastic
