// The view: the one small thing that peers agree on. Who is a member, which links exist and what they carry, which
// institutions are in, and from which step this holds. Every plan is a pure function of a view.
//
// A view is never sent whole in normal operation: a Delta says how it follows from its parent, and its name is the
// hash of (parent's name, delta). A chain of views is a line:
//
//   founding ──► view 1 ──► view 2 ──► view 3          decided by a quorum of view 2
//                              └─────► view 3'         a fork: decided by all of its own members, without a quorum
//
// A view holds from its first step on, until a younger view holds. A planned change names a step in the future; a
// change that interrupts (a failure) settles the step in flight and holds from the next one, so a younger view may
// well begin at an earlier step than its parent, which then never came into force.
#pragma once

#include "base/result.h"
#include "cluster/id.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace chaos::cluster {

inline constexpr std::uint32_t protocol_version = 1;
inline constexpr std::uint32_t planner_version = 2;  // equal views lead to equal plans only under equal planners

// Limits on what a view may hold; whatever exceeds them is refused in words.
inline constexpr std::size_t max_members = 4096;
inline constexpr std::size_t max_links = 65536;
inline constexpr std::size_t max_institutions = 1024;
inline constexpr std::size_t max_links_per_member = 256;
inline constexpr std::size_t max_revoked = 4096;
inline constexpr std::size_t max_tokens = 4096;  // used ones; beyond that the one that ends soonest is forgotten
inline constexpr std::size_t max_credential_bytes = 256;  // and of a revocation
inline constexpr std::size_t max_meetings = 16;
inline constexpr std::uint32_t max_delay_us = 1'000'000;  // a claim beyond that is cut down to it

enum class Standing : std::uint8_t {
    syncing,  // pulls the state; neither votes nor computes
    active,   // votes and takes part in every step of this view
};

struct MemberInfo {
    MemberId id;
    std::uint64_t since_epoch = 0;  // active since; the longest-standing member has the smallest (since_epoch, node)
    std::uint64_t first_step = 0;   // active: the first step it takes part in, with share 0
    Name institution{};
    Standing standing = Standing::syncing;
    std::uint32_t speed = 0;  // samples per second, measured; 0: not known
    std::string address;      // where it can be dialled; may be empty (behind NAT)
    bool operator==(const MemberInfo&) const = default;
};

// What a link carries, agreed by both ends: a hint for plans. A wrong one costs speed, never correctness.
struct Figures {
    std::uint32_t rate_ab = 0;  // kB/s from a to b; 0: not known
    std::uint32_t rate_ba = 0;
    std::uint32_t delay_us = 0;  // one way
    bool operator==(const Figures&) const = default;
};
// Whether what one end `claims`, as far as it knows, is what is known already: within a quarter.
[[nodiscard]] bool agrees(const Figures& claims, const Figures& known);
// Whether plans should know soon: beyond twice or half of it, and of delays beyond a millisecond.
[[nodiscard]] bool differs_much(const Figures& claims, const Figures& known);
[[nodiscard]] bool speeds_agree(std::uint64_t claim, std::uint64_t known);  // likewise

struct LinkInfo {
    LinkId id;
    Figures figures = {};
    bool operator==(const LinkInfo&) const = default;
};

enum class InstitutionStanding : std::uint8_t { in, removed };
struct Institution {
    Name root{};
    InstitutionStanding standing = InstitutionStanding::in;
    bool operator==(const Institution&) const = default;
};

// A one-time join token. Like a node, it is named by the hash of its key.
struct JoinToken {
    NodeId id;
    std::int64_t not_after = 0;  // seconds since 1970; nobody is let in by it later
    bool operator==(const JoinToken&) const = default;
};
struct UsedToken {
    JoinToken token;
    NodeId node;  // it alone may come back with this token
    bool operator==(const UsedToken&) const = default;
};

// Who asks to be let in, and what its institution says of it.
struct Newcomer {
    MemberInfo info;
    std::vector<std::uint8_t> credential;  // read by a Signer; empty where all were down: it was a member before
    std::optional<JoinToken> token;        // by which it was vouched for; absent: by a certificate
    bool operator==(const Newcomer&) const = default;
};

// What never comes back.
struct Revocation {
    NodeId subject;  // a node, or a join token with whoever came in by it
    Name by{};       // the institution that vouched for it; zero: expelled, whoever vouches for it
    auto operator<=>(const Revocation&) const = default;
};

