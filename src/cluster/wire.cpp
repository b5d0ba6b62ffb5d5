// The canonical encoding of messages, deltas and views. One function per type walks its fields; the same walk writes
// and reads, so the two cannot disagree. Numbers are little-endian and of fixed width, lists are counted, every count
// has a limit.
#include "cluster/member.h"

#include <algorithm>
#include <functional>
#include <type_traits>

namespace chaos::cluster {
namespace {

constexpr std::size_t max_text = 1024;
constexpr std::size_t max_consents = 64;
constexpr std::size_t max_candidates = 64;

class Writer {
public:
    static constexpr bool reading = false;
    std::vector<std::uint8_t> bytes;

    void raw(const std::uint8_t* data, std::size_t size) { bytes.insert(bytes.end(), data, data + size); }
};

class Reader {
public:
    static constexpr bool reading = true;
    explicit Reader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

    void raw(std::uint8_t* data, std::size_t size) {
        if (size > rest_.size()) return fail();
        std::copy_n(rest_.data(), size, data);
        rest_ = rest_.subspan(size);
    }
    void fail() {
        good_ = false;
        rest_ = {};
    }
    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] std::size_t left() const { return rest_.size(); }

private:
    std::span<const std::uint8_t> rest_;
    bool good_ = true;
};

template <class Archive, class T>
    requires std::is_unsigned_v<T>
void walk(Archive& archive, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
        std::uint8_t byte = value ? 1 : 0;
        archive.raw(&byte, 1);
        if constexpr (Archive::reading) {
            if (byte > 1) archive.fail();  // one value, one encoding
            value = byte == 1;
        }
    } else {
        std::array<std::uint8_t, sizeof(T)> bytes{};
        for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
        archive.raw(bytes.data(), bytes.size());
        if constexpr (Archive::reading) {
            value = 0;
            for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(bytes[i]) << (8 * i));
        }
    }
}

template <class Archive>
void walk(Archive& archive, std::int64_t& value) {
    auto bits = static_cast<std::uint64_t>(value);
    walk(archive, bits);
    value = static_cast<std::int64_t>(bits);
}

template <class Archive, std::size_t N>
void walk(Archive& archive, std::array<std::uint8_t, N>& value) {
    archive.raw(value.data(), N);
}

template <class Archive, class E>
void walk_enum(Archive& archive, E& value, E last) {
    auto number = static_cast<std::uint8_t>(value);
    walk(archive, number);
    if constexpr (Archive::reading) {
        if (number > static_cast<std::uint8_t>(last)) return archive.fail();
        value = static_cast<E>(number);
    }
}

template <class Archive, class T, class Each>
void walk_list(Archive& archive, std::vector<T>& list, std::size_t limit, Each each) {
    auto count = static_cast<std::uint32_t>(list.size());
    walk(archive, count);
    if constexpr (Archive::reading) {
        // Every element takes a byte at least: a count never makes us allocate more than the message justifies.
        if (count > limit || count > archive.left()) return archive.fail();
        list.resize(count);
    } else {
        CHAOS_ASSERT(list.size() <= limit);
    }
    for (T& element : list) each(archive, element);
}

template <class Archive>
void walk(Archive& archive, std::string& text) {
    auto count = static_cast<std::uint32_t>(text.size());
    walk(archive, count);
    if constexpr (Archive::reading) {
        if (count > max_text || count > archive.left()) return archive.fail();
        text.resize(count);
    } else {
        CHAOS_ASSERT(text.size() <= max_text);
    }
    archive.raw(reinterpret_cast<std::uint8_t*>(text.data()), count);
}

template <class Archive>
void walk_blob(Archive& archive, std::vector<std::uint8_t>& blob, std::size_t limit) {
    auto count = static_cast<std::uint32_t>(blob.size());
    walk(archive, count);
    if constexpr (Archive::reading) {
        if (count > limit || count > archive.left()) return archive.fail();
        blob.resize(count);
    } else {
        CHAOS_ASSERT(blob.size() <= limit);
    }
    archive.raw(blob.data(), blob.size());
}

template <class Archive, class T, class Each>
void walk_optional(Archive& archive, std::optional<T>& value, Each each) {
    bool present = value.has_value();
    walk(archive, present);
    if (!present) return;
    if constexpr (Archive::reading) value.emplace();
    each(archive, *value);
}

