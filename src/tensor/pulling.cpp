#include "tensor/pulling.h"

#include "cluster/id.h"
#include "tensor/giving.h"
#include "tensor/wire.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace chaos::tensor {
namespace {

using std::chrono::milliseconds;

constexpr double ask_seconds = 0.05;    // worth of one ask
constexpr double ahead_seconds = 0.25;  // worth of all asks to one holder, and twice the round trip
constexpr double first_guess_bytes_per_s = 8e6;
constexpr std::uint64_t max_ahead_bytes = 8 << 20;     // of one holder
constexpr std::uint64_t max_in_hand_bytes = 16 << 20;  // of all, until it is on disk
constexpr double rate_gain = 0.5;
constexpr double rate_seconds = 0.1;  // of arrivals that make a rate: what comes first may be a burst
constexpr double most_duplicated = 0.03;
constexpr std::uint64_t least_duplicated_bytes = 1 << 20;
constexpr milliseconds tick_interval{100};
constexpr milliseconds holdings_interval{1000};

double seconds(std::chrono::nanoseconds duration) {
    return std::chrono::duration<double>(duration).count();
}

}  // namespace

Pulling::Pulling(asio::io_context& loop, net::Links& links, net::Transfers& transfers, Callbacks callbacks,
                 Patience patience)
    : loop_(loop),
      links_(links),
      transfers_(transfers),
      callbacks_(std::move(callbacks)),
      patience_(patience),
      timer_(loop) {}

// A timer that cannot be cancelled, or a thread that cannot be joined, would be a broken invariant.
Pulling::~Pulling() {  // NOLINT(bugprone-exception-escape)
    *alive_ = false;
    manifest_.reset();
    stop();
    timer_.cancel();
    writer_.join();
}

// ---- manifests

void Pulling::find_manifest(const Digest& identity, std::function<void(infer::Manifest)> found) {
    give_up_manifest();
    manifest_ = ManifestWish{.identity = identity,
                             .found = std::move(found),
                             .asked = std::nullopt,
                             .transfer = 0,
                             .link_bytes = 0,
                             .last_sign = {},
                             .in_vain = {}};
    ask_manifest();
    schedule_tick();
}

// One at a time: it is small.
void Pulling::ask_manifest() {
    if (!manifest_ || manifest_->asked) return;
    for (const NodeId peer : links_.peers()) {
        if (manifest_->in_vain.contains(peer)) continue;
        manifest_->asked = peer;
        manifest_->last_sign = Clock::now();
        manifest_->transfer =
            transfers_.expect(peer, infer::max_manifest_bytes,
                              [this](const net::Transfers::Arrived& content) { manifest_arrived(content); });
        wire::UnitWork message;
        message.mutable_manifest_ask()->set_identity(to_wire(manifest_->identity));
        message.mutable_manifest_ask()->set_transfer(manifest_->transfer);
        callbacks_.send(peer, message);
        return;
    }
}

void Pulling::manifest_arrived(const net::Transfers::Arrived& arrived) {
    const NodeId from = *manifest_->asked;
    const std::string_view bytes(reinterpret_cast<const char*>(arrived.bytes.get()), arrived.count);
    auto manifest = infer::decode_manifest(bytes, "the manifest of " + cluster::brief(from));
    manifest_->asked.reset();
    if (manifest && infer::identity_of(*manifest) == manifest_->identity) {
        const auto found = std::move(manifest_->found);
        manifest_.reset();
        return found(std::move(*manifest));
    }
    manifest_->in_vain.insert(from);
    callbacks_.note(manifest ? cluster::brief(from) + " sent the manifest of another model" : manifest.error().message);
    ask_manifest();
}

void Pulling::give_up_manifest() {
    if (manifest_ && manifest_->asked) transfers_.forget(manifest_->transfer);
    if (manifest_) manifest_->asked.reset();
}

// ---- what is wanted

void Pulling::begin(std::shared_ptr<infer::Image> image, std::vector<bool> wanted, Need need) {
    stop();
    need_ = need;
    image_ = std::move(image);
    CHAOS_ASSERT(wanted.size() == image_->layout().units.size());
    progress_ = {};
    sources_.clear();
    received_before_ = transfers_.received_bytes();
    duplicated_bytes_ = 0;
    missing_bytes_ = 0;
    asked_units_ = 0;
    stages_.assign(wanted.size(), Stage::unwanted);
    for (std::size_t unit = 0; unit < wanted.size(); ++unit) {
        if (!wanted[unit]) continue;
        stages_[unit] = Stage::here;
        if (!image_->has(unit)) set(unit, Stage::missing);
    }
    progress_.of_bytes = missing_bytes_;
    // In the loop's next turn, like any other end: whoever began is done with that.
    asio::post(loop_, [this, alive = alive_, pull = pull_] {
        if (!*alive || pull != pull_) return;
        finish_if_done();
    });
    ask_holdings();
    schedule_tick();
}

