#include "tensor/session.h"

#include "base/assert.h"
#include "base/words.h"
#include "tensor/wire.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <cstdio>

namespace chaos::tensor {
namespace {

using cluster::brief;
using Id = infer::Writer::Id;

// What is told again.
constexpr double worth_telling = 0.1;
// How often a member without a part says so: what was told may have been lost on its way.
constexpr std::chrono::seconds watch_interval{1};

std::vector<std::byte> encoded(const wire::Commands& commands) {
    std::vector<std::byte> bytes(commands.ByteSizeLong());
    commands.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
}

bool differs(std::uint64_t a, std::uint64_t b) {
    const auto x = static_cast<double>(a);
    const auto y = static_cast<double>(b);
    return std::max(x, y) > (1.0 + worth_telling) * std::min(x, y);
}

std::string milliseconds_text(double s) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), s < 0.01 ? "%.2f ms" : "%.1f ms", s * 1e3);
    return text.data();
}

}  // namespace

Session::Session(asio::io_context& loop, LinkExchange& exchange, NodeId self, Subject subject,
                 const SessionOptions& options, Ports ports, std::shared_ptr<Gateway::Told> told)
    : loop_(loop),
      exchange_(exchange),
      self_(self),
      subject_(std::move(subject)),
      options_(options),
      ports_(std::move(ports)),
      told_(std::move(told)),
      ability_(options.speed),
      watch_(loop) {
    exchange_.attach([this] { return is_chief() ? encoded(next_commands()) : std::vector<std::byte>(); });
}

// A timer that cannot be cancelled would be a broken invariant.
Session::~Session() {  // NOLINT(bugprone-exception-escape)
    *alive_ = false;
    watch_.cancel();
    if (loading_.joinable()) loading_.join();
}

// ---- what this node can do

std::optional<NodeId> Session::leader() const {
    if (view_ == nullptr || view_->active_count() == 0) return std::nullopt;
    return view_->longest_standing();
}

wire::Able Session::able() const {
    wire::Able able;
    able.set_weight_bytes_per_s(ability_.weight_bytes_per_s());
    able.set_prompt_bytes_per_s(ability_.prompt_bytes_per_s());
    able.set_phase_ns(ability_.phase_ns());
    able.set_share_permille(ability_.share_permille());
    if (team_ != nullptr && team_->rehearsed) able.set_rehearsed(team_->generation());
    able.set_memory_bytes(options_.memory_bytes);
    able.set_program_bytes(options_.program_bytes);
    able.set_disk_bytes_per_s(disk_bytes_per_s_);
    able.set_context(options_.context);
    able.set_sequences(options_.sequences);
    able.set_taken(taken());
    for (const NodeId peer : ports_.linked()) {
        const auto times = ports_.times(peer);
        if (!times) continue;
        wire::Able::Link& link = *able.add_links();
        *link.mutable_peer() = to_wire(peer);
        link.set_little_ns(static_cast<std::uint64_t>(times->little.count()));
        link.set_sums_ns(static_cast<std::uint64_t>(times->sums.count()));
        link.set_much_ns(static_cast<std::uint64_t>(times->much.count()));
    }
    return able;
}

// How long messages to some neighbour take is not known yet, but may be soon.
bool Session::awaits_times() const {
    return std::ranges::any_of(linked_at_, [&](const auto& each) {
        const auto& [peer, since] = each;
        return view_ != nullptr && view_->find(peer) != nullptr && !ports_.times(peer) &&
               Clock::now() - since < options_.times_patience;
    });
}

// Once it is known how long messages to all neighbours take. One that never answers silences nobody: without times
// there is no link for a plan.
void Session::tell_able() {
    ables_[self_] = able();
    const std::vector<NodeId> linked = ports_.linked();
    untold_ = awaits_times();
    if (untold_) return;
    wire::Work message;
    *message.mutable_able() = ables_[self_];
    for (const NodeId peer : linked) (void)ports_.send(peer, message);
    tell_far_leader();
}

// Nothing says that it has come there, over others.
void Session::tell_far_leader() {
    const std::vector<NodeId> linked = ports_.linked();
    const auto to = leader();
    if (!to || *to == self_ || std::ranges::find(linked, *to) != linked.end()) return;
    wire::Work message;
    *message.mutable_able() = ables_[self_];
    (void)ports_.send(*to, message);
}