// A half-open range of the samples of one step's global batch.
struct SampleRange {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    auto operator<=>(const SampleRange&) const = default;
};
struct Share {
    NodeId node;
    std::vector<SampleRange> ranges;
    bool operator==(const Share&) const = default;
};

// Why a member or a link is gone; each has words for people (words_of).
enum class Reason : std::uint8_t {
    left,             // asked to leave
    failed,           // no path of live links reached it
    restarted,        // its process began anew
    cut_off,          // the removal of a link, asked for by one of its ends, cut it off
    expelled,         // proven to have voted twice in one ballot
    revoked,          // its institution revoked it
    institution_out,  // its institution was removed
    not_reached,      // a joiner that no active member reaches any more
    closed,           // link: the other host closed the connection
    silent,           // link: nothing was heard for detect_ms
    asked,            // link: one end asked for its removal
    offended,         // a member, for good: its contributions were of no use, time and again
};
[[nodiscard]] std::string_view words_of(Reason reason);

struct Removal {
    NodeId node;
    Reason reason = Reason::left;
    bool operator==(const Removal&) const = default;
};
struct LinkRemoval {
    LinkId link;
    Reason reason = Reason::asked;
    bool operator==(const LinkRemoval&) const = default;
};

// How the step in flight ended when a change interrupted it. Steps are numbered from 0; a member that has applied n of
// them does step n next. Everybody kept has applied `applied` steps, or is one short and takes the last result from
// one of the holders; then all do the next step under the new view.
struct Settlement {
    std::uint64_t applied = 0;
    std::vector<NodeId> holders;  // empty: nobody is short
    bool founded = false;         // all were down: begin from the checkpoint of this many steps
    Name lineage{};               // founded: the lineage of that checkpoint
    // Nobody is left who took part in the last steps: newcomers go on from the state they hold; later steps are lost.
    bool from_joiners = false;
    bool operator==(const Settlement&) const = default;
};

// Two forks of one line met. The decided view freezes how many samples our side had committed by then, so that both
// sides, and each of their members, compare the same two numbers.
struct Meeting {
    Name other{};  // the other side's first view after the last common one
    std::uint64_t samples = 0;
    bool operator==(const Meeting&) const = default;
};

// How a view came to be without a quorum of its parent, by the votes of all of its own members.
enum class Fork : std::uint8_t {
    none,    // it did not: a quorum decided it
    waited,  // policy continue: no quorum came in time
    forced,  // policy strict: a person said that none will ever come
};

// The next view, as it follows from its parent.
struct Delta {
    Name parent{};
    std::uint64_t epoch = 0;  // the parent's plus one
    std::uint64_t first_step = 0;
    Fork fork = Fork::none;
    std::optional<Settlement> settlement;  // absent: a planned change
    std::vector<Removal> removals;
    std::vector<Newcomer> additions;  // syncing; active only where the cluster is founded
    std::vector<MemberId> activations;
    std::vector<LinkRemoval> link_removals;
    std::vector<LinkInfo> link_additions;  // new links, or new figures of existing ones
    std::vector<Institution> institutions;
    std::vector<Revocation> revocations;
    std::vector<std::pair<NodeId, std::uint32_t>> speeds;
    std::vector<Meeting> meetings;
    bool operator==(const Delta&) const = default;
};

// What a cluster is founded on. Its hash is the founder's name: lines with different founders never merge.
struct Founding {
    Name run{};  // what is trained
    std::uint32_t planner = planner_version;
    std::uint32_t batch = 0;  // samples of one step
    bool strict = false;      // partition policy: only a side with a quorum goes on, unless a person forces another
    MemberInfo founder;
    std::vector<Institution> institutions;
    std::vector<UsedToken> tokens;  // the founder's, if it has one
    bool operator==(const Founding&) const = default;
};

struct View;
using ViewPtr = std::shared_ptr<const View>;

