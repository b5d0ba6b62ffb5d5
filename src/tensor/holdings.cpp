#include "tensor/holdings.h"

#include "base/assert.h"
#include "cluster/id.h"
#include "infer/window_plan.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

namespace chaos::tensor {
namespace {

// What nobody has is said when it is likely to stay so.
constexpr std::chrono::seconds watch_interval{5};
// A copy of what is not needed now takes no more of what is free than one part in so many.
constexpr std::uint64_t share_of_disk = 4;

std::string words_for(const std::map<NodeId, std::uint64_t>& sources, std::chrono::duration<double> time) {
    std::string text = "got";
    for (const auto& [node, bytes] : sources)
        text += (text.size() > 3 ? ", " : " ") + infer::bytes_text(bytes) + " from " + cluster::brief(node);
    std::array<char, 32> took{};
    std::snprintf(took.data(), took.size(), " in %.1f s", time.count());
    return text + took.data();
}

struct Compared {
    std::vector<bool> units;
    std::size_t damaged = 0;
};

// What is here of these with its hashes, until nobody waits for that any more: it may be tens of gigabytes.
Result<Compared> compare(infer::Image& image, const std::vector<bool>& wanted, const std::atomic<bool>& obsolete) {
    constexpr std::size_t units_at_once = 64;
    infer::Pool pool{1};
    Compared compared{.units = std::vector<bool>(wanted.size()), .damaged = 0};
    for (std::size_t first = 0; first < wanted.size() && !obsolete; first += units_at_once) {
        const std::size_t end = std::min(first + units_at_once, wanted.size());
        std::vector<bool> some(wanted.size());
        for (std::size_t unit = first; unit < end; ++unit) some[unit] = compared.units[unit] = wanted[unit];
        CHAOS_TRY(const std::size_t damaged, image.check(some, pool, {}));
        compared.damaged += damaged;
    }
    return compared;
}

// For what is not needed nothing goes.
Result<void> check_room(const infer::Image& image, const std::vector<bool>& wanted) {
    CHAOS_TRY(const bool enough, image.has_room(wanted));
    if (enough) return {};
    return Error{"something else would have to go for it"};
}

}  // namespace

Holdings::Holdings(asio::io_context& loop, net::Links& links, net::Transfers& transfers, Source source,
                   Callbacks callbacks)
    : loop_(loop),
      source_(std::move(source)),
      callbacks_(std::move(callbacks)),
      checked_(source_.manifest.hashes.size()),
      watch_(loop),
      giving_(loop, transfers,
              {.send = callbacks_.send,
               .may_ask = [](NodeId) { return true; },  // whoever has a link may join
               .note = callbacks_.note,
               .spoilt =
                   [this](std::size_t unit) {
                       if (source_.image == nullptr) return;
                       checked_[unit] = false;
                       if (const auto forgotten = source_.image->forget(unit); !forgotten)
                           callbacks_.note(forgotten.error().message);
                   }}),
      pulling_(loop, links, transfers,
               {.send = callbacks_.send,
                .note = callbacks_.note,
                .done = [this] { end({}); },
                .failed = [this](const Error& why) { end(why); }}) {
    CHAOS_ASSERT((source_.files == nullptr) != (source_.image == nullptr));
    giving_.offer(source_.manifest, source_.files != nullptr ? source_.files : source_.image);
}

// A timer that cannot be cancelled, or a thread that cannot be joined, would be a broken invariant.
Holdings::~Holdings() {  // NOLINT(bugprone-exception-escape)
    *alive_ = false;
    *obsolete_ = true;
    watch_.cancel();
    checker_.join();
}

void Holdings::want(const infer::Slice& slice, Done done) {
    if (has_files()) return done({});
    needed_ = infer::units_of_slice(source_.image->layout(), slice);
    rest_in_vain_ = false;
    wish(needed_, {}, std::move(done));
}

void Holdings::want_ahead(const infer::Slice& slice, Done done) {
    if (has_files()) return done({});
    wish(infer::units_of_slice(source_.image->layout(), slice), needed_, std::move(done));
}

void Holdings::want_rest() {
    if (has_files() || wish_ || busy_ || rest_in_vain_) return;
    const std::vector<bool> all(checked_.size(), true);
    const std::uint64_t rest = infer::bytes_of(source_.image->layout(), source_.image->missing(all));
    std::error_code error;
    const auto space = std::filesystem::space(source_.image->folder(), error);
    if (rest == 0) return has_all();
    if (error || rest > space.available / share_of_disk || !source_.image->may_hold_all()) return;
    wish(
        all, {},
        [this](const Result<void>& got) {
            if (got) return has_all();
            rest_in_vain_ = true;
            callbacks_.note("does without a copy of the whole model: " + got.error().message);
        },
        Pulling::Need::none);
}

void Holdings::set_busy(bool busy) {
    busy_ = busy;
    if (!busy || !wants_rest()) return;
    stop();
    wish_.reset();
}

void Holdings::has_all() {
    if (!std::exchange(said_all_, true))
        callbacks_.note("has all of the model: it does not need others' files any more");
}

// Whatever is done for the wish.
void Holdings::stop() {
    ++number_;
    *obsolete_ = true;
    pulling_.stop();
    watch_.cancel();
}

void Holdings::wish(std::vector<bool> units, std::vector<bool> kept, Done done, Pulling::Need need) {
    stop();
    obsolete_ = std::make_shared<std::atomic<bool>>(false);
    wish_ = Wish{.units = std::move(units),
                 .kept = std::move(kept),
                 .done = std::move(done),
                 .begun = Clock::now(),
                 .need = need};
    check();
}

// What this process has not compared yet, it compares.
void Holdings::check() {
    std::vector<bool> unchecked = wish_->units;
    std::vector<bool> kept = wish_->units;
    for (std::size_t unit = 0; unit < kept.size(); ++unit) {
        unchecked[unit] = unchecked[unit] && !checked_[unit];
        if (!wish_->kept.empty()) kept[unit] = kept[unit] || wish_->kept[unit];
    }
    asio::post(checker_,
               [this, alive = std::weak_ptr(alive_), number = number_, kept = std::move(kept),
                unchecked = std::move(unchecked), image = source_.image, obsolete = obsolete_, rest = wants_rest()] {
                   auto compared = std::make_shared<Result<Compared>>(compare(*image, unchecked, *obsolete));
                   auto room = std::make_shared<Result<void>>();
                   if (*compared && !*obsolete) *room = rest ? check_room(*image, kept) : image->make_room(kept);
                   asio::post(loop_, [this, alive, number, compared, room] {
                       if (alive.expired()) return;
                       // Whatever went to make room is compared again when it is back, whoever wants it then.
                       for (std::size_t unit = 0; unit < checked_.size(); ++unit)
                           checked_[unit] =
                               (checked_[unit] || (*compared && (*compared)->units[unit])) && source_.image->has(unit);
                       if (number != number_ || !wish_) return;
                       if (!*compared) return end(compared->error());
                       if (!*room) return wish_->kept.empty() ? end(room->error()) : put_off();
                       if ((*compared)->damaged > 0)
                           callbacks_.note(std::to_string((*compared)->damaged) +
                                           " pieces of the model on this disk were damaged");
                       pull();
                   });
               });
}

void Holdings::put_off() {
    callbacks_.note("has no room for what it will need beside what it needs now: gets it when that is not needed");
    const Done done = std::move(wish_->done);
    wish_.reset();
    done({});
}

void Holdings::pull() {
    const std::vector<bool> missing = source_.image->missing(wish_->units);
    const std::uint64_t bytes = infer::bytes_of(source_.image->layout(), missing);
    if (bytes == 0) return end({});
    wish_->pulled = true;
    pulling_.begin(source_.image, wish_->units, wish_->need);
    if (!wants_rest()) {
        callbacks_.note("gets " + infer::bytes_text(bytes) + " of the model from others");
        return watch();
    }
    if (!std::exchange(said_rest_, true))
        callbacks_.note("gets the other " + infer::bytes_text(bytes) +
                        " of the model from others, too, when nothing else is to be done");
}

void Holdings::watch() {
    watch_.expires_after(watch_interval);
    watch_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
        if (cancelled || alive.expired() || !pulling_.running()) return;
        const Pulling::Progress progress = pulling_.progress();
        std::string text = "has " + infer::bytes_text(progress.bytes) + " of " + infer::bytes_text(progress.of_bytes);
        if (progress.lacking_bytes > 0)
            text += "; nobody here has " + infer::bytes_text(progress.lacking_bytes) +
                    " of the model: a node with its files must come";
        callbacks_.note(text);
        watch();
    });
}