void Session::tell_if_learnt() {
    if (!paces_.tell() || !team_->loaded.model) return;
    experience_[{members_of(team_->division), team_->division.whole_heads()}] = {.token_s = paces_.usual_s(),
                                                                                 .when = Clock::now()};
    if (!ability_.learns_from_passes()) return;
    ability_.learn(paces_.usual_own_s(), infer::packed_bytes(team_->loaded.model->tensors()),
                   static_cast<std::uint64_t>(2 * subject_.config.layers + 1));
    const wire::Able& told = ables_[self_];
    if (differs(told.weight_bytes_per_s(), ability_.weight_bytes_per_s()) ||
        differs(told.phase_ns(), ability_.phase_ns()))
        tell_able();
}

// ---- who is there

void Session::adopted(const ViewPtr& view) {
    if (view_ == nullptr) watch();
    view_ = view;
    unable_.clear();
    retry_pause_ = options_.retry_pause;
    considered_.clear();
    const std::vector<NodeId> linked = ports_.linked();
    const auto unknown = [&](const auto& each) {
        return each.first != self_ && view_->find(each.first) == nullptr &&
               std::ranges::find(linked, each.first) == linked.end();
    };
    std::erase_if(ables_, unknown);
    std::erase_if(divisions_, unknown);
    std::erase_if(ready_, unknown);
    std::erase_if(troubles_, unknown);
    std::erase_if(aside_, unknown);
    if (stage_ != Stage::none && stage_ != Stage::broken) {
        const bool all_there =
            std::ranges::all_of(team_->group.members, [&](NodeId member) { return view_->is_active(member); });
        if (!all_there || leader() != team_->leader || !view_->is_active(team_->chief))
            break_up("there is another view");
    }
    forget_askers_that_are_gone();
    tell_able();
    look_at_divisions();
    lead();
}

// Whoever leads the line that it comes to counts divisions without knowing of those that were taken up here.
void Session::excluded() {
    view_ = nullptr;
    watch_.cancel();
    break_up("this node is out");
    past_ = taken() + 1;
    next_.reset();
    later_.reset();
    ahead_.reset();
    divided_.reset();
    divisions_.clear();
}

void Session::link_up(NodeId peer) {
    linked_at_[peer] = Clock::now();
    tell_able();
}

// A division may have been made as if there were no link with it.
void Session::measured(NodeId) {
    considered_.clear();
    tell_able();
    lead();
}

void Session::link_down(NodeId peer) {
    linked_at_.erase(peer);
    ables_.erase(peer);
    unsound_.erase(peer);
    divisions_.erase(peer);
    forget_askers_that_are_gone();
    if (needs_link_with(peer)) interrupt("the link with " + brief(peer) + " is gone");
    // What others said to each other over it is gone, too.
    lost(ports_.carried(peer));
    tell_able();
    lead();
}

void Session::lost(std::uint64_t generation) {
    if (generation == 0 || generation < taken()) return;
    const bool goes_on = stage_ != Stage::none && stage_ != Stage::broken && team_->generation() == generation;
    if (goes_on) return interrupt("the way between members is gone");
    tell_interrupted(generation);
}

void Session::watch() {
    watch_.expires_after(watch_interval);
    watch_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
        if (cancelled || alive.expired() || view_ == nullptr) return;
        const bool idle = (stage_ == Stage::none || stage_ == Stage::broken) && !next_;
        if (idle && !leads() && view_->is_active(self_)) tell_interrupted(taken());
        if (untold_) {
            tell_able();
            lead();
        }
        if (leads()) let_come_back();
        if (idle && leads()) lead();
        if (view_->is_active(self_)) tell_far_leader();
        look_at_rest();
        if (stage_ == Stage::whole && team_->unheard) interrupt("there is no way to " + brief(team_->chief));
        watch();
    });
}

bool Session::needs_link_with(NodeId peer) const {
    if (stage_ == Stage::none || stage_ == Stage::broken) return false;
    return team_->computes() ? leans_on(peer) : peer == team_->chief;
}

// Whether sums go to it or come from it.
bool Session::leans_on(NodeId peer) const {
    const auto& members = team_->group.members;
    const auto place = static_cast<std::size_t>(std::ranges::find(members, peer) - members.begin());
    if (place == members.size() || peer == self_) return false;
    const auto& parents = team_->group.parents;
    return parents.empty() || parents[place] == team_->group.self || parents[team_->group.self] == place;
}

// ---- divisions

