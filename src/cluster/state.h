// The inside of a Member; only these include it:
//
//   member.cpp      events in, time, training steps, what others ask
//   neighbours.cpp  connections: greeting, heartbeats, detection, the overlay's repair
//   meeting.cpp     lines that are compared: catching up, newcomers, lines that meet
//   joining.cpp     the way in, links between members
//   relaying.cpp    flooded messages, requests, proofs
//   voting.cpp      promises, flush, votes
//   proposing.cpp   whose turn it is, what is proposed, when it is decided
//   recovering.cpp  going on without a quorum, because a person says so
//   adopting.cpp    what a decided view means for this node
#pragma once

#include "cluster/compose.h"
#include "cluster/member.h"

#include <deque>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

namespace chaos::cluster {

inline constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();

// An authenticated connection to another node, whether or not it is a link of the view.
struct Connection {
    Nanoseconds up_since = 0;
    Nanoseconds last_heard = 0;
    bool greeted = false;  // its Hello is here
    MemberId member;
    Role role = Role::outside;
    Name view{};
    std::uint64_t epoch = 0;
    std::uint64_t applied = 0;
    Nanoseconds their_sent_at = 0;  // of the last heartbeat
    Nanoseconds their_heard_at = 0;
    Nanoseconds round_trip = 0;
    std::uint32_t rate = 0;  // kB/s that we measured from it
    bool said_bye = false;
    Nanoseconds claimed_at = 0;  // when its figures were last told to a proposer
    Nanoseconds summary_sent_at = 0;
    std::size_t summary_depth = 512;  // how many ancestors it is told
    Nanoseconds hello_sent_at = 0;
    Nanoseconds needed_at = 0;  // when it last served a purpose
    std::string refusal;        // why it was not let in, when it last asked
};

// A flooded message that was seen, and the neighbour it came from: the way back for answers.
class Seen {
public:
    // False if it was seen before.
    bool add(std::uint64_t hash, NodeId from);
    [[nodiscard]] const NodeId* upstream(std::uint64_t hash) const;

private:
    std::unordered_map<std::uint64_t, NodeId> from_;
    std::deque<std::uint64_t> order_;
};

// This node's part as a voter on what follows the tip.
struct Acceptor {
    Ballot promised;
    std::optional<Vote> accepted;
};

// This node's own attempt to get the next view decided.
struct Proposal {
    Ballot ballot;
    bool flush = false;
    bool accepting = false;  // a value is out; before that, promises are collected
    std::uint32_t attempt = 0;
    Nanoseconds resend_at = 0;
    Nanoseconds deadline = 0;
    std::set<std::uint64_t> asked;  // hashes of the messages that answers refer to
    std::map<NodeId, Promise> promises;
    std::set<NodeId> awaited;  // flush: who can be reached and has not reported, when that was last looked at
    Delta delta;
    Name value{};
    std::set<NodeId> votes;
    std::set<NodeId> declined;  // who had begun a step of the planned change already
};

// A link that somebody asked this node to add or remove, until a view does, or it is said why none will.
struct LinkWish {
    bool connect = true;
    bool agreed = false;  // the other end consents, or need not
    Nanoseconds until = 0;
};

// A request of our own that is repeated until the view has what it asks for.
struct Own {
    Request request;
    std::uint32_t attempt = 0;
    Nanoseconds resend_at = 0;
};

// The way in.
struct Join {
    std::vector<Candidate> contacts;
    std::size_t next_contact = 0;
    Nanoseconds dial_at = 0;
    std::optional<NodeId> sponsor;  // who welcomed us
    Nanoseconds asked_at = 0;
    std::set<NodeId> asked;  // any of them may tell us where we are
    Nanoseconds offers_until = 0;
    Nanoseconds request_at = 0;
    Nanoseconds give_up_at = never;
    std::vector<Candidate> candidates;
    std::set<NodeId> offered;
    std::map<NodeId, LinkConsent> consents;
    std::uint32_t attempt = 0;
};

struct Member::State {
    Options options;
    Identity identity;
    const Signer& signer;
    Result<Vouched> vouched;  // what our own credential says
    Counters counters;
    std::optional<Checkpoint> checkpoint;

    Nanoseconds now = 0;
    Actions actions;

    Role role = Role::outside;
    Line line;
    Line past;  // the line that went on without us: its members may not know yet what was decided
    bool leaving = false;
    bool gone = false;    // left, expelled or revoked for good
    std::string refusal;  // the last one we were given, in words

    // Training.
    std::uint64_t applied = 0;
    std::uint64_t stable = 0;
    std::uint64_t started = 0;          // one more than the youngest step begun
    Name running_view{};                // zero: no step runs
    bool step_failed = false;           // the step that runs cannot complete
    bool stopped = false;               // by a flush, until a settlement is adopted
    bool taking = false;                // a result is being taken from a holder
    Nanoseconds catching_up_since = 0;  // a settled result, or those before its first step, are on their way
    Nanoseconds step_began_at = 0;
    Nanoseconds took_at = 0;         // when the result of a step in flight was last asked for
    Nanoseconds gave_up_at = never;  // its all-reduce, for a result that others seemed to have
    Nanoseconds step_time = 0;       // smoothed