// Walks each field in turn.
template <class Archive, class... Fields>
void walk_all(Archive& archive, Fields&... fields) {
    (walk(archive, fields), ...);
}

struct Walk {
    template <class Archive, class T>
    void operator()(Archive& archive, T& value) const {
        walk(archive, value);
    }
};

template <class Archive>
void walk(Archive& archive, NodeId& node) {
    walk_all(archive, node.high, node.low);
}
template <class Archive>
void walk(Archive& archive, MemberId& id) {
    walk_all(archive, id.node, id.incarnation);
}
template <class Archive>
void walk(Archive& archive, LinkId& link) {
    walk_all(archive, link.a, link.b);
}
template <class Archive>
void walk(Archive& archive, Ballot& ballot) {
    walk_all(archive, ballot.round, ballot.proposer);
}
template <class Archive>
void walk(Archive& archive, Figures& figures) {
    walk_all(archive, figures.rate_ab, figures.rate_ba, figures.delay_us);
}
template <class Archive>
void walk(Archive& archive, LinkInfo& link) {
    walk_all(archive, link.id, link.figures);
}
template <class Archive>
void walk(Archive& archive, Institution& institution) {
    walk(archive, institution.root);
    walk_enum(archive, institution.standing, InstitutionStanding::removed);
}
template <class Archive>
void walk(Archive& archive, MemberInfo& info) {
    walk_all(archive, info.id, info.since_epoch, info.first_step, info.institution);
    walk_enum(archive, info.standing, Standing::active);
    walk_all(archive, info.speed, info.address);
}
template <class Archive>
void walk(Archive& archive, JoinToken& token) {
    walk_all(archive, token.id, token.not_after);
}
template <class Archive>
void walk(Archive& archive, UsedToken& used) {
    walk_all(archive, used.token, used.node);
}
template <class Archive>
void walk(Archive& archive, Newcomer& newcomer) {
    walk(archive, newcomer.info);
    walk_blob(archive, newcomer.credential, max_credential_bytes);
    walk_optional(archive, newcomer.token, Walk{});
}
template <class Archive>
void walk(Archive& archive, Revocation& revocation) {
    walk_all(archive, revocation.subject, revocation.by);
}
template <class Archive>
void walk(Archive& archive, Reason& reason) {
    walk_enum(archive, reason, Reason::offended);
}
template <class Archive>
void walk(Archive& archive, Role& role) {
    walk_enum(archive, role, Role::returning);
}
template <class Archive>
void walk(Archive& archive, Removal& removal) {
    walk_all(archive, removal.node, removal.reason);
}
template <class Archive>
void walk(Archive& archive, LinkRemoval& removal) {
    walk_all(archive, removal.link, removal.reason);
}
template <class Archive>
void walk(Archive& archive, Settlement& settlement) {
    walk(archive, settlement.applied);
    walk_list(archive, settlement.holders, max_members, Walk{});
    walk_all(archive, settlement.founded, settlement.lineage, settlement.from_joiners);
}
template <class Archive>
void walk(Archive& archive, Meeting& meeting) {
    walk_all(archive, meeting.other, meeting.samples);
}
template <class Archive>
void walk(Archive& archive, Fork& fork) {
    walk_enum(archive, fork, Fork::forced);
}
template <class Archive>
void walk(Archive& archive, Delta& delta) {
    walk_all(archive, delta.parent, delta.epoch, delta.first_step, delta.fork);
    walk_optional(archive, delta.settlement, Walk{});
    walk_list(archive, delta.removals, max_members, Walk{});
    walk_list(archive, delta.additions, max_members, Walk{});
    walk_list(archive, delta.activations, max_members, Walk{});
    walk_list(archive, delta.link_removals, max_links, Walk{});
    walk_list(archive, delta.link_additions, max_links, Walk{});
    walk_list(archive, delta.institutions, max_institutions, Walk{});
    walk_list(archive, delta.revocations, max_members, Walk{});
    walk_list(archive, delta.speeds, max_members,
              [](auto& inner, auto& entry) { walk_all(inner, entry.first, entry.second); });
    walk_list(archive, delta.meetings, max_meetings, Walk{});
}
template <class Archive>
void walk(Archive& archive, Founding& founding) {
    walk_all(archive, founding.run, founding.planner, founding.batch, founding.strict, founding.founder);
    walk_list(archive, founding.institutions, max_institutions, Walk{});
    walk_list(archive, founding.tokens, max_tokens, Walk{});
}
template <class Archive>
void walk(Archive& archive, SampleRange& range) {
    walk_all(archive, range.begin, range.end);
}
template <class Archive>
void walk(Archive& archive, Share& share) {
    walk(archive, share.node);
    walk_list(archive, share.ranges, max_members, Walk{});
}
template <class Archive>
void walk(Archive& archive, View& view) {
    walk_all(archive, view.name, view.parent, view.founder, view.run, view.planner, view.batch, view.strict, view.fork,
             view.epoch, view.first_step);
    walk_optional(archive, view.settlement, Walk{});
    walk_list(archive, view.members, max_members, Walk{});
    walk_list(archive, view.links, max_links, Walk{});
    walk_list(archive, view.institutions, max_institutions, Walk{});
    walk_list(archive, view.revoked, max_revoked, Walk{});
    walk_list(archive, view.tokens, max_tokens, Walk{});
    walk_list(archive, view.meetings, max_meetings, Walk{});
    walk_list(archive, view.redo, max_members, Walk{});
    walk(archive, view.redo_known);
}