void Session::received_forecast(NodeId from, const wire::Forecast& message) {
    if (stage_ != Stage::whole || from != team_->leader || message.generation() != team_->generation()) return;
    // What was expected of tokens that have come is not changed by them.
    if (paces_.mean_s()) return;
    team_->forecast = true;
    const std::string before = words_for(*team_);
    team_->division.set_predicted_ns(message.predicted_ns());
    if (!leads()) *team_->division.mutable_reasons() = message.reasons();
    if (const std::string words = words_for(*team_); words != before) ports_.note(words);
}

void Session::received_ahead(NodeId from, const wire::Division& division) {
    const std::size_t place = place_of(division, self_);
    if (leader() != from || place == static_cast<std::size_t>(division.members_size())) return;
    // One thing after the other: what is in force comes first.
    if (stage_ == Stage::getting || stage_ == Stage::loading || next_) {
        later_ = division;
        return;
    }
    ports_.get_ahead(slice_of(division, place),
                     [this, from, generation = division.generation()](const Result<void>& got) {
                         if (!got) return tell_unable(from, generation, got.error());
                         wire::Work message;
                         message.mutable_prepared()->set_generation(generation);
                         tell(from, message);
                     });
}

void Session::look_at_divisions() {
    const auto from = leader();
    if (!from) return;
    if (const auto found = divisions_.find(*from); found != divisions_.end()) {
        const wire::Division division = found->second;
        take(*from, division);
    }
}

std::uint64_t Session::taken() const {
    const std::uint64_t team = team_ == nullptr ? 0 : team_->generation();
    return std::max({past_, team, next_ ? next_->generation() : 0});
}

// It is taken up between passes.
void Session::take(NodeId from, const wire::Division& division) {
    if (division.generation() <= taken()) return;
    generation_ = std::max(generation_, division.generation());
    break_up("the model is divided anew");
    next_ = division;
    next_leader_ = from;
}

// ---- messages

// Of whoever does not lead, too: it may lead by the next view. Nothing is kept that could not be taken up.
void Session::received_division(NodeId from, const wire::Division& division) {
    if (const auto sound = check_division(subject_.config, division); !sound) {
        if (unsound_.insert(from).second) ports_.note(brief(from) + ": " + sound.error().message);
        return;
    }
    if (division.ahead()) return received_ahead(from, division);
    // Of who came since then, too.
    const bool same = team_ != nullptr && team_->leader == from && team_->generation() == division.generation();
    if (same && leader() == from) *team_->division.mutable_reasons() = division.reasons();
    wire::Division& known = divisions_[from];
    if (division.generation() < known.generation()) return;  // it came by a longer way
    known = division;
    if (leader() == from) take(from, division);
}

void Session::received(NodeId from, const wire::Work& message) {
    if (message.has_able()) {
        if (const auto sound = check_able(subject_.config, message.able()); !sound) {
            if (unsound_.insert(from).second)
                ports_.note(brief(from) + " is left out when the model is divided: " + sound.error().message);
            if (ables_.erase(from) > 0) lead();
            return;
        }
        unsound_.erase(from);
        wire::Able& known = ables_[from];
        const bool taken_more = known.taken() < message.able().taken() && !aside_.contains(from);
        if (known.links_size() != message.able().links_size() || taken_more) considered_.clear();
        const bool rehearsed = known.rehearsed() != message.able().rehearsed();
        const bool outdoes = leads() && under_way() && known.taken() < message.able().taken() &&
                             current().generation() < message.able().taken();
        if (outdoes) count_interruption(from);
        known = message.able();
        lead();
        if (rehearsed) forecast();
        return;
    }
    if (message.has_division()) return received_division(from, message.division());
    if (message.has_ready()) {
        std::uint64_t& known = ready_[from];
        known = std::max(known, message.ready().generation());  // an older one may come later, by way of others
        return begin_if_asked();
    }
    if (message.has_prepared()) return received_prepared(from, message.prepared());
    if (message.has_interrupted()) return received_interrupted(from, message.interrupted());
    if (message.has_ask() || message.has_drop()) return queue(from, message);
    if (message.has_begin()) return received_begin(from, message.begin());
    if (message.has_told()) return received_told(from, message.told());
    if (message.has_forecast()) return received_forecast(from, message.forecast());
}

void Session::received_begin(NodeId from, const wire::Begin& message) {
    if (stage_ != Stage::whole || !team_->computes() || from != team_->chief ||
        message.generation() != team_->generation())
        return;
    if (team_->computing) {
        team_->begun = message.commands();
        return;
    }
    apply(message.commands());
    team_->computing = true;
    look_at_rest();
}

