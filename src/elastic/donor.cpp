#include "elastic/donor.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace chaos::elastic {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t least_kept_results = 4;
constexpr std::size_t most_kept_results = 256;
constexpr std::size_t kept_result_bytes = 64ULL << 20;
constexpr std::size_t kept_hashes = 4;
constexpr std::size_t max_wishes = 65536;               // of all joiners
constexpr std::size_t max_wishes_of_each = 16384;       // of one
constexpr std::uint64_t max_given_bytes = 64ULL << 20;  // of shards on their way to one joiner; likewise of parts
constexpr std::uint64_t most_steps_ahead = 8;           // of this node's state; a joiner is a few ahead at most
constexpr unsigned roots_per_ask = 16;
constexpr std::chrono::milliseconds most_pause{5 * 60 * 1000};
constexpr std::chrono::milliseconds pause_slack{5000};
constexpr double pause_margin = 2.0;                // on what the whole state takes
constexpr std::chrono::seconds pause_patience{10};  // without being asked for anything
constexpr std::chrono::milliseconds pause_look{500};
constexpr unsigned most_pauses = 3;
constexpr std::chrono::hours pauses_count_for{1};

std::size_t kept_results_of(const Trainer& trainer) {
    return std::clamp(kept_result_bytes / (trainer.result_shape().floats() * sizeof(float)), least_kept_results,
                      most_kept_results);
}

}  // namespace

Donor::Donor(asio::io_context& loop, ComputeThread& thread, Steps& steps, Trainer& trainer, const state::Shards& shards,
             std::function<void(const std::string& text)> note)
    : loop_(loop),
      thread_(thread),
      steps_(steps),
      trainer_(trainer),
      shards_(shards),
      kept_results_(kept_results_of(trainer)),
      note_(std::move(note)),
      pause_timer_(loop) {}

Donor::~Donor() {
    *alive_ = false;
}

// From the view that governed the last step to the youngest: who leaves takes part in the steps before that, may have
// yet to follow to the first of them, and gives what others lack after the last.
bool Donor::some_view(const std::function<bool(const cluster::View&)>& says) const {
    ViewPtr view = member_->core().view();
    while (view != nullptr) {
        if (says(*view)) return true;
        if (view->first_step < steps_.committed() || view->first_step == 0) return false;
        view = member_->core().governing(view->first_step - 1);
    }
    return false;
}

bool Donor::is_member(NodeId node) const {
    return some_view([node](const cluster::View& view) { return view.find(node) != nullptr; });
}

bool Donor::is_active(NodeId node) const {
    return some_view([node](const cluster::View& view) { return view.is_active(node); });
}

bool Donor::may_ask(NodeId node) const {
    return gives_ && is_member(node) && is_active(member_->id());
}

bool Donor::may_have(NodeId node, std::uint64_t applied) const {
    return applied <= member_->core().stable() || is_active(node);
}

void Donor::send(NodeId to, const wire::Work& message) {
    (void)member_->links().send_work(to, bytes_of(message));  // no link: it asks again, or somebody else
}

std::size_t Donor::wishes_of(NodeId node) const {
    return static_cast<std::size_t>(std::ranges::count(shard_wishes_, node, &ShardWish::from) +
                                    std::ranges::count(part_wishes_, node, &PartWish::from));
}

bool Donor::has_room_for_wish_of(NodeId node) const {
    const std::size_t all = shard_wishes_.size() + part_wishes_.size();
    return all < max_wishes_of_each || (all < max_wishes && wishes_of(node) < max_wishes_of_each);
}

std::shared_ptr<Donor::Given> Donor::given_to(NodeId node) {
    std::shared_ptr<Given>& given = given_[node];
    if (given == nullptr) given = std::make_shared<Given>();
    return given;
}

// ---- shards

void Donor::received(NodeId from, const wire::ShardAsk& ask) {
    const state::ShardSpan span{.first = ask.first(), .count = ask.count()};
    if (pause_ && pause_->newcomer == from) pause_->asked_at = Clock::now();
    if (may_ask(from) && shards_.fits(span) && has_room_for_wish_of(from)) {
        shard_wishes_.push_back({.from = from, .transfer = ask.transfer(), .span = span});
        return serve();
    }
    refuse(from, ask.transfer());
}

void Donor::refuse(NodeId from, std::uint64_t transfer) {
    wire::Work message;
    message.mutable_shard_answer()->set_transfer(transfer);
    message.mutable_shard_answer()->set_absent(true);
    send(from, message);
}