struct View {
    Name name{};
    Name parent{};
    Name founder{};
    Name run{};
    std::uint32_t planner = planner_version;
    std::uint32_t batch = 0;
    bool strict = false;
    Fork fork = Fork::none;
    std::uint64_t epoch = 0;
    std::uint64_t first_step = 0;
    std::optional<Settlement> settlement;
    std::vector<MemberInfo> members;        // sorted by node
    std::vector<LinkInfo> links;            // sorted by id
    std::vector<Institution> institutions;  // sorted by root
    std::vector<Revocation> revoked;        // sorted
    std::vector<UsedToken> tokens;          // sorted by token
    std::vector<Meeting> meetings;
    // Who computes what in first_step, where that step is redone: what the kept held, and the lost ranges divided. Not
    // known to those who were not there when the step began; they take no part in it.
    std::vector<Share> redo;
    bool redo_known = true;

    [[nodiscard]] bool is_fork() const { return fork != Fork::none; }
    [[nodiscard]] const MemberInfo* find(NodeId node) const;
    [[nodiscard]] bool has(MemberId id) const;
    [[nodiscard]] bool is_active(NodeId node) const;
    [[nodiscard]] const LinkInfo* find(LinkId link) const;
    [[nodiscard]] std::vector<NodeId> neighbours(NodeId node) const;
    [[nodiscard]] std::size_t degree(NodeId node) const;
    [[nodiscard]] std::size_t active_count() const { return active; }
    [[nodiscard]] NodeId longest_standing() const { return senior; }
    // Active members in order of standing: who proposes first.
    [[nodiscard]] std::vector<NodeId> by_standing() const;
    [[nodiscard]] bool institution_in(const Name& root) const;
    // Whether this node or token never comes back, at least if that institution vouches for it.
    [[nodiscard]] bool revokes(NodeId subject, const Name& institution) const;
    [[nodiscard]] const UsedToken* find_token(NodeId token) const;

    // Derived by complete(); not encoded. Members are numbered by their place in `members`; those linked to member i
    // are adjacent[first_adjacent[i] .. first_adjacent[i + 1]), with the number of the link beside each.
    std::size_t active = 0;
    NodeId senior;
    struct Adjacent {
        std::uint32_t member = 0;
        std::uint32_t link = 0;
    };
    std::vector<std::uint32_t> first_adjacent;
    std::vector<Adjacent> adjacent;
};
void complete(View& view);
// What must be true of every view, or why it is not. The view is complete()d.
[[nodiscard]] Result<void> check(const View& view);

[[nodiscard]] Name founder_name(const Founding& founding);
[[nodiscard]] ViewPtr found(const Founding& founding);

// hash(parent, delta).
[[nodiscard]] Name name_of(const Delta& delta);

// The next view, or why the delta cannot follow `parent`. `governing` is the view under which the step
// delta.first_step was in flight when the change interrupted it; it may be older than the parent. A joiner that was not
// there yet does not know it (null), and then not what is redone either.
[[nodiscard]] Result<ViewPtr> apply(const View& parent, const View* governing, const Delta& delta);

// Members that would have become active after `step` only sync again when a settlement comes before that; unless nobody
// else is left: then they go on from the state they have.
void demote_early(std::vector<MemberInfo>& members, std::uint64_t step);

// More than half of the view's active members; or exactly half, with the longest-standing member among them. `voters`
// sorted, without duplicates; nodes that have no vote are ignored.
[[nodiscard]] bool is_quorum(const View& view, std::span<const NodeId> voters);

// Who computes which samples of `step` under `view`, which must hold for that step: in proportion to speed, in whole
// samples, but at least one. Where there are fewer samples than members, the fastest have one each, and now and then
// others have their turns, by the step. A member's first step has share 0. Covers [0, batch) exactly once.
[[nodiscard]] std::vector<Share> shares_of(const View& view, std::uint64_t step);

// What a share has beyond what is held of it; nullopt if it does not begin with that, and nothing held counts. A redo
// adds ranges behind those that were there, so that what a member computes, and in which order, does not depend on when
// it heard of it.
[[nodiscard]] std::optional<std::vector<SampleRange>> beyond(std::span<const SampleRange> held,
                                                             std::span<const SampleRange> share);

// Nodes reachable from `start` over the view's links that are not in `down` (sorted). Includes start; sorted. Walks
// active members only: a joiner relays nothing for others.
[[nodiscard]] std::vector<NodeId> reachable_from(const View& view, NodeId start, std::span<const LinkId> down);

// The largest one-way delay from `start` to any member, by the agreed figures; a guess where there are none.
[[nodiscard]] Nanoseconds eccentricity(const View& view, NodeId start);

}  // namespace chaos::cluster