    // Connections.
    std::map<NodeId, Connection> connections;
    std::map<NodeId, Nanoseconds> dialling;       // since when
    std::map<NodeId, Nanoseconds> missing_since;  // links of the view without a connection
    std::map<NodeId, Nanoseconds> wanted_links;   // asked for; until when
    std::map<NodeId, LinkWish> link_wishes;       // by the other end
    std::set<NodeId> given_up;                    // links that an end asked to remove: not chosen again by ourselves
    std::deque<Candidate> lost;                   // members that failed: dialled now and then
    Nanoseconds beat_at = 0;
    Nanoseconds ticked_at = 0;
    Nanoseconds late_until = 0;  // what is handled before that may be old news
    Nanoseconds repair_at = 0;
    std::uint64_t repairs = 0;
    Seen seen;
    Join join;

    // Agreement.
    Acceptor acceptor;
    std::optional<Proposal> proposal;
    bool round_zero_used = false;
    bool awaits_seniors = false;             // propose_at is when those who stand longer have had their turn
    std::optional<NodeId> awaited_proposer;  // propose_at is when this one has had the time to finish
    std::uint64_t highest_round = 0;
    Nanoseconds propose_at = never;
    Nanoseconds tip_since = 0;
    std::map<NodeId, Nanoseconds> consented_at;  // to links that no view may have yet
    Nanoseconds without_quorum_since = never;
    Name forced_from{};                  // the view no quorum of which will come back, as a person said; zero: none
    Nanoseconds founding_since = never;  // a quorum came back, but others may have newer checkpoints
    std::string founding_waits;          // for whom, in words
    Pending pending;
    std::map<RequestKey, Own> own;
    std::uint32_t requests_made = 0;  // none has the bytes of an earlier one, which nobody would pass on
    std::map<RequestKey, Nanoseconds> pending_since;
    std::map<std::pair<Name, NodeId>, MessagePtr> votes_seen;  // Accepted messages on what follows the tip
    std::map<NodeId, MessagePtr> accepts_seen;                 // the youngest Accept of each proposer, likewise
    std::vector<Received> early;                               // about a view we have not heard of yet
    ViewPtr voted;                                             // the view last voted for, as it would be

    State(const Options& o, Identity i, const Signer& s)
        : options(o),
          identity(std::move(i)),
          signer(s),
          vouched(s.vouched(identity.member.node, identity.credential)) {}

    // ---- member.cpp
    void tick();
    void excuse_lateness();
    void maybe_start_step();
    void on_applied(const Applied& event);
    void on_step_failed(const StepFailed& event);
    void say_broken();
    [[nodiscard]] Nanoseconds next_silence() const;
    void on_synced(const Synced& event);
    void finish_leaving();
    void exclude(const std::string& why, bool final);
    [[nodiscard]] Nanoseconds spread() const;

    void act(Action action) { actions.push_back(std::move(action)); }
    void send(NodeId to, MessagePtr message) { act(Send{.to = to, .message = std::move(message)}); }
    void note(std::string text, About about = About::event) { act(Note{std::move(text), about}); }
    [[nodiscard]] NodeId self() const { return identity.member.node; }
    [[nodiscard]] const View& tip() const { return *line.tip(); }
    [[nodiscard]] bool behind() const;  // lacks results of steps before the one it is to take part in
    [[nodiscard]] bool barred(const View& view) const;
    [[nodiscard]] bool votes() const;  // has a seat among those who decide what follows the tip

    // ---- neighbours.cpp
    void on_link_up(NodeId peer);
    void on_link_closed(NodeId peer);
    void on_dial_failed(NodeId peer);
    void drop(NodeId peer, const std::string& reason);
    void lose_link(NodeId peer, Reason reason);
    void regain_link(NodeId peer, const Connection& connection);
    [[nodiscard]] RequestKey down_request(NodeId peer) const;  // the key of what says that a link of ours is down
    void on_hello(NodeId from, const Hello& hello);
    void on_heartbeat(NodeId from, const Heartbeat& beat);
    void learn_stable();
    void send_heartbeats();
    void detect();
    void leave_when_passed_over();
    void say_stuck();
    void miss_results();
    void miss_neighbours();
    void miss_those_who_left();
    void keep_connections();
    void repair_overlay();
    void look_for_links();
    void look_past_a_neighbour();
    void link_around_leavers();
    void remember_lost(const Candidate& candidate);
    void take_what_others_have();
    void dial(NodeId peer, const std::string& address);
    [[nodiscard]] MessagePtr hello() const;
    void greet(NodeId peer, Connection& connection);
    [[nodiscard]] bool serves(NodeId peer, const Connection& connection) const;
    void flood(const MessagePtr& message, NodeId except);