void Pulling::stop() {
    ++pull_;
    for (const auto& [transfer, fetch] : fetches_) transfers_.forget(transfer);
    fetches_.clear();
    holders_.clear();
    blamed_.clear();
    stages_.clear();
    in_hand_bytes_ = 0;
    image_.reset();
}

void Pulling::set(std::size_t unit, Stage stage) {
    const std::uint64_t bytes = image_->layout().units[unit].bytes;
    if (stages_[unit] == Stage::missing) missing_bytes_ -= bytes;
    if (stages_[unit] == Stage::asked) --asked_units_;
    stages_[unit] = stage;
    if (stage == Stage::missing) missing_bytes_ += bytes;
    if (stage == Stage::asked) ++asked_units_;
}

void Pulling::finish_if_done() {
    if (!running() || missing_bytes_ > 0 || asked_units_ > 0) return;
    stop();
    callbacks_.done();
}

Pulling::Progress Pulling::progress() const {
    Progress progress = progress_;
    progress.received_bytes = transfers_.received_bytes() - received_before_;
    for (const auto& [node, holder] : holders_) progress.holders += usable(holder) ? 1 : 0;
    for (std::size_t unit = 0; running() && unit < stages_.size(); ++unit)
        if (stages_[unit] == Stage::missing &&
            std::ranges::none_of(holders_, [&](const auto& entry) { return entry.second.has[unit]; }))
            progress.lacking_bytes += image_->layout().units[unit].bytes;
    return progress;
}

// ---- who has what

void Pulling::ask_holdings() {
    if (!running()) return;
    holdings_asked_ = Clock::now();
    wire::UnitWork message;
    message.mutable_holding_ask()->set_identity(to_wire(image_->identity()));
    message.mutable_holding_ask()->set_rest(need_ == Need::none);
    for (const NodeId peer : links_.peers()) {
        const auto at = holders_.find(peer);
        if (!blamed_.contains(peer) && (at == holders_.end() || !at->second.complete)) callbacks_.send(peer, message);
    }
}

void Pulling::link_up(NodeId) {
    ask_manifest();
    ask_holdings();
}

void Pulling::link_down(NodeId peer) {
    if (manifest_ && manifest_->asked == peer) {
        give_up_manifest();
        ask_manifest();
    }
    if (manifest_) manifest_->in_vain.erase(peer);
    take_back_all(peer);
    blamed_.erase(peer);
    if (holders_.erase(peer) > 0) pull();
}

void Pulling::received(NodeId from, const wire::Holding& holding) {
    if (!running() || holding.identity() != to_wire(image_->identity()) || blamed_.contains(from)) return;
    std::vector<bool> has(stages_.size(), holding.all());
    std::size_t behind = 0;
    for (int i = 0; i + 1 < holding.runs_size(); i += 2) {
        const std::size_t first = holding.runs(i);
        const std::size_t count = holding.runs(i + 1);
        if (first < behind || first > has.size() || count > has.size() - first)
            return blame(from, "says that it has units that do not exist");
        behind = first + count;
        std::fill_n(has.begin() + static_cast<std::ptrdiff_t>(first), count, true);
    }
    const bool complete = std::ranges::find(has, false) == has.end();
    const bool some = complete || std::ranges::find(has, true) != has.end();
    const auto at = holders_.find(from);
    if (at == holders_.end() && !some) return;
    if (at == holders_.end()) {
        Holder holder;
        holder.has = std::move(has);
        holder.complete = complete;
        holder.patience = patience_.first;
        holders_.emplace(from, std::move(holder));
        spread();
    } else {
        at->second.has = std::move(has);
        at->second.complete = complete;
    }
    pull();
}

// Holders go on at places that divide what is missing evenly.
void Pulling::spread() {
    const std::uint64_t share = missing_bytes_ / holders_.size() + 1;
    auto holder = holders_.begin();
    std::uint64_t before = 0;
    for (std::size_t unit = 0; unit < stages_.size() && holder != holders_.end(); ++unit) {
        if (stages_[unit] != Stage::missing) continue;
        const auto place = static_cast<std::uint64_t>(std::distance(holders_.begin(), holder));
        if (before >= place * share) (holder++)->second.cursor = unit;
        before += image_->layout().units[unit].bytes;
    }
}

// ---- asking

bool Pulling::usable(const Holder& holder) const {
    return !holder.late_until;
}