void Session::received_told(NodeId from, const wire::Told& message) {
    if (stage_ != Stage::whole || from != team_->chief || message.generation() != team_->generation()) return;
    if (message.incarnation() != incarnation()) return;  // an earlier life of this node asked for it
    const auto text = texts_.find(message.number());
    if (text == texts_.end()) return;  // nobody wants it any more
    // What went another way may have come earlier, or not at all.
    const bool next = message.drawn() == text->second.request.drawn;
    const bool sound = std::ranges::all_of(message.sampled(), [&](const wire::Told::Sampled& each) {
        return each.token() >= 0 && each.token() < subject_.config.vocab;
    });
    if (!next || !sound) return interrupt(brief(from) + " tells something else than what comes next");
    for (const wire::Told::Sampled& each : message.sampled()) drawn(message.number(), sampled_from(each));
    if (message.has_ended()) ended(message.number(), ended_from(message.ended()));
}

// False: there is no way.
bool Session::tell(NodeId to, const wire::Work& message) {
    if (to != self_) return ports_.send(to, message);
    received(self_, message);
    return true;
}

// Of the division in force. The chief would wait for what did not get away, or a client would; but a division is not
// made anew at once, or nothing else would be done until there is a way.
void Session::tell_chief(const wire::Work& message) {
    if (!tell(team_->chief, message)) team_->unheard = true;
}

// Passes stop; what is in flight counts for nothing.
void Session::break_up(const std::string& why) {
    exchange_.interrupt(why);
    if (stage_ == Stage::none || stage_ == Stage::broken) return;
    stage_ = Stage::broken;
    if (!texts_.empty()) ++healed_;
    ports_.whole(false);
}

// The others may wait for what does not come: the leader divides anew.
void Session::interrupt(const std::string& why) {
    break_up(why);
    considered_.clear();
    tell_interrupted(team_->generation());
}

void Session::tell_interrupted(std::uint64_t generation) {
    wire::Work message;
    message.mutable_interrupted()->set_generation(generation);
    if (const auto to = leader()) tell(*to, message);
}

// ---- between passes

// Texts that others have under way would not fit.
bool Session::offers_less(const wire::Division& division) const {
    return options_.context < division.context() || options_.sequences < division.sequences();
}

std::string Session::words_for(const Team& team) const {
    const std::string expecting = ", expecting " + milliseconds_text(predicted_s(team.division)) + " per token";
    if (!team.computes()) {
        const wire::Division& theirs = team.division;
        const auto texts = [](std::uint64_t sequences, std::uint64_t context) {
            return std::to_string(sequences) + " texts of " + std::to_string(context) + " tokens";
        };
        const std::string why = !offers_less(theirs)
                                    ? ""
                                    : " (it offers " + texts(options_.sequences, options_.context) +
                                          ", and the others write " + texts(theirs.sequences(), theirs.context()) +
                                          ": give it their --parallel and --context)";
        return "passes requests on to " + brief(team.chief) + why + expecting;
    }
    const std::size_t others = team.group.members.size() - 1;
    if (others == 0) return "computes alone" + expecting;
    const auto range = [](const infer::Extent& extent) {
        return std::to_string(extent.first) + " to " + std::to_string(extent.end());
    };
    const infer::Slice& slice = team.portion.slice;
    return "computes with " + std::to_string(others) + (others == 1 ? " other" : " others") + " (" +
           printable(team.division.exchange()) + "): heads " + range(slice.heads) + ", FFN columns " +
           range(slice.ffn) + ", tokens " + range(slice.vocab) + expecting;
}

bool Session::ready() const {
    if (arrived_ || (next_ && !loading_.joinable())) return true;
    return rehearsal_ != nullptr || (stage_ == Stage::whole && team_->computing);
}

void Session::compute() {
    if (rehearsal_ != nullptr) rehearse();
    if (arrived_) finish_loading();
    if (next_) start();
    if (stage_ == Stage::whole && team_->computing) pass();
}