// In turn, as long as the state stays as it is.
void Donor::serve() {
    std::size_t waiting = shard_wishes_.size();
    while (waiting-- > 0 && thread_.may_read()) {
        const ShardWish wish = shard_wishes_.front();
        shard_wishes_.pop_front();
        if (!may_ask(wish.from)) {
            refuse(wish.from, wish.transfer);
            continue;
        }
        const std::uint64_t given_bytes = given_to(wish.from)->shard_bytes;
        const std::uint64_t bytes = shards_.floats(wish.span) * sizeof(float);
        if (given_bytes > 0 && given_bytes + bytes > max_given_bytes) {
            shard_wishes_.push_back(wish);  // until some of that has left
            continue;
        }
        give_shards(wish);
    }
    if (!watchers_.empty()) hash_state();
}

void Donor::give_shards(const ShardWish& wish) {
    const StateLabel label = steps_.label();
    const std::size_t floats = shards_.floats(wish.span);
    const std::uint64_t bytes = floats * sizeof(float);
    const std::shared_ptr<Given> given = given_to(wish.from);
    given->shard_bytes += bytes;
    // Let go in the loop once it has left, or the link is gone.
    const std::shared_ptr<float[]> copy(new float[floats], [given, bytes, this, alive = alive_](const float* memory) {
        delete[] memory;
        given->shard_bytes -= bytes;
        if (*alive && !shard_wishes_.empty()) serve();
    });
    thread_.read([this, span = wish.span, copy,
                  floats] { shards_.copy_out(trainer_.engine().arena(), span, {copy.get(), floats}); },
                 [this, wish, label, copy, floats, alive = alive_] {
                     if (!*alive) return;
                     wire::Work message;
                     wire::ShardAnswer& answer = *message.mutable_shard_answer();
                     answer.set_transfer(wish.transfer);
                     answer.set_applied(label.applied);
                     answer.set_lineage(to_wire(label.lineage));
                     send(wish.from, message);
                     (void)steps_.transfers().send(wish.from, net::BulkKind::state, wish.transfer,
                                                   std::as_bytes(std::span(copy.get(), floats)), copy);
                     serve();
                 });
}

// ---- results

void Donor::received(NodeId from, const wire::PartAsk& ask) {
    const PartWish wish{.from = from,
                        .transfer = ask.transfer(),
                        .step = ask.step(),
                        .span = {.first = ask.first(), .count = ask.count()}};
    if (pause_ && pause_->newcomer == from) pause_->asked_at = Clock::now();
    const bool near = wish.step < steps_.label().applied + most_steps_ahead;
    if (may_ask(from) && near && shards_.fits(wish.span) && has_room_for_wish_of(from)) {
        if (!give_part(wish)) part_wishes_.push_back(wish);
        return;
    }
    refuse_part(from, ask.transfer());
}

void Donor::refuse_part(NodeId from, std::uint64_t transfer) {
    wire::Work message;
    message.mutable_part_answer()->set_transfer(transfer);
    message.mutable_part_answer()->set_absent(true);
    send(from, message);
}

// False: not yet.
bool Donor::give_part(const PartWish& wish) {
    const auto kept = std::ranges::find(results_, wish.step, &KeptResult::step);
    if (wish.step >= steps_.label().applied) return false;
    const state::FloatRange range = shards_.in_result(wish.span);
    const std::uint64_t bytes = range.count() * sizeof(float);
    if (kept != results_.end() && (!may_have(wish.from, wish.step + 1) || !may_give_part(wish.from, wish.step, bytes)))
        return false;
    wire::Work message;
    wire::PartAnswer& answer = *message.mutable_part_answer();
    answer.set_transfer(wish.transfer);
    answer.set_absent(kept == results_.end());
    if (kept != results_.end()) {
        answer.set_before(to_wire(kept->before));
        *answer.mutable_record() = to_wire(kept->record);
    }
    send(wish.from, message);
    if (kept == results_.end()) return true;
    // By the way that no gradient can bar: who was let in takes none of a step before it has all results up to there.
    (void)steps_.transfers().send(wish.from, net::BulkKind::results, wish.transfer,
                                  std::as_bytes(std::span(*kept->floats).subspan(range.begin, range.count())),
                                  hold_part(wish.from, *kept, bytes));
    return true;
}

bool Donor::may_give_part(NodeId to, std::uint64_t step, std::uint64_t bytes) {
    const Given& given = *given_to(to);
    const bool fits = given.part_bytes == 0 || given.part_bytes + bytes <= max_given_bytes;
    return fits && (given.parts.contains(step) || given.parts.size() < kept_results_);
}