template <class Archive>
void walk(Archive& archive, Stamp& stamp) {
    walk_all(archive, stamp.author, stamp.attempt, stamp.signature);
}
template <class Archive>
void walk(Archive& archive, Hello& hello) {
    walk_all(archive, hello.version, hello.member, hello.role, hello.run, hello.settings, hello.founder, hello.view,
             hello.epoch);
}
template <class Archive>
void walk(Archive& archive, Heartbeat& beat) {
    walk_all(archive, beat.incarnation, beat.role, beat.epoch, beat.view, beat.applied, beat.sent_at, beat.echo,
             beat.held);
}
template <class Archive>
void walk(Archive& archive, Bye& bye) {
    walk(archive, bye.reason);
}
template <class Archive>
void walk(Archive& archive, Ask& ask) {
    walk_all(archive, ask.run, ask.newcomer);
}
template <class Archive>
void walk(Archive& archive, Candidate& candidate) {
    walk_all(archive, candidate.node, candidate.address);
}
template <class Archive>
void walk(Archive& archive, Answer& answer) {
    walk(archive, answer.refusal);
    walk_list(archive, answer.candidates, max_candidates, Walk{});
}
template <class Archive>
void walk(Archive& archive, LinkOffer& offer) {
    walk(archive, offer.from);
}
template <class Archive>
void walk(Archive& archive, LinkConsent& consent) {
    walk_all(archive, consent.offerer, consent.epoch, consent.refusal, consent.stamp);
}
template <class Archive>
void walk(Archive& archive, CatchUp& message) {
    walk_all(archive, message.view, message.epoch);
}
template <class Archive>
void walk(Archive& archive, Ancestor& ancestor) {
    walk_all(archive, ancestor.view, ancestor.epoch, ancestor.fork);
}
template <class Archive>
void walk(Archive& archive, LineSummary& summary) {
    walk(archive, summary.founder);
    walk_list(archive, summary.ancestors, max_ancestors, Walk{});
    walk_list(archive, summary.meetings, max_meetings, Walk{});
    walk(archive, summary.stamp);
}
template <class Archive>
void walk(Archive& archive, Request& request) {
    walk_enum(archive, request.kind, RequestKind::broken);
    walk_all(archive, request.subject, request.newcomer);
    walk_list(archive, request.consents, max_consents, Walk{});
    walk_list(archive, request.claims, max_consents, Walk{});
    walk_all(archive, request.link, request.figures, request.reason, request.name);
    walk_blob(archive, request.revocation, max_credential_bytes);
    walk_all(archive, request.value, request.epoch, request.stamp);
}
template <class Archive>
void walk(Archive& archive, Prepare& prepare) {
    walk_all(archive, prepare.parent, prepare.epoch, prepare.ballot, prepare.flush, prepare.stamp);
}
template <class Archive>
void walk(Archive& archive, Accept& accept) {
    walk_all(archive, accept.ballot, accept.delta, accept.stamp);
}
template <class Archive>
void walk(Archive& archive, Decide& decide) {
    walk_all(archive, decide.ballot, decide.delta, decide.stamp);
}
template <class Archive>
void walk(Archive& archive, Accepted& accepted) {
    walk_all(archive, accepted.parent, accepted.epoch, accepted.ballot, accepted.value, accepted.promised,
             accepted.started);
    walk_list(archive, accepted.claims, max_consents, Walk{});
    walk_all(archive, accepted.answers, accepted.stamp);
}
template <class Archive>
void walk(Archive& archive, Proof& proof) {
    walk_blob(archive, proof.first, max_message_bytes);
    walk_blob(archive, proof.second, max_message_bytes);
    walk(archive, proof.stamp);
}
template <class Archive>
void walk(Archive& archive, DownLink& down) {
    walk_all(archive, down.peer, down.reason);
}
template <class Archive>
void walk(Archive& archive, Report& report) {
    walk_all(archive, report.role, report.member, report.applied, report.lineage, report.stopped, report.started);
    walk_list(archive, report.down, max_links_per_member, Walk{});
    if (report.role == Role::returning) walk(archive, report.address);
}
template <class Archive>
void walk(Archive& archive, Vote& vote) {
    walk_all(archive, vote.ballot, vote.delta);
}
template <class Archive>
void walk(Archive& archive, Promise& promise) {
    walk_all(archive, promise.parent, promise.epoch, promise.ballot);
    walk_optional(archive, promise.accepted, Walk{});
    walk_all(archive, promise.report, promise.answers, promise.stamp);
}
template <class Archive>
void walk(Archive& archive, History& history) {
    walk_list(archive, history.decisions, max_decisions, Walk{});
    walk_optional(archive, history.view, [](auto& inner, auto& blob) { walk_blob(inner, blob, max_message_bytes); });
    walk_list(archive, history.ancestors, max_ancestors, Walk{});
    walk_list(archive, history.lost, max_candidates, Walk{});
    walk(archive, history.stamp);
}