// The old slice goes first: there may be no room for both.
void Session::start() {
    if (loading_.joinable()) return;  // one at a time
    if (leader() != next_leader_) return next_.reset();
    auto team = std::make_unique<Team>();
    team->division = std::move(*next_);
    next_.reset();
    const wire::Division& division = team->division;
    team->leader = next_leader_;
    team->chief = node_from(division.members(static_cast<int>(division.chief())).node());
    team->portion = {
        .slice = {}, .context = division.context(), .sequences = division.sequences(), .batch = division.batch()};
    const std::size_t place = place_of(division, self_);
    if (place < static_cast<std::size_t>(division.members_size())) {
        team->portion.slice = slice_of(division, place);
        team->group.self = place;
        team->group.generation = division.generation();
        team->group.halves = division.halves();
        team->group.whole_heads = division.whole_heads();
        for (const wire::Division::Member& member : division.members()) {
            team->group.members.push_back(node_from(member.node()));
            if (!division.direct()) team->group.parents.push_back(member.parent());
        }
        team->group.max_message_bytes = longest_message_bytes(subject_.config, division);
    }
    rehearsal_.reset();
    const bool stays =
        team->computes() && team_ != nullptr && team_->loaded.model != nullptr && team_->portion == team->portion;
    const LoadedSlice kept = stays ? team_->loaded : LoadedSlice{};
    team_ = std::move(team);
    paces_ = {};
    const bool chief = is_chief();
    std::erase_if(queue_, [&](const Queued& each) {
        return each.generation < team_->generation() || (each.generation == team_->generation() && !chief);
    });
    if (!team_->computes()) return is_whole();
    if (stays) return take_up(kept);
    stage_ = Stage::getting;
    ports_.get(team_->portion.slice, [this, generation = team_->generation()](const Result<void>& got) {
        if (stage_ != Stage::getting || team_->generation() != generation) return;
        if (!got) return give_up(got.error());
        load();
    });
}

void Session::load() {
    stage_ = Stage::loading;
    loading_ = std::thread([this, load = ports_.load, portion = team_->portion] {
        auto loaded = std::make_shared<Result<LoadedSlice>>(load(portion));
        asio::post(loop_, [this, loaded] { arrived_.emplace(std::move(*loaded)); });
    });
}

void Session::finish_loading() {
    loading_.join();
    Result<LoadedSlice> loaded = std::move(*arrived_);
    arrived_.reset();
    if (stage_ == Stage::loading) take_up(std::move(loaded));
}

// This node cannot have the slice; others may do without it, those who are here or who come.
void Session::give_up(const Error& why) {
    stage_ = Stage::broken;
    if (const auto to = leader()) tell_unable(*to, team_->generation(), why);
    if (leads() && those_who_can().empty()) ports_.note("waits for others who can compute it");
}

// Whoever can do something about it reads what this node says, and not what the leader does.
void Session::tell_unable(NodeId to, std::uint64_t generation, const Error& why) {
    if (to != self_) ports_.note("cannot compute its slice: " + why.message);
    wire::Work message;
    message.mutable_interrupted()->set_generation(generation);
    message.mutable_interrupted()->set_why(why.message);
    tell(to, message);
}

// This member can compute.
void Session::take_up(Result<LoadedSlice> loaded) {
    if (!loaded) return give_up(loaded.error());
    team_->loaded = std::move(*loaded);
    disk_bytes_per_s_ = std::max(disk_bytes_per_s_, team_->loaded.disk_bytes_per_s);
    team_->engine.emplace(*team_->loaded.model, *team_->loaded.pool, &exchange_);
    auto scheduler = infer::Scheduler::make(
        *team_->engine,
        {.sequences = team_->portion.sequences, .context = team_->portion.context, .batch = team_->portion.batch});
    if (!scheduler) return give_up(scheduler.error());
    team_->scheduler.emplace(std::move(*scheduler));
    // A link that the leader counted on may have gone meanwhile.
    const std::vector<NodeId> linked = ports_.linked();
    for (const NodeId member : team_->group.members) {
        if (!leans_on(member) || std::ranges::find(linked, member) != linked.end()) continue;
        if (!leads()) return interrupt("there is no link with " + brief(member));
        // Were it to divide at once, it would come to the same: the link, or a view without that member, comes first.
        considered_.clear();
        return break_up("there is no link with " + brief(member));
    }
    exchange_.begin(team_->group);
    wire::Work message;
    message.mutable_ready()->set_generation(team_->generation());
    is_whole();
    tell_chief(message);
}

void Session::is_whole() {
    stage_ = Stage::whole;
    told_->set_context(team_->portion.context);
    ports_.note(words_for(*team_));
    ports_.whole(true);
    const auto later = std::exchange(later_, std::nullopt);
    if (later && later->generation() > team_->generation()) received_ahead(team_->leader, *later);
    ask_for_all();
    look_at_rest();
    begin_rehearsal();
}