// The result stays in memory until that part of it has left, or the link is gone; then others have their turn.
std::shared_ptr<const void> Donor::hold_part(NodeId to, const KeptResult& kept, std::uint64_t bytes) {
    const std::shared_ptr<Given> given = given_to(to);
    given->part_bytes += bytes;
    ++given->parts[kept.step];
    return {kept.floats.get(), [given, bytes, step = kept.step, floats = kept.floats, &loop = loop_, this,
                                alive = alive_](const void*) mutable {
                floats.reset();
                given->part_bytes -= bytes;
                if (--given->parts.at(step) == 0) given->parts.erase(step);
                if (!*alive || part_wishes_.empty() || serves_parts_soon_) return;
                serves_parts_soon_ = true;
                asio::post(loop, [this, alive] {  // maybe a wish is being granted
                    if (!*alive) return;
                    serves_parts_soon_ = false;
                    serve_parts();
                });
            }};
}

void Donor::serve_parts() {
    std::erase_if(part_wishes_, [&](const PartWish& wish) { return give_part(wish); });
}

void Donor::applied(const AppliedStep& step, const state::StepRecord& record) {
    look_for_joiners();
    // The last one is kept by the steps themselves anyway.
    results_.push_back({.step = step.step, .before = step.before, .record = record, .floats = step.result});
    while (results_.size() > (followed_ ? kept_results_ : 1)) results_.pop_front();
    serve_parts();
    serve();
}

void Donor::stable() {
    serve_parts();
    tell_roots();
}

// ---- roots

void Donor::received(NodeId from, const wire::RootAsk&) {
    if (!may_ask(from)) return;
    if (watchers_.empty()) hashes_.clear();  // nobody watched: they may be of long ago
    watchers_[from] = {.steps_left = roots_per_ask, .told = 0};
    tell_roots();
    hash_state();
}

// Of the state as it is, unless that is known.
void Donor::hash_state() {
    const StateLabel label = steps_.label();
    if (hashing_ || !thread_.may_read() || (!hashes_.empty() && hashes_.back().label == label)) return;
    hashing_ = true;
    const auto hashed = std::make_shared<std::vector<std::uint64_t>>();
    thread_.read([this, hashed] { *hashed = shards_.hashes(trainer_.engine().arena()); },
                 [this, hashed, label, alive = alive_] {
                     if (!*alive) return;
                     hashing_ = false;
                     hashes_.push_back({.label = label, .shards = std::move(*hashed)});
                     if (hashes_.size() > kept_hashes) hashes_.pop_front();
                     tell_roots();
                 });
}

void Donor::tell_roots() {
    for (const Hashes& hashes : hashes_) {
        for (auto& [node, watcher] : watchers_) {
            if (watcher.steps_left == 0 || hashes.label.applied < watcher.told || !may_have(node, hashes.label.applied))
                continue;
            watcher.told = hashes.label.applied + 1;
            --watcher.steps_left;
            wire::Work message;
            wire::RootAnswer& answer = *message.mutable_root_answer();
            answer.set_applied(hashes.label.applied);
            answer.set_lineage(to_wire(hashes.label.lineage));
            answer.mutable_hashes()->Add(hashes.shards.begin(), hashes.shards.end());
            send(node, message);
        }
    }
    std::erase_if(watchers_, [](const auto& entry) { return entry.second.steps_left == 0; });
}

// ---- pauses

void Donor::received(NodeId from, const wire::PauseAsk& ask) {
    if (ask.milliseconds() == 0) {
        if (pause_ && pause_->newcomer == from) end_pause();
        return;
    }
    const auto now = Clock::now();
    const ViewPtr view = member_->core().view();
    const cluster::MemberInfo* newcomer = view == nullptr ? nullptr : view->find(from);
    wire::Work message;
    wire::PauseAnswer& answer = *message.mutable_pause_answer();
    if (newcomer == nullptr || newcomer->standing != cluster::Standing::syncing || pause_) {
        answer.set_granted(false);
        send(from, message);
        return;
    }
    std::erase_if(pauses_had_, [now](const auto& entry) { return now - entry.second.last >= pauses_count_for; });
    PausesHad& had = pauses_had_[from];
    const std::chrono::milliseconds asked(ask.milliseconds());
    const std::chrono::milliseconds most = had.count < most_pauses ? longest_pause_for(*view, from) : 0ms;
    answer.set_granted(asked <= most);
    if (!answer.granted()) answer.set_most_milliseconds(static_cast<std::uint32_t>(most.count()));
    send(from, message);
    if (!answer.granted()) return;
    ++had.count;
    had.last = now;
    note_("begins no further step until newcomer " + cluster::brief(from) +
          " has the state, which costs less than to send it what is learnt meanwhile; at most " +
          std::to_string((asked.count() + 999) / 1000) + " s");
    pause_ = Pause{.newcomer = from, .until = now + asked, .asked_at = now};
    steps_.hold_back(true);
    watch_pause();
}

