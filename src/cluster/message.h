// Every message of the core. Most travel one hop, over an authenticated link, and need no signature. What others relay
// is signed by its author and checked by whoever acts on it. docs/protocol.md tells how they play together.
//
//   one hop       Hello, Heartbeat, Bye, Ask, Answer, LinkOffer, LinkConsent, CatchUp, History, LineSummary
//   flooded       Request, Prepare, Accept, Decide, Proof        relayed verbatim to every neighbour, once
//   routed back   Promise, Accepted                              along the way by which the flooded message came
//
// The encoding is our own and canonical (one value, one sequence of bytes), because signatures and names are hashes of
// it; it is little-endian, counted, and every count is bounded (wire.cpp).
#pragma once

#include "cluster/view.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace chaos::cluster {

// The author's public key, which its node id is the hash of, and the Ed25519 signature: whoever has the message can
// check it.
using Signature = std::array<std::uint8_t, 96>;

// What a credential proves of the node that shows it.
struct Vouched {
    Name institution{};
    std::optional<JoinToken> token = {};  // absent: a certificate for this very node
};

// Signs in the name of this node, and checks what others and institutions signed. An edge to the world: keys live
// elsewhere, and the simulator has a cheap stand-in.
class Signer {
public:
    virtual ~Signer() = default;
    [[nodiscard]] virtual Signature sign(std::span<const std::uint8_t> bytes) const = 0;
    [[nodiscard]] virtual bool verify(NodeId author, std::span<const std::uint8_t> bytes,
                                      const Signature& signature) const = 0;
    // What the credential says of this node, or why it is worth nothing to it. Everybody gets the same answer: no clock
    // is asked (docs/protocol.md says who looks at dates).
    [[nodiscard]] virtual Result<Vouched> vouched(NodeId node, std::span<const std::uint8_t> credential) const = 0;
    // What an institution revokes by these bytes, or why they revoke nothing.
    [[nodiscard]] virtual Result<Revocation> revocation(std::span<const std::uint8_t> bytes) const = 0;
};

// Author and signature of a message that others relay; always its last field. Attempts tell repeats apart: a repeat
// must not be taken for a copy of what was relayed before.
struct Stamp {
    MemberId author;
    std::uint32_t attempt = 0;
    Signature signature{};
};

// ---- one hop ----

enum class Role : std::uint8_t { outside, joining, syncing, active, returning };

struct Hello {  // the first message on a link, from both ends
    std::uint32_t version = protocol_version;
    MemberId member;
    Role role = Role::outside;
    Name run{};
    Name settings{};
    Name founder{};  // zero: has no view
    Name view{};
    std::uint64_t epoch = 0;
};

struct Heartbeat {
    std::uint64_t incarnation = 0;
    Role role = Role::outside;
    std::uint64_t epoch = 0;
    Name view{};  // zero: has none
    std::uint64_t applied = 0;
    Nanoseconds sent_at = 0;  // of the sender's clock
    Nanoseconds echo = 0;     // the newest sent_at heard from the receiver; 0: none
    Nanoseconds held = 0;     // how long ago that was heard
};

struct Bye {  // before a link is closed on purpose; a link closed without it means that the process ended
    std::string reason;
};

// A newcomer asks any member to let it in. The same question again gets the same answer.
struct Ask {
    Name run{};
    Newcomer newcomer;
};
struct Candidate {
    NodeId node;
    std::string address;
};
struct Answer {
    std::string refusal;                // empty: welcome
    std::vector<Candidate> candidates;  // whom to ask for links
};

struct LinkOffer {
    MemberId from;
};
struct LinkConsent {  // signed, because the offerer shows it to others
    MemberId offerer;
    std::uint64_t epoch = 0;  // of the author's view: an old consent is none
    std::string refusal;      // empty: agreed
    Stamp stamp;
};

struct CatchUp {  // "this is the youngest view I know"
    Name view{};
    std::uint64_t epoch = 0;
};

// What a line looked like, youngest last, to find the last common view of two lines.
struct Ancestor {
    Name view{};
    std::uint64_t epoch = 0;
    bool fork = false;
};
struct LineSummary {
    Name founder{};
    std::vector<Ancestor> ancestors;
    std::vector<Meeting> meetings;
    Stamp stamp;  // its author can let you in
};

// ---- flooded ----

enum class RequestKind : std::uint8_t {
    join,
    activate,
    leave,
    connect,
    disconnect,
    link_down,
    figures,
    speed,
    admit_institution,
    remove_institution,
    revoke_node,
    link_up,  // withdraws a link_down: the link stands again
    stuck,    // under the view `name`, a member cannot go on: one who leaves died before its last step, or a result is
              // nowhere to be had
    meet,     // another fork of our line was met
    broken,   // under the view `name`, the step in flight lost a connection that stands again: nobody is gone, but the
              // step must be settled
    expel,    // never sent: what a proof of two votes asks for, or what all found of a repeat offender
};

struct Request {  // an event that asks for a change of the view
    RequestKind kind = RequestKind::leave;
    MemberId subject;                   // join, activate, leave, speed, revoke_node: also a token
    Newcomer newcomer;                  // join
    std::vector<LinkConsent> consents;  // join, connect: from the other ends
    std::vector<LinkInfo> claims;       // join: what the new links carry
    LinkId link;                        // connect, disconnect, link_down, figures
    Figures figures;
    Reason reason = Reason::asked;  // link_down, expel
    // *_institution, revoke_node: the root; meet: the other line; activate: the state's root
    Name name{};
    std::vector<std::uint8_t> revocation;  // revoke_node: signed by the root; whoever carries it here
    std::uint64_t value = 0;               // activate: steps applied; speed: samples per second
    std::uint64_t epoch = 0;               // of the author's view when it signed: an old request is a replay
    Stamp stamp;
};