// A copy of what is not needed takes nothing from passes, nor from what tells how long messages take.
void Session::look_at_rest() {
    const bool busy = !texts_.empty() || !queue_.empty() || (stage_ == Stage::whole && team_->computing);
    ports_.busy(busy);
    if (!busy && stage_ == Stage::whole && !next_) ports_.get_rest();
}

// Nothing else is to be done.
bool Session::may_rehearse() const {
    return stage_ == Stage::whole && !team_->computing && !next_ && !arrived_ && texts_.empty() && queue_.empty();
}

void Session::begin_rehearsal() {
    const infer::Model* model = team_->loaded.model;
    const auto bytes = model == nullptr ? 0 : infer::packed_bytes(model->tensors());
    // A streamed slice takes what its disk takes, which is known.
    const bool useful = model != nullptr && model->window() == nullptr && bytes > 0 && differs(bytes, rehearsed_bytes_);
    if (useful && may_rehearse()) {
        auto rehearsal =
            Rehearsal::make(*model, *team_->loaded.pool,
                            {.most_context = team_->portion.context, .whole_heads = team_->group.whole_heads}, [this] {
                                loop_.poll();
                                return may_rehearse();
                            });
        if (rehearsal) {
            rehearsal_ = std::move(*rehearsal);
            return;
        }
    }
    end_rehearsal();
}

void Session::rehearse() {
    if (!may_rehearse() || !rehearsal_->pass()) end_rehearsal();
}

// All are told, also by who has learnt nothing: they wait for it.
void Session::end_rehearsal() {
    const auto rehearsed = rehearsal_ == nullptr ? std::nullopt : rehearsal_->rehearsed();
    rehearsal_.reset();
    if (rehearsed) {
        rehearsed_bytes_ = infer::packed_bytes(team_->loaded.model->tensors());
        ability_.learn(*rehearsed, rehearsed_bytes_, static_cast<std::uint64_t>(2 * subject_.config.layers + 1));
    }
    team_->rehearsed = true;
    if (stage_ != Stage::whole) return;
    tell_able();
    forecast();
}

void Session::pass() {
    const auto began = Clock::now();
    const double waited = exchange_.waited_s();
    const bool computed = team_->scheduler->step();
    tell_askers();
    if (const auto& failure = team_->scheduler->failure(); failure) {
        if (!exchange_.interrupted()) return ports_.failed(*failure);
        return interrupt(failure->message);
    }
    if (stage_ != Stage::whole) return;
    if (computed) {
        ++passes_;
        if (team_->scheduler->computed() == 1) {
            const double whole = std::chrono::duration<double>(Clock::now() - began).count();
            paces_.add(whole, whole - (exchange_.waited_s() - waited));
        }
        const std::vector<std::byte>& attached = exchange_.attached_by(team_->division.chief());
        wire::Commands commands;
        if (!commands.ParseFromArray(attached.data(), static_cast<int>(attached.size())))
            return interrupt("the chief's commands cannot be read");
        apply(commands);
    }
    if (team_->scheduler->active() + team_->scheduler->waiting() > 0) return;
    if (const auto begun = std::exchange(team_->begun, std::nullopt)) return apply(*begun);
    team_->computing = false;
    begin_if_asked();
    tell_if_learnt();
    lead();
}

Session::State Session::state() const {
    State state;
    state.texts = texts_.size();
    state.passes = passes_;
    state.healed = healed_;
    if (leads())
        state.reasons = reasons_;
    else if (team_ != nullptr)
        state.reasons = reasons_from(team_->division.reasons());
    const std::string before = brief(self_) + " is left out: ";
    const auto own = std::ranges::find_if(state.reasons, [&](const auto& each) { return each.starts_with(before); });
    if (own != state.reasons.end()) state.left_out = own->substr(before.size());
    if (team_ == nullptr) return state;
    state.generation = team_->generation();
    state.members = members_of(team_->division);
    state.exchange = printable(team_->division.exchange());
    state.computes = team_->computes();
    state.whole = stage_ == Stage::whole;
    state.offers_less = !state.computes && offers_less(team_->division);
    state.slice = team_->portion.slice;
    if (team_->loaded.model != nullptr) state.weight_bytes = infer::packed_bytes(team_->loaded.model->tensors());
    state.predicted_s = predicted_s(team_->division);
    state.forecast = team_->forecast;
    state.measured_s = paces_.mean_s();
    state.measured_own_s = paces_.mean_own_s();
    return state;
}

}  // namespace chaos::tensor
