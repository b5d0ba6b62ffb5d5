// A village: a handful of Members joined by perfect links in virtual time, with steps that complete when everybody who
// takes part has begun them. Enough to watch the protocol do its work; src/sim is where it is tormented.
#pragma once

#include "cluster/member.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace chaos::cluster {

// Credentials and revocations as PlainSigner reads them: what is said, and a hash in place of the institution's
// signature.
inline std::vector<std::uint8_t> paper(char kind, const Name& institution, std::initializer_list<std::uint64_t> words) {
    std::vector<std::uint8_t> bytes;
    bytes.push_back(static_cast<std::uint8_t>(kind));
    for (const std::uint8_t byte : institution) bytes.push_back(byte);
    const auto add = [&](std::uint64_t word) {
        for (unsigned i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
    };
    for (const std::uint64_t word : words) add(word);
    add(xxh3(std::as_bytes(std::span(bytes))));
    return bytes;
}
inline std::vector<std::uint8_t> certificate(const Name& institution, NodeId node) {
    return paper('n', institution, {node.high, node.low});
}
inline std::vector<std::uint8_t> redeemed(const Name& institution, const JoinToken& token, NodeId node) {
    return paper('t', institution,
                 {node.high, node.low, token.id.high, token.id.low, static_cast<std::uint64_t>(token.not_after)});
}
inline std::vector<std::uint8_t> revocation_of(NodeId subject, const Name& by) {
    return paper('r', by, {subject.high, subject.low});
}

class PlainSigner : public Signer {
public:
    explicit PlainSigner(NodeId self) : self_(self) {}
    Signature sign(std::span<const std::uint8_t> bytes) const override { return of(self_, bytes); }
    bool verify(NodeId author, std::span<const std::uint8_t> bytes, const Signature& signature) const override {
        return of(author, bytes) == signature;
    }
    Result<Vouched> vouched(NodeId node, std::span<const std::uint8_t> credential) const override {
        Name institution{};
        if (credential.size() > institution.size())
            std::copy_n(credential.begin() + 1, institution.size(), institution.begin());
        JoinToken token{.id = {.high = word(credential, 2), .low = word(credential, 3)},
                        .not_after = static_cast<std::int64_t>(word(credential, 4))};
        const NodeId named{.high = word(credential, 0), .low = word(credential, 1)};
        if (std::ranges::equal(credential, certificate(institution, named))) {
            if (named != node) return Error{"its credential is for another node"};
            return Vouched{.institution = institution};
        }
        if (std::ranges::equal(credential, redeemed(institution, token, named))) {
            if (named != node) return Error{"its credential is for another node"};
            return Vouched{.institution = institution, .token = token};
        }
        return Error{"its credential is not signed by the institution that it names"};
    }
    Result<Revocation> revocation(std::span<const std::uint8_t> bytes) const override {
        Revocation read{.subject = {.high = word(bytes, 0), .low = word(bytes, 1)}, .by = {}};
        if (bytes.size() > read.by.size()) std::copy_n(bytes.begin() + 1, read.by.size(), read.by.begin());
        if (!std::ranges::equal(bytes, revocation_of(read.subject, read.by)))
            return Error{"the revocation is not signed by the institution that it names"};
        return read;
    }
    static Signature of(NodeId node, std::span<const std::uint8_t> bytes) {
        Signature signature{};
        const std::uint64_t hash = xxh3(std::as_bytes(bytes)) ^ (node.high * 0x9e3779b97f4a7c15U);
        for (unsigned i = 0; i < 8; ++i) signature[i] = static_cast<std::uint8_t>(hash >> (8 * i));
        return signature;
    }

private:
    // Of a paper; 0 where it is too short.
    static std::uint64_t word(std::span<const std::uint8_t> bytes, std::size_t index) {
        const std::size_t at = 1 + sizeof(Name) + 8 * index;
        std::uint64_t value = 0;
        for (unsigned i = 0; i < 8 && at + i < bytes.size(); ++i) value |= std::uint64_t{bytes[at + i]} << (8 * i);
        return value;
    }
    NodeId self_;
};

class Village {
public:
    struct House {
        NodeId id;
        std::unique_ptr<PlainSigner> signer;
        std::unique_ptr<Member> member;
        std::optional<DiskRecord> disk;
        std::optional<Checkpoint> checkpoint;
        bool up = true;
        bool frozen = false;
        bool left = false;
        std::optional<std::pair<std::uint64_t, ViewPtr>> running;
        std::optional<std::uint64_t> awaits;  // the step before the first one it was let in for
        std::vector<std::string> notes;
        std::vector<std::string> excluded;
        std::vector<LinkRefused> refused_links;
        std::uint64_t life = 0;
        std::vector<std::uint8_t> credential;
        std::string address;
        Nanoseconds tick_at = 0;  // of the next one that is on its way
    };

    Nanoseconds delay = 5 * millisecond;
    Nanoseconds step_time = 100 * millisecond;
    std::uint32_t speed = 10;  // that members know of when they begin
    Nanoseconds now = 0;
    Options options;
    bool strict = false;
    std::set<LinkId> cuts;
    std::function<void(NodeId from, const Send&)> overhear = [](NodeId, const Send&) {};

    static NodeId node(unsigned number) { return {.high = std::uint64_t{number + 1} << 56, .low = number + 1}; }
    static Name institution() { return sha256("institution"); }

    House& house(unsigned number) { return houses.at(node(number)); }
    Member& member(unsigned number) { return *house(number).member; }

    // A house whose node has never run, or has lost all it knew.
    void add(unsigned number) {
        House& fresh = houses[node(number)];
        fresh.id = node(number);
        fresh.up = true;
        fresh.disk.reset();
        fresh.checkpoint.reset();
        ++fresh.life;
        fresh.signer = std::make_unique<PlainSigner>(fresh.id);
        if (fresh.credential.empty()) fresh.credential = certificate(institution(), fresh.id);
        begin_life(fresh);
    }
    // The credential of a house that is yet to be built.
    void give(unsigned number, std::vector<std::uint8_t> credential) {
        houses[node(number)].credential = std::move(credential);
    }
    [[nodiscard]] Founding founding() const {
        Founding founding;
        founding.run = sha256("run");
        founding.batch = 64;
        founding.strict = strict;
        founding.institutions = {{.root = institution()}};
        return founding;
    }
    void found(unsigned number) {
        add(number);
        put(now, node(number), FoundCommand{founding()});
    }
    void join(unsigned number, unsigned contact) {
        add(number);
        put(now, node(number), JoinCommand{{{.node = node(contact), .address = ""}}});
    }
    void tell(unsigned number, Event event) { put(now, node(number), std::move(event)); }

    void crash(unsigned number) {
        House& gone = house(number);
        gone.up = false;
        gone.member.reset();
        gone.running.reset();
        for (auto link = links.begin(); link != links.end();) {
            if (link->touches(gone.id)) {
                put(now + delay, link->other(gone.id), LinkClosed{gone.id});
                link = links.erase(link);
            } else {
                ++link;
            }
        }
    }
    // The connection breaks; nothing keeps the two from making another.
    void sever(unsigned one, unsigned other) {
        if (links.erase(link_between(node(one), node(other))) == 0) return;
        put(now + delay, node(one), LinkClosed{node(other)});
        put(now + delay, node(other), LinkClosed{node(one)});
    }
    void restart(unsigned number, bool disk_kept) {
        House& back = house(number);
        if (!disk_kept) return add(number);
        back.up = true;
        ++back.life;
        begin_life(back);
    }

    // Runs until the condition holds; false after `limit` of virtual time.
    template <class Condition>
    bool until(Condition condition, Nanoseconds limit = 60 * second) {
        const Nanoseconds end = now + limit;
        while (!condition()) {
            if (queue.empty() || queue.begin()->first.first > end) return false;
            auto entry = queue.extract(queue.begin());
            now = entry.key().first;
            deliver(entry.mapped().first, entry.mapped().second);
        }
        return true;
    }
    void pass(Nanoseconds time) {
        put(now + time, NodeId{}, Tick{});
        const Nanoseconds end = now + time;
        until([&] { return now >= end; }, time + second);
    }
    // All of these are active in one view that lists exactly them, and train.
    bool settled(const std::vector<unsigned>& numbers) {
        std::set<Name> views;
        for (const unsigned number : numbers) {
            if (!house(number).up || member(number).role() != Role::active) return false;
            views.insert(member(number).view()->name);
        }
        return views.size() == 1 && member(numbers[0]).view()->members.size() == numbers.size();
    }
    bool advanced(const std::vector<unsigned>& numbers, std::uint64_t to) {
        return std::ranges::all_of(numbers, [&](unsigned number) { return member(number).applied() >= to; });
    }

    // How everybody stands, for a failing test's message.
    [[nodiscard]] std::string story() const {
        std::string text;
        for (const auto& [id, at] : houses) {
            text += brief(id) + ": ";
            if (!at.member) {
                text += "down\n";
                continue;
            }
            const ViewPtr view = at.member->view();
            text += at.member->why() + "; applied " + std::to_string(at.member->applied());
            if (view) text += ", epoch " + std::to_string(view->epoch) + " of " + std::to_string(view->members.size());
            for (const std::string& said : at.notes) text += "\n    " + said;
            text += "\n";
        }
        return text;
    }

    std::map<NodeId, House> houses;
    std::set<LinkId> links;

private:
    std::map<std::pair<Nanoseconds, std::uint64_t>, std::pair<NodeId, Event>> queue;
    std::uint64_t order = 0;
    std::map<std::pair<std::uint64_t, Name>, std::set<NodeId>> begun;
    std::map<std::uint64_t, Nanoseconds> done_at;  // steps that were begun by all

    void put(Nanoseconds at, NodeId to, Event event) {
        queue.emplace(std::pair(at, ++order), std::pair(to, std::move(event)));
    }

    void begin_life(House& at) {
        Identity identity;
        identity.member = {.node = at.id, .incarnation = at.life * 1000};
        identity.run = sha256("run");
        identity.credential = at.credential;
        identity.address = at.address;
        identity.speed = speed;
        at.running.reset();
        at.member = std::make_unique<Member>(options, identity, *at.signer, at.disk, at.checkpoint, now);
        at.tick_at = now;
        put(now, at.id, Tick{});
    }

    bool cut(NodeId x, NodeId y) const { return cuts.contains(link_between(x, y)); }

    void deliver(NodeId to, const Event& event) {
        const auto at = houses.find(to);
        if (at == houses.end() || !at->second.up || !at->second.member) return;
        House& target = at->second;
        if (target.frozen) return put(now + 10 * millisecond, to, event);
        if (const auto* received = std::get_if<Received>(&event);
            received != nullptr && !links.contains(link_between(to, received->from)))
            return;
        if (const auto* done = std::get_if<Applied>(&event)) {
            if (!target.running || target.running->first != done->step) return;
            target.running.reset();
            target.checkpoint = Checkpoint{.applied = done->step, .lineage = sha256(std::to_string(done->step))};
        }
        for (Action& action : target.member->step(event, now)) carry_out(target, action);
        const Nanoseconds wake = std::max(target.member->wake_at(), now + 1);
        if (target.tick_at > now && target.tick_at <= wake) return;
        target.tick_at = wake;
        put(wake, to, Tick{});
    }

    // A newcomer applies a step right after the others.
    void follow(House& house) {
        put(std::max(now, done_at.at(*house.awaits)) + 2 * delay, house.id, Applied{*house.awaits});
        house.awaits.reset();
    }

    void carry_out(House& from, Action& action) {
        if (auto* send = std::get_if<Send>(&action)) {
            overhear(from.id, *send);
            if (links.contains(link_between(from.id, send->to)) && !cut(from.id, send->to))
                put(now + delay, send->to, Received{.from = from.id, .message = send->message});
        } else if (auto* dial = std::get_if<Dial>(&action)) {
            const auto peer = houses.find(dial->peer);
            if (peer == houses.end() || !peer->second.up || peer->second.left || cut(from.id, dial->peer)) {
                put(now + second, from.id, DialFailed{dial->peer});
            } else {
                links.insert(link_between(from.id, dial->peer));
                put(now + delay, dial->peer, LinkUp{from.id});
                put(now + 2 * delay, from.id, LinkUp{dial->peer});
            }
        } else if (auto* close = std::get_if<CloseLink>(&action)) {
            links.erase(link_between(from.id, close->peer));
            if (!cut(from.id, close->peer)) put(now + delay, close->peer, LinkClosed{from.id});
        } else if (auto* persist = std::get_if<Persist>(&action)) {
            from.disk = std::move(persist->record);
        } else if (auto* start = std::get_if<StartStep>(&action)) {
            from.running = {start->step, start->view};
            auto& who = begun[{start->step, start->view->name}];
            who.insert(from.id);
            if (who.size() == start->view->active_count()) {
                for (const NodeId member : who) put(now + step_time, member, Applied{start->step});
                done_at[start->step] = now + step_time;
                for (auto& [id, house] : houses)
                    if (house.awaits == start->step) follow(house);
            }
        } else if (std::holds_alternative<StopStep>(action)) {
            from.running.reset();
        } else if (auto* take = std::get_if<TakeResult>(&action)) {
            from.running = {take->step, nullptr};
            put(now + 2 * delay, from.id, Applied{take->step});
        } else if (auto* sync = std::get_if<BeginSync>(&action)) {
            const std::uint64_t applied = std::max(sync->view->first_step, from.member->applied());
            put(now + 20 * delay, from.id, Synced{.applied = applied, .root = {}});
        } else if (auto* activated = std::get_if<Activated>(&action)) {
            if (activated->first_step > 0) {
                from.running = {activated->first_step - 1, nullptr};
                from.awaits = activated->first_step - 1;
                if (done_at.contains(activated->first_step - 1)) follow(from);
            }
        } else if (auto* excluded = std::get_if<Excluded>(&action)) {
            from.excluded.push_back(excluded->why);
            from.running.reset();
        } else if (std::holds_alternative<Left>(action)) {
            from.left = true;
        } else if (auto* refused = std::get_if<LinkRefused>(&action)) {
            from.refused_links.push_back(*refused);
        } else if (auto* text = std::get_if<Note>(&action)) {
            from.notes.push_back(text->text);
        }
    }
};

// A village of `count` houses, all active.
inline void populate(Village& village, unsigned count) {
    village.found(0);
    std::vector<unsigned> all{0};
    for (unsigned i = 1; i < count; ++i) {
        village.join(i, 0);
        all.push_back(i);
    }
    ASSERT_TRUE(village.until([&] { return village.settled(all); })) << village.story();
    const std::uint64_t reached = village.member(0).applied();
    ASSERT_TRUE(village.until([&] { return village.advanced(all, reached + 3); })) << village.story();
}

}  // namespace chaos::cluster