struct Ballot {
    std::uint64_t round = 0;  // round 0 belongs to the longest-standing member and needs no Prepare
    NodeId proposer;
    auto operator<=>(const Ballot&) const = default;
};

struct Prepare {
    Name parent{};
    std::uint64_t epoch = 0;  // of the view to be decided
    Ballot ballot;
    bool flush = false;  // stop the step in flight and report
    Stamp stamp;
};

struct Accept {
    Ballot ballot;
    Delta delta;
    Stamp stamp;
};

struct Decide {
    Ballot ballot;
    Delta delta;
    Stamp stamp;
};

struct Accepted {
    Name parent{};
    std::uint64_t epoch = 0;
    Ballot ballot;
    Name value{};                  // name of the view voted for; zero: refused
    Ballot promised;               // refused: the ballot that bars it, or
    std::uint64_t started = 0;     // the step that was begun already, so that the change comes too early
    std::vector<LinkInfo> claims;  // links of the voter whose figures have changed much: they ride the next epoch
    std::uint64_t answers = 0;     // hash of the Accept that this answers
    Stamp stamp;
};

struct Proof {                        // one author said two things that exclude each other
    std::vector<std::uint8_t> first;  // encoded Accepted, Accept or Decide messages
    std::vector<std::uint8_t> second;
    Stamp stamp;
};

// ---- routed back ----

struct DownLink {
    NodeId peer;
    Reason reason = Reason::silent;
};

struct Report {
    Role role = Role::active;    // active, or returning after a restart
    MemberId member;             // a returning one has a new incarnation
    std::uint64_t applied = 0;   // active: steps applied; returning: of its checkpoint
    Name lineage{};              // returning: of its checkpoint
    bool stopped = false;        // the step in flight is stopped until a settlement is decided
    std::uint64_t started = 0;   // one more than the youngest step begun
    std::vector<DownLink> down;  // its links that are dead
    std::string address;         // returning: where it can be dialled now
};

struct Vote {
    Ballot ballot;
    Delta delta;
};

struct Promise {
    Name parent{};
    std::uint64_t epoch = 0;
    Ballot ballot;  // the one promised; larger than the Prepare's: refused
    std::optional<Vote> accepted;
    Report report;
    std::uint64_t answers = 0;
    Stamp stamp;
};

// Whole views, for those who have none or are far behind, or the decisions since the one they know.
struct History {
    std::vector<Decide> decisions;                  // oldest first
    std::optional<std::vector<std::uint8_t>> view;  // encoded View that the first decision follows
    std::vector<Ancestor> ancestors;                // of that view
    std::vector<Candidate> lost;                    // members that failed, and may lead a line of their own
    Stamp stamp;
};

using Body = std::variant<Hello, Heartbeat, Bye, Ask, Answer, LinkOffer, LinkConsent, CatchUp, History, LineSummary,
                          Request, Prepare, Accept, Decide, Promise, Accepted, Proof>;

// A body with its encoding. Immutable and shared: a relay forwards the same object, or the same bytes.
struct Message {
    Body body;
    std::vector<std::uint8_t> bytes;
    std::uint64_t hash = 0;  // XXH3 of bytes
};
using MessagePtr = std::shared_ptr<const Message>;
using DecidePtr = std::shared_ptr<const Decide>;  // decisions are kept for those who missed them

inline constexpr std::size_t max_message_bytes = 4 << 20;
inline constexpr std::size_t max_decisions = 256;   // in one History
inline constexpr std::size_t max_ancestors = 4096;  // in one History or LineSummary
// Requests and consents signed this many epochs ago are no longer heeded.
inline constexpr std::uint64_t max_age_epochs = 256;

[[nodiscard]] MessagePtr make_message(Body body);
// Signs the body's stamp first. `body` must be of a kind that has one.
[[nodiscard]] MessagePtr make_signed(Body body, MemberId author, std::uint32_t attempt, const Signer& signer);
// The message, or why the bytes are none. Never reads beyond the bytes, never allocates more than they justify.
[[nodiscard]] Result<MessagePtr> decode_message(std::span<const std::uint8_t> bytes);
// True if the message carries a stamp and the author's signature fits.
[[nodiscard]] bool signature_fits(const Message& message, const Signer& signer);
[[nodiscard]] const Stamp* stamp_of(const Body& body);
// A consent travels inside other messages too.
[[nodiscard]] bool signature_fits(const LinkConsent& consent, const Signer& signer);
[[nodiscard]] std::string_view kind_of(const Body& body);

// Encodings that names are hashes of, and that disks keep.
[[nodiscard]] std::vector<std::uint8_t> encode(const Delta& delta);
[[nodiscard]] std::vector<std::uint8_t> encode(const View& view);
[[nodiscard]] std::vector<std::uint8_t> encode(const Founding& founding);
[[nodiscard]] Result<ViewPtr> decode_view(std::span<const std::uint8_t> bytes);

}  // namespace chaos::cluster