double Pulling::rate_of(const Holder& holder) {
    return holder.bytes_per_s > 0.0 ? holder.bytes_per_s : first_guess_bytes_per_s;
}

// Keeps every holder busy.
void Pulling::pull() {
    for (bool asked = running(); asked;) {
        asked = false;
        for (auto& [node, holder] : holders_) {
            if (!usable(holder) || (in_hand_bytes_ > 0 && in_hand_bytes_ >= max_in_hand_bytes)) continue;
            const double rate = rate_of(holder);
            const double ahead = (ahead_seconds + 2.0 * seconds(links_.figures(node).round_trips.mean())) * rate;
            if (holder.asked_bytes > 0 &&
                holder.asked_bytes >= std::min(static_cast<std::uint64_t>(ahead), max_ahead_bytes))
                continue;
            const auto worth = std::min(static_cast<std::uint64_t>(ask_seconds * rate), max_ask_bytes);
            std::optional<Fetch> fetch;
            if (missing_bytes_ > 0 && !is_left_to_others(node, holder)) fetch = next_for(node, holder, worth);
            if (!fetch && holder.asked_bytes == 0) fetch = duplicate_for(node, holder);
            if (!fetch) continue;
            ask(holder, *fetch);
            asked = true;
        }
    }
}

// In the end slow holders leave the rest to fast ones: somebody else would be done with all that is missing before this
// one is with its next unit.
bool Pulling::is_left_to_others(NodeId node, const Holder& holder) const {
    const auto unit_bytes = static_cast<double>(image_->manifest().outline.unit_bytes);
    const double own = (static_cast<double>(holder.asked_bytes) + unit_bytes) / rate_of(holder);
    return holder.bytes_per_s > 0.0 && std::ranges::any_of(holders_, [&](const auto& entry) {
               const auto& [other, its] = entry;
               const auto left = static_cast<double>(its.asked_bytes + missing_bytes_);
               return other != node && usable(its) && its.complete && its.bytes_per_s > 0.0 &&
                      left / its.bytes_per_s < own;
           });
}

// From where it is, around to there again.
std::optional<Pulling::Fetch> Pulling::next_for(NodeId node, Holder& holder, std::uint64_t most) const {
    const auto& units = image_->layout().units;
    const auto possible = [&](std::size_t unit) { return stages_[unit] == Stage::missing && holder.has[unit]; };
    for (std::size_t tried = 0; tried < units.size(); ++tried) {
        const std::size_t first = (holder.cursor + tried) % units.size();
        if (!possible(first)) continue;
        Fetch fetch{.holder = node, .first = first, .count = 1, .bytes = units[first].bytes};
        for (std::size_t unit = first + 1; unit < units.size() && possible(unit); ++unit) {
            if (fetch.bytes + units[unit].bytes > most) break;
            fetch.bytes += units[unit].bytes;
            ++fetch.count;
        }
        holder.cursor = (first + fetch.count) % units.size();
        return fetch;
    }
    return std::nullopt;
}

// Everything was asked for. What would take another holder much longer than this one is asked for twice.
std::optional<Pulling::Fetch> Pulling::duplicate_for(NodeId node, const Holder& holder) const {
    std::optional<Fetch> slowest;
    double longest = 0.0;
    for (const auto& [transfer, fetch] : fetches_) {
        const auto owner = holders_.find(fetch.holder);
        if (fetch.holder == node || owner == holders_.end()) continue;
        bool fits = true;
        for (std::size_t unit = fetch.first; unit < fetch.first + fetch.count; ++unit)
            fits = fits && holder.has[unit] && stages_[unit] == Stage::asked;
        const bool twice = std::ranges::any_of(fetches_, [&, number = transfer](const auto& entry) {
            return entry.first != number && entry.second.first == fetch.first;
        });
        if (!fits || twice) continue;
        const double silent = seconds(Clock::now() - owner->second.last_sign);
        const double needed =
            std::max(static_cast<double>(owner->second.asked_bytes) / rate_of(owner->second), 0.25 * silent);
        if (needed > 2.0 * static_cast<double>(fetch.bytes) / rate_of(holder) && needed > longest) {
            longest = needed;
            slowest = Fetch{.holder = node, .first = fetch.first, .count = fetch.count, .bytes = fetch.bytes};
        }
    }
    const double most = std::max(most_duplicated * static_cast<double>(progress_.of_bytes),
                                 static_cast<double>(least_duplicated_bytes));
    if (slowest && static_cast<double>(duplicated_bytes_ + slowest->bytes) > most) return std::nullopt;
    return slowest;
}