template <class Archive>
void walk(Archive& archive, DiskRecord& record) {
    std::vector<std::uint8_t> view;
    if constexpr (!Archive::reading) view = encode(*record.view);
    walk_blob(archive, view, max_message_bytes);
    if constexpr (Archive::reading) {
        if (!archive.good()) return;
        Result<ViewPtr> decoded = decode_view(view);
        if (!decoded) return archive.fail();
        record.view = std::move(*decoded);
    }
    walk_list(archive, record.ancestors, max_ancestors, Walk{});
    walk(archive, record.promised);
    walk_optional(archive, record.accepted, Walk{});
    walk_list(archive, record.lost, max_members, Walk{});
}

template <class T>
std::vector<std::uint8_t> encoded(const T& value) {
    Writer writer;
    T copy = value;  // the walk is shared with the reader, so it takes its fields mutable
    walk(writer, copy);
    return std::move(writer.bytes);
}

std::vector<std::uint8_t> encoded_body(Body& body) {
    Writer writer;
    writer.bytes.reserve(128);
    auto kind = static_cast<std::uint8_t>(body.index());
    walk(writer, kind);
    std::visit([&](auto& content) { walk(writer, content); }, body);
    return std::move(writer.bytes);
}

template <std::size_t I = 0>
bool read_body(Reader& reader, std::uint8_t kind, Body& body) {
    if constexpr (I == std::variant_size_v<Body>) {
        return false;
    } else {
        if (kind != I) return read_body<I + 1>(reader, kind, body);
        walk(reader, body.emplace<I>());
        return true;
    }
}

template <class T>
concept Stamped = requires(T message) { message.stamp; };

std::span<const std::uint8_t> signed_part(std::span<const std::uint8_t> bytes) {
    return bytes.first(bytes.size() - sizeof(Signature));
}

std::uint64_t hash_of(const std::vector<std::uint8_t>& bytes) {
    return xxh3(std::as_bytes(std::span(bytes)));
}

}  // namespace

MessagePtr make_message(Body body) {
    auto message = std::make_shared<Message>();
    message->body = std::move(body);
    message->bytes = encoded_body(message->body);
    message->hash = hash_of(message->bytes);
    return message;
}