void Holdings::end(const Result<void>& how) {
    if (!wish_) return;
    watch_.cancel();
    if (how) {
        for (std::size_t unit = 0; unit < checked_.size(); ++unit)
            if (wish_->units[unit]) checked_[unit] = true;
        if (wish_->pulled) callbacks_.note(words_for(pulling_.sources(), Clock::now() - wish_->begun));
    }
    const Done done = std::move(wish_->done);
    wish_.reset();
    pulling_.stop();
    done(how);
}

void Holdings::link_up(NodeId peer) {
    pulling_.link_up(peer);
}

void Holdings::link_down(NodeId peer) {
    pulling_.link_down(peer);
    giving_.link_down(peer);
}

void Holdings::received(NodeId from, const wire::UnitWork& message) {
    if (message.has_manifest_ask()) giving_.received(from, message.manifest_ask());
    if (message.has_holding_ask()) {
        if (!busy_ || !message.holding_ask().rest()) return giving_.received(from, message.holding_ask());
        wire::UnitWork nothing;
        nothing.mutable_holding()->set_identity(message.holding_ask().identity());
        callbacks_.send(from, nothing);
    }
    if (message.has_unit_ask()) {
        if (!busy_ || !message.unit_ask().rest()) return giving_.received(from, message.unit_ask());
        wire::UnitWork absent;
        absent.set_absent(message.unit_ask().transfer());
        callbacks_.send(from, absent);
    }
    if (message.has_holding()) pulling_.received(from, message.holding());
    if (message.what_case() == wire::UnitWork::kAbsent) pulling_.received_absent(from, message.absent());
}

std::optional<Pulling::Progress> Holdings::progress() const {
    if (!pulling_.running() || wants_rest()) return std::nullopt;
    return pulling_.progress();
}

}  // namespace chaos::tensor