void Pulling::ask(Holder& holder, const Fetch& fetch) {
    const auto number = std::make_shared<std::uint64_t>(0);
    *number = transfers_.expect(fetch.holder, fetch.bytes,
                                [this, number](const net::Transfers::Arrived& content) { arrived(*number, content); });
    if (holder.asked_bytes == 0) {
        holder.window_begun = holder.last_sign = Clock::now();
        holder.window_bytes = 0;
    }
    holder.asked_bytes += fetch.bytes;
    in_hand_bytes_ += fetch.bytes;
    for (std::size_t unit = fetch.first; unit < fetch.first + fetch.count; ++unit) {
        if (stages_[unit] == Stage::asked) duplicated_bytes_ += image_->layout().units[unit].bytes;
        set(unit, Stage::asked);
    }
    fetches_.emplace(*number, fetch);
    wire::UnitWork message;
    wire::UnitAsk& ask = *message.mutable_unit_ask();
    ask.set_identity(to_wire(image_->identity()));
    ask.set_transfer(*number);
    ask.set_first(static_cast<std::uint32_t>(fetch.first));
    ask.set_count(static_cast<std::uint32_t>(fetch.count));
    ask.set_rest(need_ == Need::none);
    callbacks_.send(fetch.holder, message);
}

void Pulling::received_absent(NodeId from, std::uint64_t transfer) {
    if (manifest_ && manifest_->asked == from && manifest_->transfer == transfer) {
        give_up_manifest();
        manifest_->in_vain.insert(from);
        return ask_manifest();
    }
    const auto at = fetches_.find(transfer);
    if (at == fetches_.end() || at->second.holder != from) return;
    Holder& holder = holders_.at(from);
    // Which of them it lacks it does not say; it tells again what it has.
    holder.complete = false;
    if (need_ == Need::none)
        std::fill(holder.has.begin(), holder.has.end(), false);  // it has to compute
    else
        std::fill_n(holder.has.begin() + static_cast<std::ptrdiff_t>(at->second.first), at->second.count, false);
    transfers_.forget(transfer);
    take_back(transfer);
    pull();
}

// ---- what arrives

void Pulling::arrived(std::uint64_t transfer, const net::Transfers::Arrived& content) {
    const auto at = fetches_.find(transfer);
    const Fetch fetch = at->second;
    Holder& holder = holders_.at(fetch.holder);
    if (content.count != fetch.bytes) {
        take_back(transfer);
        return blame(fetch.holder, "sent units of another length");
    }
    fetches_.erase(at);
    count_arrival(holder, fetch.bytes);
    keep(fetch, content);
    pull();
}

void Pulling::count_arrival(Holder& holder, std::uint64_t bytes) {
    const auto now = Clock::now();
    holder.asked_bytes -= bytes;
    holder.window_bytes += bytes;
    holder.last_sign = now;
    holder.patience = patience_.first;
    const double took = seconds(now - holder.window_begun);
    if (took < rate_seconds) return;
    const double rate = static_cast<double>(holder.window_bytes) / took;
    holder.bytes_per_s += (holder.bytes_per_s > 0.0 ? rate_gain : 1.0) * (rate - holder.bytes_per_s);
    holder.window_bytes = 0;
    holder.window_begun = now;
}

// Those that did not come from somebody else meanwhile.
void Pulling::keep(const Fetch& fetch, const net::Transfers::Arrived& content) {
    struct Job {
        std::vector<std::size_t> units;
        std::vector<std::size_t> wrong;
        std::optional<Error> error;
    };
    const auto job = std::make_shared<Job>();
    for (std::size_t unit = fetch.first; unit < fetch.first + fetch.count; ++unit)
        if (stages_[unit] == Stage::asked) job->units.push_back(unit);
    auto then = [this, alive = alive_, pull_then = pull_, job, fetch] {
        if (!*alive || pull_then != pull_) return;
        in_hand_bytes_ -= fetch.bytes;
        if (job->error) {
            const Error why = *job->error;
            stop();
            return callbacks_.failed(why);
        }
        for (const std::size_t unit : job->units) {
            if (stages_[unit] == Stage::here) continue;  // both came
            const bool right = std::ranges::find(job->wrong, unit) == job->wrong.end();
            const std::uint64_t bytes = image_->layout().units[unit].bytes;
            set(unit, right ? Stage::here : Stage::missing);
            if (!right) continue;
            progress_.bytes += bytes;
            sources_[fetch.holder] += bytes;
        }
        if (!job->wrong.empty()) blame(fetch.holder, "sent bytes that are not of this model");
        pull();
        finish_if_done();
    };
    asio::post(writer_, [this, image = image_, job, fetch, content = content, then = std::move(then)]() mutable {
        const auto& units = image->layout().units;
        for (const std::size_t unit : job->units) {
            std::uint64_t before = 0;
            for (std::size_t each = fetch.first; each < unit; ++each) before += units[each].bytes;
            const Result<bool> right = image->keep(unit, {content.bytes.get() + before, units[unit].bytes});
            if (!right) {
                job->error = right.error();
                break;
            }
            if (!*right) job->wrong.push_back(unit);
        }
        content = {};
        image.reset();
        asio::post(loop_, std::move(then));
    });
}

