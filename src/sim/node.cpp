#include "sim/node.h"

#include "base/assert.h"
#include "base/random.h"
#include "sim/world.h"

#include <algorithm>
#include <array>

namespace chaos::sim {

using cluster::NodeId;

namespace {

constexpr std::size_t checkpoints_kept = 3;
constexpr Time longest_sleep = 10 * second;
constexpr std::uint8_t foreign_institution = 9;  // never admitted

}  // namespace

Node::Node(World& world, Host host)
    : world_(world), host_(host), id_(node_of(world.setup().seed, host)), signer_(world.setup().seed, host) {
    const std::uint64_t bits = random_bits(world.setup().seed, 0x636c6f636b, host);
    clock =
        Clock(0, static_cast<Time>(bits % 1'000'000) * millisecond, static_cast<std::int64_t>(bits >> 32) % 100 - 50);
}

void Node::boot(bool founds) {
    CHAOS_ASSERT(!running());
    const Setup& setup = world_.setup();
    ++life_;
    started = true;
    silent = frozen = asked_to_leave = false;
    incarnation_ = std::max(incarnation_ + 1, life_ * incarnations_per_life);
    inbox_.clear();
    tick_at_ = -1;
    stable_seen_ = 0;
    stopped_at = -1;
    busy_until = 0;
    trainer_.emplace(*this, world_.toy(), world_.planner(host_),
                     TrainerSettings{.speed = setup.speeds[host_],
                                     .checkpoint_every = 16,
                                     .checkpoint_offset = std::uint64_t{host_} * 5,
                                     .brittle = setup.brittle});
    trainer_->set_slowness(slowness);
    trainer_->donor().lie(lies);
    std::optional<cluster::Checkpoint> newest;
    if (!disk.checkpoints.empty())
        newest =
            cluster::Checkpoint{.applied = disk.checkpoints.back().applied, .lineage = disk.checkpoints.back().lineage};
    const cluster::Identity identity{.member = {.node = id_, .incarnation = incarnation_},
                                     .run = world_.toy().name,
                                     .credential = credential(),
                                     .address = "n" + std::to_string(host_),
                                     .speed = setup.speeds[host_]};
    member_ = std::make_unique<cluster::Member>(setup.options, identity, signer_, disk.record, newest,
                                                clock.read(world_.now()));
    if (founds)
        feed(cluster::FoundCommand{world_.founding()});
    else
        feed(cluster::JoinCommand{world_.contacts_for(host_)});
}

// What it shows to be let in. An impostor says of itself what would let it in.
std::vector<std::uint8_t> Node::credential() {
    const Setup& setup = world_.setup();
    const std::uint8_t institution = setup.institutions[host_];
    const Impostor impostor = setup.impostors[host_];
    if (impostor != Impostor::none && impostor != Impostor::replay)
        signer_.pretend({.institution = institution_root(institution), .token = {}});
    switch (impostor) {
        case Impostor::foreign:
            return issue_credential(setup.seed, foreign_institution, host_, 0);
        case Impostor::stolen:
            return issue_credential(setup.seed, setup.institutions[0], 0, setup.tokens[0]);
        case Impostor::forged: {
            std::vector<std::uint8_t> bytes = issue_credential(setup.seed, institution, host_, 0);
            bytes.back() ^= 1;
            return bytes;
        }
        case Impostor::none:
        case Impostor::replay:
            break;
    }
    return issue_credential(setup.seed, institution, host_, setup.tokens[host_]);
}

void Node::end() {
    member_.reset();
    trainer_.reset();
    inbox_.clear();
    dials.clear();
    frozen = false;
    if (stopped_at >= 0) stalled += now() - stopped_at;
    stopped_at = -1;
}

void Node::feed(cluster::Event event) {
    inbox_.push_back(std::move(event));
    if (!draining_) drain();
}

// Events that actions cause are handled after these actions, as a loop would.
void Node::drain() {
    draining_ = true;
    while (!inbox_.empty()) {
        const cluster::Event event = std::move(inbox_.front());
        inbox_.pop_front();
        const Time reading = clock.read(now());
        cluster::Actions actions = member_->step(event, reading);
        for (cluster::Action& action : actions) carry_out(action);
        if (const std::uint64_t count = member_->stable(); count != stable_seen_) {
            stable_seen_ = count;
            trainer_->on_stable(count);
        }
    }
    draining_ = false;
    incarnation_ = std::max(incarnation_, member_->id().incarnation);
    schedule_tick();
}

void Node::schedule_tick() {
    const Time wanted = clock.when(std::min(member_->wake_at(), clock.read(now()) + longest_sleep));
    const Time at = std::max(wanted, now() + microsecond);
    if (tick_at_ >= 0 && tick_at_ <= at) return;
    tick_at_ = at;
    world_.tick(host_, at);
}

void Node::on_tick() {
    if (tick_at_ < 0 || now() < tick_at_) return;  // an earlier one was asked for later
    tick_at_ = -1;
    if (member_->wake_at() <= clock.read(now()))
        feed(cluster::Tick{});
    else
        schedule_tick();
}

void Node::reschedule() {
    tick_at_ = -1;
    schedule_tick();
}

void Node::on_bulk(NodeId from, const BulkPtr& bulk) {
    trainer_->on_bulk(from, bulk);
}

void Node::on_timer(TrainerTimer timer, std::uint64_t tag) {
    trainer_->on_timer(timer, tag);
}

void Node::carry_out(cluster::Action& action) {
    std::visit(
        [&](auto& what) {
            using T = std::decay_t<decltype(what)>;
            if constexpr (std::is_same_v<T, cluster::Send>) {
                send_control(what);
            } else if constexpr (std::is_same_v<T, cluster::Dial>) {
                world_.dial(host_, host_of(what.peer));
            } else if constexpr (std::is_same_v<T, cluster::CloseLink>) {
                world_.close(host_, host_of(what.peer));
                trainer_->on_link_closed(what.peer);
            } else if constexpr (std::is_same_v<T, cluster::Persist>) {
                check_vote(what.record);
                disk.record = std::move(what.record);
            } else if constexpr (std::is_same_v<T, cluster::Adopted>) {
                world_.adopted(host_, what.view);
                trainer_->adopted(what.view);
            } else if constexpr (std::is_same_v<T, cluster::StartStep>) {
                if (stopped_at >= 0) stalled += now() - stopped_at;
                stopped_at = -1;
                check_promise(what.step);
                trainer_->start_step(what.step, what.view);
            } else if constexpr (std::is_same_v<T, cluster::StopStep>) {
                if (stopped_at < 0) stopped_at = now();
                trainer_->stop_step();
            } else if constexpr (std::is_same_v<T, cluster::TakeResult>) {
                if (world_.tracing()) note("takes the result of step " + std::to_string(what.step));
                trainer_->take_result(what.step);
            } else if constexpr (std::is_same_v<T, cluster::Restore>) {
                if (world_.tracing()) note("restores its checkpoint of step " + std::to_string(what.applied));
                trainer_->restore(what.applied, what.lineage);
            } else if constexpr (std::is_same_v<T, cluster::BeginSync>) {
                if (world_.tracing()) note("begins to pull the state");
                trainer_->begin_sync(what.view);
            } else if constexpr (std::is_same_v<T, cluster::Activated>) {
                if (world_.tracing()) note("is active from step " + std::to_string(what.first_step));
                trainer_->activated(what.first_step, what.view);
            } else if constexpr (std::is_same_v<T, cluster::Excluded>) {
                if (world_.tracing()) note("is out: " + what.why);
                trainer_->excluded();
                if (what.final) finished = true;
            } else if constexpr (std::is_same_v<T, cluster::Left>) {
                if (world_.tracing()) note("has left");
                finished = true;
            } else {
                note(std::move(what.text));
            }
        },
        action);
}

// A voter never goes back: not on the ballot it promised, nor on its vote; not even by a restart.
void Node::check_vote(const cluster::DiskRecord& next) {
    if (!disk.record || disk.record->view->name != next.view->name) return;
    if (next.promised < disk.record->promised)
        world_.invariants().fail(host_, "goes back on the ballot that it promised");
    if (disk.record->accepted && !next.accepted) world_.invariants().fail(host_, "forgets its vote");
}

// Who voted for a planned change does not contribute to its steps under the view before.
void Node::check_promise(std::uint64_t step) {
    if (!disk.record || !disk.record->accepted) return;
    const cluster::Delta& delta = disk.record->accepted->delta;
    if (!delta.settlement && delta.first_step <= step)
        world_.invariants().fail(
            host_, "contributes to step " + std::to_string(step) + ", which it promised to leave to the next view");
}

namespace {

// The same message with other content, still under its author's signature; null where there is nothing to forge.
cluster::MessagePtr forged(const cluster::Message& message) {
    cluster::Body body = message.body;
    if (auto* accept = std::get_if<cluster::Accept>(&body)) {
        ++accept->delta.first_step;
    } else if (auto* decide = std::get_if<cluster::Decide>(&body)) {
        ++decide->delta.first_step;
    } else if (auto* request = std::get_if<cluster::Request>(&body)) {
        request->kind = cluster::RequestKind::leave;
        request->subject = request->stamp.author;
    } else if (auto* vote = std::get_if<cluster::Accepted>(&body)) {
        vote->value[1] ^= 0xff;
    } else if (auto* promise = std::get_if<cluster::Promise>(&body)) {
        ++promise->report.applied;
    } else {
        return nullptr;
    }
    return cluster::make_message(std::move(body));
}

}  // namespace

// A liar signs what it likes, but only in its own name.
void Node::send_control(cluster::Send& send) {
    const Host to = host_of(send.to);
    if (lies != 0) {
        const std::uint64_t draw = random_bits(host_ ^ send.message->hash, static_cast<std::uint64_t>(now()), to);
        if (cluster::MessagePtr lie = own_lie(*send.message, draw)) send.message = std::move(lie);
        const bool beats = std::holds_alternative<cluster::Heartbeat>(send.message->body);
        if (beats && (lies & lie_links) != 0 && draw % 4 == 0)
            if (const cluster::MessagePtr request = meddling(draw >> 2)) world_.send(host_, to, request);
        if (beats && (lies & lie_trust) != 0 && draw % 8 == 1)
            if (const cluster::MessagePtr request = false_word(draw >> 3)) world_.send(host_, to, request);
        tell_lies(to, *send.message);
    }
    world_.send(host_, to, send.message);
}

// What it says of itself instead of the truth; null where it has nothing to lie about.
cluster::MessagePtr Node::own_lie(const cluster::Message& message, std::uint64_t draw) {
    const cluster::Stamp* stamp = cluster::stamp_of(message.body);
    const cluster::ViewPtr view = member_->view();
    if (stamp == nullptr || stamp->author != member_->id() || !view) return nullptr;
    if (const auto* vote = std::get_if<cluster::Accepted>(&message.body);
        vote != nullptr && (lies & lie_figures) != 0 && vote->value != cluster::Name{}) {
        constexpr std::size_t most_claims = 6;
        cluster::Accepted wrong = *vote;
        wrong.claims.clear();
        for (const cluster::LinkInfo& link : view->links) {
            const std::uint64_t bits = random_bits(draw, link.id.a.low, link.id.b.low);
            if (wrong.claims.size() == most_claims) break;
            if (!link.id.touches(id_) && bits % 8 != 0) continue;
            // A shift: claims of every size, from nothing to as much as can be said.
            wrong.claims.push_back(
                {.id = link.id,
                 .figures = {.rate_ab = static_cast<std::uint32_t>(bits) >> (bits >> 40) % 32,
                             .rate_ba = static_cast<std::uint32_t>(bits >> 8) >> (bits >> 45) % 32,
                             .delay_us = static_cast<std::uint32_t>(bits >> 16) >> (bits >> 50) % 32}});
        }
        return cluster::make_signed(std::move(wrong), stamp->author, stamp->attempt, signer_);
    }
    if (const auto* promise = std::get_if<cluster::Promise>(&message.body);
        promise != nullptr && (lies & lie_reports) != 0 && promise->report.role == cluster::Role::active) {
        cluster::Promise wrong = *promise;
        switch (draw % 4) {
            case 0:
                ++wrong.report.applied;
                break;
            case 1:
                wrong.report.applied += 1000;
                break;
            case 2:
                wrong.report.started += std::uint64_t{1} << 40;
                break;
            default:
                wrong.report.started = ~std::uint64_t{0};
                break;
        }
        return cluster::make_signed(std::move(wrong), stamp->author, stamp->attempt, signer_);
    }
    return nullptr;
}

// A request that speaks for two others; null where there are none.
cluster::MessagePtr Node::meddling(std::uint64_t draw) {
    const cluster::ViewPtr view = member_->view();
    if (!view || view->links.empty()) return nullptr;
    constexpr std::array kinds = {cluster::RequestKind::disconnect, cluster::RequestKind::link_down,
                                  cluster::RequestKind::link_up, cluster::RequestKind::figures,
                                  cluster::RequestKind::connect};
    cluster::Request request;
    request.kind = kinds[draw % kinds.size()];
    request.link = view->links[(draw >> 8) % view->links.size()].id;
    if (request.kind == cluster::RequestKind::connect)
        request.link =
            cluster::link_between(request.link.a, view->members[(draw >> 32) % view->members.size()].id.node);
    if (request.link.touches(id_)) return nullptr;
    request.reason = cluster::Reason::closed;
    request.figures = {.rate_ab = 1, .rate_ba = 1, .delay_us = static_cast<std::uint32_t>(draw)};
    return cluster::make_signed(std::move(request), member_->id(), static_cast<std::uint32_t>(draw), signer_);
}

// Speaks for an impostor, with a link to it agreed; or for an institution, that it revokes a node. Null: of nobody.
cluster::MessagePtr Node::false_word(std::uint64_t draw) {
    const Setup& setup = world_.setup();
    const cluster::ViewPtr view = member_->view();
    const auto host = static_cast<Host>((draw >> 8) % setup.hosts);
    if (!view || host == host_) return nullptr;
    cluster::Request request;
    request.subject = {.node = node_of(setup.seed, host), .incarnation = 1};
    request.epoch = view->epoch;
    const cluster::Name root = institution_root(setup.institutions[host]);
    if (draw % 2 == 0) {
        request.kind = cluster::RequestKind::revoke_node;
        request.name = root;
        request.revocation = issue_revocation(setup.seed, foreign_institution, request.subject.node);
    } else {
        if (setup.impostors[host] == Impostor::none) return nullptr;
        request.kind = cluster::RequestKind::join;
        request.newcomer.info.id = request.subject;
        request.newcomer.info.institution = root;
        request.newcomer.credential = issue_credential(setup.seed, foreign_institution, host, 0);
        cluster::LinkConsent consent;
        consent.offerer = request.subject;
        consent.epoch = view->epoch;
        request.consents = {
            std::get<cluster::LinkConsent>(cluster::make_signed(std::move(consent), member_->id(), 0, signer_)->body)};
    }
    return cluster::make_signed(std::move(request), member_->id(), static_cast<std::uint32_t>(draw), signer_);
}

void Node::tell_lies(Host to, const cluster::Message& message) {
    const cluster::Stamp* stamp = cluster::stamp_of(message.body);
    if (stamp == nullptr) return;
    const auto* vote = std::get_if<cluster::Accepted>(&message.body);
    if (vote != nullptr && (lies & lie_votes) != 0 && stamp->author == member_->id() &&
        vote->value != cluster::Name{}) {
        ++double_votes;
        cluster::Accepted other = *vote;
        other.value[0] ^= 0xff;
        world_.send(host_, to, cluster::make_signed(other, member_->id(), stamp->attempt + 1, signer_));
    }
    // A forgery is not forged again: it would never end.
    if ((lies & lie_forgeries) != 0 && stamp->author.node != id_ && cluster::signature_fits(message, signer_))
        if (const cluster::MessagePtr forgery = forged(message)) world_.send(host_, to, forgery);
}

// ---- TrainerEdge

Time Node::now() const {
    return world_.now();
}

bool Node::linked(NodeId peer) const {
    return std::any_of(connections.begin(), connections.end(), [&](const auto& c) { return c.first == host_of(peer); });
}

std::vector<NodeId> Node::linked_peers() const {
    std::vector<NodeId> peers;
    peers.reserve(connections.size());
    for (const auto& [peer, connection] : connections) peers.push_back(node_of(world_.setup().seed, peer));
    return peers;
}

void Node::send(NodeId to, BulkPtr bulk) {
    world_.send_bulk(host_, host_of(to), bulk);
}

void Node::wake_after(Time delay, TrainerTimer timer, std::uint64_t tag) {
    world_.wake(host_, now() + delay, timer, tag);
}

void Node::tell(cluster::Event event) {
    feed(std::move(event));
}

std::uint64_t Node::stable() const {
    return member_->stable();
}

cluster::ViewPtr Node::governing(std::uint64_t step) const {
    return member_->governing(step);
}

void Node::keep_checkpoint(const Snapshot& snapshot) {
    disk.checkpoints.push_back(snapshot);
    if (disk.checkpoints.size() > checkpoints_kept) disk.checkpoints.pop_front();
}

const Snapshot* Node::checkpoint(std::uint64_t applied, const Digest& lineage) const {
    for (const Snapshot& kept : disk.checkpoints)
        if (kept.applied == applied && kept.lineage == lineage) return &kept;
    return nullptr;
}

void Node::observe(const AppliedStep& step) {
    world_.applied(host_, step);
}

void Node::observe_synced(std::uint64_t applied, const Digest& lineage, std::uint64_t state_hash) {
    if (world_.tracing()) note("has the whole state of step " + std::to_string(applied));
    world_.invariants().synced(host_, lineage, state_hash);
}

void Node::note(std::string text) {
    if (world_.tracing()) world_.trace(host_, text);
}

void Node::broken(std::string text) {
    world_.invariants().fail(host_, text);
}

}  // namespace chaos::sim