MessagePtr make_signed(Body body, MemberId author, std::uint32_t attempt, const Signer& signer) {
    auto message = std::make_shared<Message>();
    message->body = std::move(body);
    std::visit(
        [&](auto& content) {
            if constexpr (Stamped<decltype(content)>) content.stamp = {.author = author, .attempt = attempt};
        },
        message->body);
    message->bytes = encoded_body(message->body);
    const Signature signature = signer.sign(signed_part(message->bytes));
    std::ranges::copy(signature, message->bytes.end() - sizeof(Signature));
    std::visit(
        [&](auto& content) {
            if constexpr (Stamped<decltype(content)>) content.stamp.signature = signature;
        },
        message->body);
    message->hash = hash_of(message->bytes);
    return message;
}

Result<MessagePtr> decode_message(std::span<const std::uint8_t> bytes) {
    if (bytes.size() > max_message_bytes) return Error{"a message is larger than the limit"};
    Reader reader(bytes);
    std::uint8_t kind = 0;
    walk(reader, kind);
    auto message = std::make_shared<Message>();
    if (!reader.good() || !read_body(reader, kind, message->body)) return Error{"a message of an unknown kind"};
    if (!reader.good()) return Error{"a message ends early or holds a value that does not exist"};
    if (reader.left() != 0) return Error{"a message is followed by bytes that belong to none"};
    message->bytes.assign(bytes.begin(), bytes.end());
    message->hash = hash_of(message->bytes);
    return MessagePtr(message);
}

const Stamp* stamp_of(const Body& body) {
    return std::visit(
        [](const auto& content) -> const Stamp* {
            if constexpr (Stamped<decltype(content)>) return &content.stamp;
            return nullptr;
        },
        body);
}

bool signature_fits(const Message& message, const Signer& signer) {
    const Stamp* stamp = stamp_of(message.body);
    return stamp != nullptr && signer.verify(stamp->author.node, signed_part(message.bytes), stamp->signature);
}

bool signature_fits(const LinkConsent& consent, const Signer& signer) {
    return signature_fits(*make_message(consent), signer);
}

std::string_view kind_of(const Body& body) {
    constexpr std::array<std::string_view, std::variant_size_v<Body>> kinds = {
        "hello",        "heartbeat", "bye",     "ask",    "answer", "link-offer", "link-consent", "catch-up", "history",
        "line-summary", "request",   "prepare", "accept", "decide", "promise",    "accepted",     "proof"};
    return kinds[body.index()];
}

std::vector<std::uint8_t> encode(const Delta& delta) {
    return encoded(delta);
}
std::vector<std::uint8_t> encode(const View& view) {
    return encoded(view);
}
std::vector<std::uint8_t> encode(const Founding& founding) {
    return encoded(founding);
}

Result<ViewPtr> decode_view(std::span<const std::uint8_t> bytes) {
    Reader reader(bytes);
    auto view = std::make_shared<View>();
    walk(reader, *view);
    if (!reader.good() || reader.left() != 0) return Error{"a view is cut short or holds a value that does not exist"};
    const auto ascending = [](const auto& list, auto key) {
        return std::ranges::adjacent_find(list, std::ranges::greater_equal{}, key) == list.end();
    };
    if (!ascending(view->members, [](const MemberInfo& member) { return member.id.node; }) ||
        !ascending(view->links, &LinkInfo::id) || !ascending(view->institutions, &Institution::root) ||
        !ascending(view->revoked, std::identity{}) ||
        !ascending(view->tokens, [](const UsedToken& used) { return used.token.id; }))
        return Error{"a view's lists are out of order"};
    complete(*view);
    CHAOS_CHECK(check(*view));
    return ViewPtr(view);
}

std::vector<std::uint8_t> encode(const DiskRecord& record) {
    return encoded(record);
}

Result<DiskRecord> decode_disk_record(std::span<const std::uint8_t> bytes) {
    Reader reader(bytes);
    DiskRecord record;
    walk(reader, record);
    if (!reader.good() || reader.left() != 0) return Error{"a record of votes is cut short or damaged"};
    return record;
}

}  // namespace chaos::cluster