// ---- what does not arrive

// What was asked for by this transfer is missing again, unless somebody else was asked for it too.
void Pulling::take_back(std::uint64_t transfer) {
    const auto at = fetches_.find(transfer);
    const Fetch fetch = at->second;
    fetches_.erase(at);
    in_hand_bytes_ -= fetch.bytes;
    if (const auto holder = holders_.find(fetch.holder); holder != holders_.end())
        holder->second.asked_bytes -= fetch.bytes;
    for (std::size_t unit = fetch.first; unit < fetch.first + fetch.count; ++unit) {
        const bool asked_elsewhere = std::ranges::any_of(fetches_, [&](const auto& entry) {
            return entry.second.first <= unit && unit < entry.second.first + entry.second.count;
        });
        if (stages_[unit] == Stage::asked && !asked_elsewhere) set(unit, Stage::missing);
    }
}

void Pulling::take_back_all(NodeId node) {
    std::vector<std::uint64_t> owed;
    for (const auto& [transfer, fetch] : fetches_)
        if (fetch.holder == node) owed.push_back(transfer);
    for (const std::uint64_t transfer : owed) {
        transfers_.forget(transfer);
        take_back(transfer);
    }
}

void Pulling::blame(NodeId node, const std::string& why) {
    if (!blamed_.insert(node).second) return;
    callbacks_.note(cluster::brief(node) + " " + why + ": it is asked for nothing more");
    take_back_all(node);
    holders_.erase(node);
    pull();
}

// One that sends nothing is not waited for, where somebody else can be asked.
void Pulling::look_for_late() {
    const auto now = Clock::now();
    for (auto& [node, holder] : holders_) {
        if (holder.late_until && now >= *holder.late_until) holder.late_until.reset();
        const std::uint64_t bytes = links_.figures(node).bulk_received_bytes;
        if (std::exchange(holder.link_bytes, bytes) != bytes) holder.last_sign = now;
        if (holder.asked_bytes == 0 || now - holder.last_sign < holder.patience) continue;
        const bool others = std::ranges::any_of(
            holders_, [&, self = node](const auto& entry) { return entry.first != self && usable(entry.second); });
        if (!others) continue;
        callbacks_.note(cluster::brief(node) + " sent nothing for " +
                        std::to_string(std::chrono::duration_cast<milliseconds>(now - holder.last_sign).count()) +
                        " ms: others are asked for what it owes");
        take_back_all(node);
        holder.late_until = now + holder.patience;
        holder.patience = std::min(2 * holder.patience, patience_.most);
    }
}

// Time that this node's own loop was late is nobody else's silence.
void Pulling::forgive(Clock::duration late) {
    for (auto& [node, holder] : holders_) holder.last_sign += late;
    if (manifest_ && manifest_->asked) manifest_->last_sign += late;
}

void Pulling::tick() {
    ticking_ = false;
    const auto now = Clock::now();
    forgive(now - timer_.expiry());
    if (manifest_ && manifest_->asked) {
        const std::uint64_t bytes = links_.figures(*manifest_->asked).bulk_received_bytes;
        if (std::exchange(manifest_->link_bytes, bytes) != bytes) manifest_->last_sign = now;
        if (now - manifest_->last_sign >= patience_.first) {
            manifest_->in_vain.insert(*manifest_->asked);
            give_up_manifest();
            ask_manifest();
        }
    } else if (manifest_ && now - manifest_->last_sign >= holdings_interval) {
        // Nobody had it; somebody may have it now.
        manifest_->last_sign = now;
        manifest_->in_vain.clear();
        ask_manifest();
    }
    if (running()) {
        look_for_late();
        if (now - holdings_asked_ >= holdings_interval) ask_holdings();
        pull();
    }
    schedule_tick();
}

void Pulling::schedule_tick() {
    if (ticking_ || (!running() && !manifest_)) return;
    ticking_ = true;
    timer_.expires_after(tick_interval);
    timer_.async_wait([this, alive = alive_](boost::system::error_code cancelled) {
        if (!cancelled && *alive) tick();
    });
}

}  // namespace chaos::tensor