// What the newcomer says is no limit: the whole state over the link between them is, as far as it is known what that
// carries.
std::chrono::milliseconds Donor::longest_pause_for(const cluster::View& view, NodeId joiner) const {
    const cluster::LinkInfo* link = view.find(cluster::link_between(member_->id(), joiner));
    if (link == nullptr) return most_pause;
    const double kilobytes_per_s = link->id.a == joiner ? link->figures.rate_ba : link->figures.rate_ab;
    if (kilobytes_per_s <= 0.0) return most_pause;
    const auto bytes = static_cast<double>(shards_.floats({.first = 0, .count = shards_.count()}) * sizeof(float));
    const double takes_ms = std::min(pause_margin * bytes / kilobytes_per_s, 1e9);
    return std::min(most_pause, pause_slack + std::chrono::milliseconds(std::llround(takes_ms)));
}

// Until it is over, or the newcomer wants nothing any more.
void Donor::watch_pause() {
    pause_timer_.expires_at(std::min(pause_->until, Clock::now() + pause_look));
    pause_timer_.async_wait([this, alive = alive_](boost::system::error_code cancelled) {
        if (cancelled || !*alive || !pause_) return;
        const auto now = Clock::now();
        const auto given = given_.find(pause_->newcomer);
        const bool on_its_way = given != given_.end() && given->second->shard_bytes + given->second->part_bytes > 0;
        if (on_its_way || wishes_of(pause_->newcomer) > 0) pause_->asked_at = now;
        if (now >= pause_->until || now - pause_->asked_at >= pause_patience) return end_pause();
        watch_pause();
    });
}

void Donor::end_pause() {
    if (!pause_) return;
    pause_.reset();
    pause_timer_.cancel();
    steps_.hold_back(false);
}

// ---- who is here

// Results are kept while somebody joins, or was let in for a step to come; and for a few steps when somebody was lost:
// one that was cut off for a moment comes back and follows from where it stood.
void Donor::look_for_joiners() {
    const auto joins = [&](const cluster::MemberInfo& member) {
        return member.standing == cluster::Standing::syncing || member.first_step >= steps_.committed();
    };
    followed_ = steps_.committed() < kept_until_ ||
                some_view([&](const cluster::View& view) { return std::ranges::any_of(view.members, joins); });
    while (!followed_ && results_.size() > 1) results_.pop_front();
}

void Donor::adopted(const cluster::View& view) {
    const bool lost = std::ranges::any_of(members_, [&](NodeId node) { return view.find(node) == nullptr; });
    if (lost && view.settlement) kept_until_ = steps_.committed() + kept_results_;
    members_.clear();
    for (const cluster::MemberInfo& member : view.members) members_.push_back(member.id.node);
    look_for_joiners();
    if (pause_ && (view.find(pause_->newcomer) == nullptr || view.is_active(pause_->newcomer))) end_pause();
    std::vector<NodeId> gone;
    for (const auto& [node, given] : given_)
        if (!is_member(node)) gone.push_back(node);
    for (const NodeId node : gone) forget(node);
    serve_parts();
}

void Donor::forget(NodeId peer) {
    if (pause_ && pause_->newcomer == peer) end_pause();
    std::erase_if(shard_wishes_, [&](const ShardWish& wish) { return wish.from == peer; });
    std::erase_if(part_wishes_, [&](const PartWish& wish) { return wish.from == peer; });
    watchers_.erase(peer);
    given_.erase(peer);
}

void Donor::stop() {
    gives_ = false;
    end_pause();
    for (const ShardWish& wish : std::exchange(shard_wishes_, {})) refuse(wish.from, wish.transfer);
    for (const PartWish& wish : std::exchange(part_wishes_, {})) refuse_part(wish.from, wish.transfer);
    watchers_.clear();
    hashes_.clear();
    results_.clear();
    members_.clear();
    kept_until_ = 0;
}

Donor::Load Donor::load() const {
    Load load{
        .wishes = shard_wishes_.size() + part_wishes_.size(), .results = results_.size(), .bytes_on_their_way = 0};
    for (const auto& [node, given] : given_) load.bytes_on_their_way += given->shard_bytes + given->part_bytes;
    return load;
}

}  // namespace chaos::elastic