    // ---- measuring.cpp
    [[nodiscard]] Figures measured(NodeId peer, const Connection& connection) const;
    [[nodiscard]] std::vector<LinkInfo> claims(std::size_t most, bool large_only);
    [[nodiscard]] std::vector<LinkInfo> claims_for_vote();
    void hear_claims(const Accepted& vote);
    void say_measured();
    [[nodiscard]] bool waited_long() const;  // no view came for so long that what may wait has waited enough

    // ---- meeting.cpp
    void compare_lines(NodeId from, const Name& view, std::uint64_t epoch);
    void on_catch_up(NodeId from, const CatchUp& message);
    void on_history(NodeId from, const History& history, const Message& message);
    void on_whole(NodeId from, const History& history);
    void send_whole(NodeId to);
    void on_summary(NodeId from, const LineSummary& summary, const MessagePtr& message);
    void send_summary(NodeId to);
    [[nodiscard]] LineSummary summary(std::size_t depth) const;

    // ---- joining.cpp
    void start_joining(std::vector<Candidate> contacts);
    void continue_joining();
    void on_ask(NodeId from, const Ask& ask);
    void on_answer(NodeId from, const Answer& answer);
    void on_offer(NodeId from, const LinkOffer& offer);
    void on_consent(NodeId from, const LinkConsent& consent, const Message& message);
    void on_join_request(NodeId from, const Request& request);
    void turn_away(NodeId from, const std::string& why);
    [[nodiscard]] std::size_t links_promised(NodeId except);
    void want_link(NodeId peer);
    void wish_link(NodeId peer, bool connect);
    void refuse_link(NodeId peer, const std::string& why);
    void mind_link_wishes();
    void remember_given_up(const Delta& delta);
    [[nodiscard]] MemberInfo info() const;
    [[nodiscard]] Newcomer newcomer() const;

    // ---- relaying.cpp
    void on_flooded(NodeId from, const MessagePtr& message);
    bool on_request(const Request& request);  // the bool: whether to relay it
    bool on_proof(const Proof& proof);
    void on_offender(NodeId node);
    void expel(MemberId member, Reason reason, const std::string& why);
    void watch_votes(const MessagePtr& message);
    void accuse(const MessagePtr& one, const MessagePtr& other);
    void ask_for(Request request);  // floods it, and repeats it until it is done
    void repeat_own();
    void prune_pending();
    void wait_for(const Request& request);

    // ---- voting.cpp
    bool on_prepare(NodeId from, const MessagePtr& message);
    bool on_accept(NodeId from, const MessagePtr& message);
    void on_routed(NodeId from, const MessagePtr& message);
    void answer(NodeId upstream, Body body);
    void persist();
    [[nodiscard]] Report report() const;
    [[nodiscard]] std::uint64_t most_steps_of_others() const;
    [[nodiscard]] bool plausible(const Promise& promise) const;
    [[nodiscard]] bool timely(std::uint64_t round) const;
    [[nodiscard]] Result<void> fits_our_steps(const Delta& delta) const;
    [[nodiscard]] Result<void> fits_our_findings(const Delta& delta) const;

    // ---- proposing.cpp
    void consider_proposing();
    void propose_after(Nanoseconds wait, std::optional<NodeId> proposer);
    [[nodiscard]] bool reaches(NodeId node) const;
    [[nodiscard]] Nanoseconds turn() const;
    void propose();
    [[nodiscard]] bool may_found() const;
    void prepare(bool flush);
    void propose_value(const Delta& delta);
    void repeat_proposal();
    void drop_proposal(Nanoseconds retry_after);
    void on_promise(const Promise& promise);
    void on_accepted(const Accepted& accepted);
    void advance();
    void decide();
    [[nodiscard]] bool may_fork(const std::set<NodeId>& missing);
    [[nodiscard]] bool may_found_from(const Settlement& settlement, Fork fork, std::set<NodeId> missing);
    [[nodiscard]] std::vector<LinkId> down_links() const;
    [[nodiscard]] std::uint64_t planned_step(std::uint64_t begun) const;
    [[nodiscard]] std::vector<NodeId> patient() const;
    [[nodiscard]] std::optional<Delta> planned_change(std::uint64_t begun);
    void advance_votes();
    void advance_plan();
    void advance_flush();
    [[nodiscard]] const Vote* voted_for() const;
    [[nodiscard]] std::map<NodeId, Report> believable_reports();
    void drop_false_leaders(std::map<NodeId, Report>& reports);

    // ---- recovering.cpp
    [[nodiscard]] std::vector<NodeId> seats_here() const;
    [[nodiscard]] bool a_member_runs() const;
    [[nodiscard]] Result<Recovery> recovery() const;
    [[nodiscard]] std::string too_few() const;
    [[nodiscard]] bool forced() const;
    void recover();

    // ---- adopting.cpp
    bool on_decide(const DecidePtr& decide);
    bool adopt(const DecidePtr& decision);
    [[nodiscard]] Result<ViewPtr> view_after(const Delta& delta, const Name& name);
    void contradict(const Decide& decide);
    void say_what_is_lost(const Settlement& settlement);
    void after_adoption();
    [[nodiscard]] std::string why_without_us() const;
    void recheck_early();
    void forget_ballots();
};

}  // namespace chaos::cluster
