// cluster/ is how peers agree, with nobody in charge, on who is here, which links exist and from which step that
// holds. It is pure: an event and the time go in, actions come out. No sockets, clocks, threads or randomness of its
// own; the live node and the simulator drive this very code. docs/protocol.md is its specification.
//
// Read in this order: id.h, view.h (what is agreed), message.h (what is said), line.h (chains of views),
// compose.h (which view follows from which events), trust.h (who may be in), member.h (this file: everything a node
// does). Callers need only this file.
//
// A Member is one node's part in the cluster. The driver
//   - calls step(event, now) for everything that happens, and at wake_at() with a Tick;
//   - carries out the returned actions in order;
//   - runs steps when told to (StartStep), and says when each was applied (Applied).
#pragma once

#include "cluster/line.h"
#include "cluster/message.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace chaos::cluster {

// Offences are counted over so many steps. Whoever took part in as many knows every repeat offender, and votes for the
// expulsion of no other member.
inline constexpr std::uint64_t offence_steps = 100;

struct Options {
    Nanoseconds detect = 1 * second;  // silence that fails a link
    Nanoseconds heartbeat = 250 * millisecond;
    Nanoseconds fork_after = 10 * second;  // policy continue: own running time without a quorum before a fork
    // All were down. Policy continue: a quorum does not come; either policy: it has, but not those of a newer
    // checkpoint.
    Nanoseconds found_after = 30 * second;
    Nanoseconds resend = 500 * millisecond;  // unanswered requests are repeated
    std::uint32_t links_wanted = 3;          // a member with fewer looks for more
    std::uint32_t links_allowed = 16;        // further offers are refused
    bool may_found = true;                   // false: only ever joins
    // Where many members live in one process, they may share the views they compute.
    std::shared_ptr<ViewCache> views;
};

// What a node keeps on disk: its vote and the line it belongs to, so that a quorum that went down and came back can go
// on from its checkpoint without ever deciding one epoch twice. Replaced as a whole, before the actions after Persist
// are carried out.
struct DiskRecord {
    ViewPtr view;  // the youngest decided view known
    std::vector<Ancestor> ancestors;
    Ballot promised;
    std::optional<Vote> accepted;
    std::vector<Candidate> lost;  // members that failed: they may have checkpoints, or lead a line of their own
};

[[nodiscard]] std::vector<std::uint8_t> encode(const DiskRecord& record);
[[nodiscard]] Result<DiskRecord> decode_disk_record(std::span<const std::uint8_t> bytes);

// The newest stable checkpoint on this node's disk. Its lineage is never zero: that stands for no checkpoint at all.
struct Checkpoint {
    std::uint64_t applied = 0;
    Name lineage{};
};

struct Identity {
    MemberId member;
    Name run{};
    Name settings{};  // what else nodes need alike to train it together; may change between two lives of a node
    std::vector<std::uint8_t> credential;  // what its institution says of it
    std::string address;
    std::uint32_t speed = 0;
};

// ---- events ----

struct Tick {};
struct LinkUp {  // an authenticated connection stands
    NodeId peer;
};
struct LinkClosed {  // it was closed by the other host, or broke
    NodeId peer;
};
struct DialFailed {
    NodeId peer;
};
struct Received {
    NodeId from;
    MessagePtr message;
};
struct ReceivedGarbage {  // bytes that are no message
    NodeId from;
};
struct Applied {  // R(step) was complete and is applied, and all before it
    std::uint64_t step = 0;
};
// The all-reduce of `step` that was started under `view` cannot complete: a connection that it needs was lost.
struct StepFailed {
    std::uint64_t step = 0;
    Name view{};
};
struct Synced {  // a joiner holds the whole state, its root compared; it follows the cluster from now on
    std::uint64_t applied = 0;
    Name root{};
};
// By the results of steps: through this member's fault, several of the last offence_steps were of no use. All who took
// part in them find that by themselves.
struct FoundOffender {
    NodeId node;
};
struct WentAstray {};  // its state is not the cluster's: it goes, and comes back as a joiner
struct Measured {      // by the monitor: what `peer` sends us
    NodeId peer;
    std::uint32_t rate = 0;  // kB/s
};
struct MeasuredSpeed {  // of this node, in samples per second: shares follow it once it is agreed
    std::uint32_t speed = 0;
};
// What people and the process ask for.
struct FoundCommand {
    Founding founding;
};
struct JoinCommand {  // by any of these; tried in turn until one lets us in
    std::vector<Candidate> contacts;
};
struct LeaveCommand {};
// A link of this node's. The view that has it, or has it no more, is the answer; or LinkRefused. What was given up by
// DisconnectCommand at either end is not linked again until somebody asks for it, or a member that leaves would cut
// others off, or an end of it joins anew.
struct ConnectCommand {
    NodeId peer;
};
struct DisconnectCommand {
    NodeId peer;
};
struct InstitutionCommand {
    RequestKind kind = RequestKind::admit_institution;  // admit_institution, remove_institution, revoke_node
    Name root{};                                        // of the first two
    std::vector<std::uint8_t> revocation;               // revoke_node: signed by the institution
};
// Policy strict: a person says that no quorum of this node's view will ever come back. Those that are here fork, as
// they would by themselves under `continue`; where all were down, they found the cluster again. Member::recovery() says
// what that means, and when it is refused.
struct RecoverCommand {};

using Event = std::variant<Tick, LinkUp, LinkClosed, DialFailed, Received, ReceivedGarbage, Applied, StepFailed, Synced,
                           FoundOffender, WentAstray, Measured, MeasuredSpeed, FoundCommand, JoinCommand, LeaveCommand,
                           ConnectCommand, DisconnectCommand, InstitutionCommand, RecoverCommand>;

// ---- actions ----

struct Send {
    NodeId to;
    MessagePtr message;
};
struct Dial {  // answered by LinkUp or DialFailed
    NodeId peer;
    std::string address;
};
struct CloseLink {  // after what was sent before has left; no LinkClosed follows
    NodeId peer;
};
struct Persist {  // before the actions that follow
    DiskRecord record;
};
struct Adopted {  // a younger view is known; it governs steps from its first_step on
    ViewPtr view;
};
// Compute the share of `step` under `view` and take part in its all-reduce; report Applied. Where the step was begun
// before under another view, gradients already held are kept and only what was added is computed.
struct StartStep {
    std::uint64_t step = 0;
    ViewPtr view;
};
struct StopStep {};  // abandon what is in flight, apply nothing more; keep g and R
// Take the result of `step` from a holder, apply it, report Applied.
struct TakeResult {
    std::uint64_t step = 0;
    std::vector<NodeId> holders;
};
// All were down: load the checkpoint of `applied` steps.
struct Restore {
    std::uint64_t applied = 0;
    Name lineage{};
};
// This node was added as a joiner: pull the state from the neighbours and follow; then report Synced.
struct BeginSync {
    ViewPtr view;
};
// This joiner is active from `first_step` on: take the results up to first_step - 1, then report Applied for each.
struct Activated {
    std::uint64_t first_step = 0;
    ViewPtr view;
};
// No longer a member. The state is kept; unless `final`, the node asks to be let in again under a new incarnation.
struct Excluded {
    std::string why;
    bool final = false;
};
struct Left {};  // a leave is complete: nothing is lost when the process ends now
// What Connect- or DisconnectCommand asked for does not come about; one sentence.
struct LinkRefused {
    NodeId peer;
    bool connect = true;
    std::string text;
};
enum class About : std::uint8_t {
    event,
    refused,      // this node refused somebody, or what somebody asked for
    was_refused,  // this node was
};
struct Note {  // for the log; one sentence
    std::string text;
    About about = About::event;
};

using Action = std::variant<Send, Dial, CloseLink, Persist, Adopted, StartStep, StopStep, TakeResult, Restore,
                            BeginSync, Activated, Excluded, Left, LinkRefused, Note>;
using Actions = std::vector<Action>;

// Messages that changed nothing, by cause.
struct Counters {
    std::uint64_t malformed = 0;
    std::uint64_t forged = 0;    // a signature did not fit
    std::uint64_t stale = 0;     // of an epoch or ballot that is over
    std::uint64_t repeated = 0;  // seen before
    std::uint64_t refused = 0;   // well-formed, current, but not allowed
};

// What RecoverCommand would do, as far as this node knows.
struct Recovery {
    ViewPtr view;               // too few of whose active members are here
    std::vector<NodeId> here;   // those who would go on, this node among them
    std::vector<NodeId> lost;   // those who would not
    bool founds = false;        // all were down: from the newest checkpoint among those that are here
    std::uint64_t applied = 0;  // steps in this node's state, or in its checkpoint
};

// A neighbour in the view of which nothing is heard, although heartbeats are due.
struct Missed {
    NodeId peer;
    bool connected = false;
    Nanoseconds silent_for = 0;
};

class Member {
public:
    // `record` and `checkpoint`: what an earlier life left on disk.
    Member(const Options& options, const Identity& identity, const Signer& signer, std::optional<DiskRecord> record,
           std::optional<Checkpoint> checkpoint, Nanoseconds now);
    ~Member();
    Member(Member&&) noexcept;

    [[nodiscard]] Actions step(const Event& event, Nanoseconds now);
    // When to call with a Tick; the largest time there is: never, this member is gone.
    [[nodiscard]] Nanoseconds wake_at() const;

    [[nodiscard]] Role role() const;
    [[nodiscard]] MemberId id() const;   // the incarnation changes when the node comes back
    [[nodiscard]] ViewPtr view() const;  // the youngest decided view known; null: none
    [[nodiscard]] ViewPtr governing(std::uint64_t step) const;
    [[nodiscard]] std::uint64_t applied() const;
    // The number of steps that every member is known to have applied: never undone.
    [[nodiscard]] std::uint64_t stable() const;
    // Whether all that it is connected with are known to have applied that many steps.
    [[nodiscard]] bool neighbours_applied(std::uint64_t steps) const;
    [[nodiscard]] const Counters& counters() const;
    // What the node waits for, in words.
    [[nodiscard]] std::string why() const;
    // What RecoverCommand would do; an error says why it is refused.
    [[nodiscard]] Result<Recovery> recovery() const;
    // A step is under way, or may be: nothing else keeps this member from it.
    [[nodiscard]] bool runs() const;
    // Whom it waits for, as of the last event: those it misses, and those who have yet to say how far they are, where
    // this node proposes how an interrupted step goes on.
    [[nodiscard]] std::vector<Missed> missed() const;
    [[nodiscard]] std::vector<NodeId> awaited() const;
    // What led to this view of its line; null: not known any more.
    [[nodiscard]] DecidePtr decision(const View& view) const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace chaos::cluster
