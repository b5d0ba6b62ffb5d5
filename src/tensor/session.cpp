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

// Generations of a later view are later.
constexpr unsigned attempt_bits = 20;
// What a member may have waiting with the chief: more than it computes at once.
constexpr std::ptrdiff_t max_queued = 1024;
// What a division must promise, as a share of the one there is, to be worth an interruption: where texts are being
// written, where nothing is, and by what was measured.
constexpr double worth_while_writing = 0.9;
constexpr double worth_when_idle = 0.97;
constexpr double worth_by_measure = 0.85;
constexpr std::chrono::seconds replan_interval{10};
constexpr std::chrono::minutes experience_lasts{10};
// What is told again.
constexpr double worth_telling = 0.1;

std::vector<std::byte> encoded(const wire::Commands& commands) {
    std::vector<std::byte> bytes(commands.ByteSizeLong());
    commands.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
}

double seconds(std::uint64_t nanoseconds) {
    return static_cast<double>(nanoseconds) * 1e-9;
}

std::vector<NodeId> members_of(const wire::Division& division) {
    std::vector<NodeId> members;
    for (const wire::Division::Member& member : division.members()) members.push_back(node_from(member.node()));
    return members;
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
      ability_(options.speed) {
    exchange_.attach([this] { return is_chief() ? encoded(next_commands()) : std::vector<std::byte>(); });
}

Session::~Session() {
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
    for (const NodeId peer : ports_.linked()) {
        const auto times = ports_.times(peer);
        if (!times) continue;
        wire::Able::Link& link = *able.add_links();
        *link.mutable_peer() = to_wire(peer);
        link.set_little_ns(static_cast<std::uint64_t>(times->little.count()));
        link.set_much_ns(static_cast<std::uint64_t>(times->much.count()));
    }
    return able;
}

// Once it is known how long messages to all neighbours take.
void Session::tell_able() {
    ables_[self_] = able();
    const std::vector<NodeId> linked = ports_.linked();
    const bool known = std::ranges::all_of(
        linked, [&](NodeId peer) { return view_ == nullptr || view_->find(peer) == nullptr || ports_.times(peer); });
    if (!known) return;
    wire::Work message;
    *message.mutable_able() = ables_[self_];
    for (const NodeId peer : linked) (void)ports_.send(peer, message);
}

void Session::tell_if_learnt() {
    if (!paces_.tell() || !team_->loaded.model) return;
    experience_[members_of(team_->division)] = {.token_s = paces_.usual_s(), .when = Clock::now()};
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
    view_ = view;
    unable_.clear();
    considered_.clear();
    if (stage_ != Stage::none && stage_ != Stage::broken) {
        const bool all_there =
            std::ranges::all_of(team_->group.members, [&](NodeId member) { return view_->is_active(member); });
        if (!all_there || leader() != team_->leader || !view_->is_active(team_->chief))
            break_up("there is another view");
    }
    tell_able();
    look_at_divisions();
    lead();
}

void Session::excluded() {
    view_ = nullptr;
    break_up("this node is out");
}

void Session::link_up(NodeId) {
    tell_able();
}

void Session::measured(NodeId) {
    tell_able();
    lead();
}

void Session::link_down(NodeId peer) {
    ables_.erase(peer);
    divisions_.erase(peer);
    if (needs_link_with(peer)) interrupt("the link with " + brief(peer) + " is gone");
    tell_able();
    lead();
}

bool Session::needs_link_with(NodeId peer) const {
    if (stage_ == Stage::none || stage_ == Stage::broken) return false;
    if (!team_->computes()) return peer == team_->chief;
    const auto& members = team_->group.members;
    const auto place = static_cast<std::size_t>(std::ranges::find(members, peer) - members.begin());
    if (place == members.size()) return false;
    const auto& parents = team_->group.parents;
    return parents.empty() || parents[place] == team_->group.self || parents[team_->group.self] == place;
}

// ---- the leader

// The active members that this one is linked with and that have told what they can do, itself included.
std::vector<NodeId> Session::those_who_can() const {
    const std::vector<NodeId> linked = ports_.linked();
    std::vector<NodeId> result;
    for (const cluster::MemberInfo& member : view_->members) {
        const NodeId node = member.id.node;
        const bool here = node == self_ || std::ranges::find(linked, node) != linked.end();
        if (view_->is_active(node) && here && ables_.contains(node) && !unable_.contains(node)) result.push_back(node);
    }
    return result;
}

// Whether a division of ours is in force, or about to be.
bool Session::under_way() const {
    if (next_) return next_leader_ == self_;
    return stage_ != Stage::none && stage_ != Stage::broken && team_->leader == self_;
}

// The leader divides anew where another division is better than what there is.
void Session::lead() {
    if (!leads() || !view_->is_active(self_)) return;
    const std::vector<NodeId> members = those_who_can();
    if (members.empty()) return;
    const bool idle = !team_ || !team_->computing;
    const bool due = idle && Clock::now() - planned_ > replan_interval;
    if (members == considered_ && (!due || ahead_)) return;
    std::vector<Fact> facts;
    facts.reserve(members.size());
    for (const NodeId node : members) facts.push_back({.node = node, .able = ables_.at(node)});
    auto divided = tensor::divide(subject_.config, subject_.tensors, std::move(facts), self_, options_.everyone);
    const bool again = members == considered_;
    considered_ = members;
    planned_ = Clock::now();
    ahead_.reset();
    if (!divided) return ports_.note("cannot divide the model: " + divided.error().message);
    reasons_ = divided->plan.reasons;
    if (!under_way()) return divide(std::move(*divided));
    const wire::Division& current = next_ ? *next_ : team_->division;
    if (!same(divided->division, current)) {
        if (is_worth_it(divided->division)) return prepare(std::move(*divided));
        if (!idle) considered_.clear();  // later, when nothing is being written
    }
    // Whoever came has to know whom to ask.
    if (!again) send_to_all(current);
}

bool Session::is_worth_it(const wire::Division& division) const {
    if (options_.everyone || next_) return true;
    double promised = seconds(division.predicted_ns());
    // What these members took lately counts more than what a plan says.
    const auto known = experience_.find(members_of(division));
    if (known != experience_.end() && Clock::now() - known->second.when < experience_lasts)
        promised = std::max(promised, known->second.token_s);
    if (paces_.tell()) return promised < worth_by_measure * paces_.usual_s();
    return promised <
           (team_->computing ? worth_while_writing : worth_when_idle) * seconds(team_->division.predicted_ns());
}

void Session::send_to_all(const wire::Division& division) {
    wire::Work message;
    *message.mutable_division() = division;
    for (const NodeId node : ports_.linked())
        if (view_->is_active(node)) (void)ports_.send(node, message);
}

// Everybody gets what it will need, while what there is goes on.
void Session::prepare(Divided divided) {
    wire::Division& division = divided.division;
    generation_ = std::max(generation_ + 1, view_->epoch << attempt_bits);
    division.set_generation(generation_);
    division.set_ahead(true);
    const wire::Division told = division;
    ahead_ = Ahead{.divided = std::move(divided), .waited_for = {}};
    for (const wire::Division::Member& member : told.members()) ahead_->waited_for.insert(node_from(member.node()));
    send_to_all(told);
    if (place_of(told, self_) < ahead_->waited_for.size()) received_ahead(self_, told);
}

void Session::divide(Divided divided) {
    generation_ = std::max(generation_ + 1, view_->epoch << attempt_bits);
    divided.division.set_generation(generation_);
    divided.division.set_ahead(false);
    ahead_.reset();
    for (const std::string& reason : reasons_) ports_.note(reason);
    divided_ = std::move(divided);
    send_to_all(divided_->division);
    take(self_, divided_->division);
}

// Once everybody who computes has rehearsed, and before anything was computed.
void Session::forecast() {
    if (!leads() || !divided_ || stage_ != Stage::whole || next_ ||
        team_->generation() != divided_->division.generation())
        return;
    const auto has_rehearsed = [&](const wire::Division::Member& member) {
        const auto found = ables_.find(node_from(member.node()));
        return found != ables_.end() && found->second.rehearsed() == team_->generation();
    };
    const bool known = std::ranges::all_of(divided_->nodes, [&](NodeId node) { return ables_.contains(node); });
    if (!known || !std::ranges::all_of(divided_->division.members(), has_rehearsed)) return;
    predict_anew(subject_.config, subject_.tensors, ables_, *divided_);
    reasons_ = divided_->plan.reasons;
    wire::Work message;
    message.mutable_forecast()->set_generation(team_->generation());
    message.mutable_forecast()->set_predicted_ns(divided_->division.predicted_ns());
    for (const NodeId node : ports_.linked())
        if (view_->is_active(node)) (void)ports_.send(node, message);
    received_forecast(self_, message.forecast());
}

void Session::received_forecast(NodeId from, const wire::Forecast& message) {
    if (stage_ != Stage::whole || from != team_->leader || message.generation() != team_->generation()) return;
    // What was expected of tokens that have come is not changed by them.
    if (paces_.mean_s()) return;
    const std::string before = words_for(*team_);
    team_->division.set_predicted_ns(message.predicted_ns());
    if (const std::string words = words_for(*team_); words != before) ports_.note(words);
}

void Session::received_ahead(NodeId from, const wire::Division& division) {
    const std::size_t place = place_of(division, self_);
    if (leader() != from || !check_division(subject_.config, division) ||
        place == static_cast<std::size_t>(division.members_size()))
        return;
    // One thing after the other: what is in force comes first.
    if (stage_ == Stage::getting || next_) {
        later_ = division;
        return;
    }
    ports_.get(slice_of(division, place), [this, from, generation = division.generation()](const Result<void>& got) {
        if (!got) return tell_unable(from, generation, got.error());
        wire::Work message;
        message.mutable_prepared()->set_generation(generation);
        tell(from, message);
    });
}

void Session::received_prepared(NodeId from, const wire::Prepared& message) {
    if (!leads() || !ahead_ || ahead_->divided.division.generation() != message.generation()) return;
    ahead_->waited_for.erase(from);
    if (ahead_->waited_for.empty()) divide(Divided(ahead_->divided));
}

void Session::received_interrupted(NodeId from, const wire::Interrupted& message) {
    if (!leads()) return;
    const bool prepares = ahead_ && ahead_->divided.division.generation() == message.generation();
    const bool computes = team_ != nullptr && team_->generation() == message.generation();
    const bool next = next_ && next_->generation() == message.generation();
    if (!prepares && !computes && !next) return;
    if (!message.why().empty()) {
        ports_.note(brief(from) + " cannot compute its slice: " + printable(message.why()));
        unable_.insert(from);
    }
    considered_.clear();
    if (next) next_.reset();
    if (computes || next) break_up("a member was interrupted");
    lead();
}

// ---- divisions

void Session::look_at_divisions() {
    const auto from = leader();
    if (!from) return;
    if (const auto found = divisions_.find(*from); found != divisions_.end()) {
        const wire::Division division = found->second;
        take(*from, division);
    }
}

// It is taken up between passes.
void Session::take(NodeId from, const wire::Division& division) {
    if (next_ && next_->generation() >= division.generation()) return;
    if (team_ != nullptr && team_->generation() >= division.generation()) return;
    if (const auto sound = check_division(subject_.config, division); !sound)
        return ports_.note(brief(from) + ": " + sound.error().message);
    generation_ = std::max(generation_, division.generation());
    break_up("the model is divided anew");
    next_ = division;
    next_leader_ = from;
}

// ---- messages

void Session::received(NodeId from, const wire::Work& message) {
    if (message.has_able()) {
        wire::Able& known = ables_[from];
        if (known.links_size() != message.able().links_size()) considered_.clear();
        const bool rehearsed = known.rehearsed() != message.able().rehearsed();
        known = message.able();
        lead();
        if (rehearsed) forecast();
        return;
    }
    if (message.has_division()) {
        if (message.division().ahead()) return received_ahead(from, message.division());
        divisions_[from] = message.division();
        if (leader() == from) take(from, message.division());
        return;
    }
    if (message.has_ready()) {
        ready_[from] = message.ready().generation();
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
}

void Session::received_told(NodeId from, const wire::Told& message) {
    if (stage_ != Stage::whole || from != team_->chief || message.generation() != team_->generation()) return;
    const std::int64_t token = message.sampled().token();
    if (message.has_sampled() && token >= 0 && token < subject_.config.vocab)
        drawn(message.number(), sampled_from(message.sampled()));
    if (message.has_ended()) ended(message.number(), ended_from(message.ended()));
}

void Session::tell(NodeId to, const wire::Work& message) {
    if (to == self_)
        received(self_, message);
    else
        (void)ports_.send(to, message);
}

// Passes stop; what is in flight counts for nothing.
void Session::break_up(const std::string& why) {
    exchange_.interrupt(why);
    if (stage_ == Stage::none || stage_ == Stage::broken) return;
    stage_ = Stage::broken;
    if (!texts_.empty()) ++healed_;
}

// The others may wait for what does not come: the leader divides anew.
void Session::interrupt(const std::string& why) {
    break_up(why);
    considered_.clear();
    wire::Work message;
    message.mutable_interrupted()->set_generation(team_->generation());
    if (const auto to = leader()) tell(*to, message);
}

// ---- texts

void Session::ask(Id id, infer::Request request) {
    const auto [text, fresh] = texts_.emplace(id, Text{std::move(request)});
    CHAOS_ASSERT(fresh);
    if (stage_ == Stage::whole) ask_chief(id);
}

void Session::ask_for_all() {
    std::vector<Id> ids;
    ids.reserve(texts_.size());
    for (const auto& [id, text] : texts_) ids.push_back(id);
    for (const Id id : ids) ask_chief(id);
}

void Session::ask_chief(Id id) {
    const infer::Request& request = texts_.at(id).request;
    if (const auto sound = infer::check(request, team_->portion.context, subject_.config.vocab); !sound)
        return ended(id, {.ending = infer::Ending::failed,
                          .error = sound.error().message,
                          .prompt_tokens = request.prompt.size() - request.drawn,
                          .reused_tokens = 0,
                          .tokens = request.drawn});
    wire::Work message;
    *message.mutable_ask() = to_wire(request);
    message.mutable_ask()->set_generation(team_->generation());
    message.mutable_ask()->set_number(id);
    tell(team_->chief, message);
}

void Session::drop(Id id) {
    if (texts_.erase(id) == 0 || stage_ != Stage::whole) return;
    wire::Work message;
    message.mutable_drop()->set_generation(team_->generation());
    message.mutable_drop()->set_number(id);
    tell(team_->chief, message);
}

// Of the chief: what others ask for, in the order in which it comes; by those who know of a later division, too.
void Session::queue(NodeId asker, const wire::Work& message) {
    const std::uint64_t generation = message.has_ask() ? message.ask().generation() : message.drop().generation();
    if (team_ != nullptr && generation < team_->generation()) return;
    const auto is_its = [&](const Queued& each) { return node_from(each.command.asker()) == asker; };
    if (std::ranges::count_if(queue_, is_its) >= max_queued) return;
    if (message.has_ask() && message.ask().tokens_size() > subject_.config.max_context) return;
    Queued queued{.generation = generation, .command = {}};
    *queued.command.mutable_asker() = to_wire(asker);
    if (message.has_ask()) {
        *queued.command.mutable_ask() = message.ask();
    } else {
        const auto waiting = std::ranges::find_if(queue_, [&](const Queued& each) {
            return each.generation == generation && node_from(each.command.asker()) == asker &&
                   each.command.has_ask() && each.command.ask().number() == message.drop().number();
        });
        if (waiting != queue_.end()) {
            queue_.erase(waiting);
            return;
        }
        *queued.command.mutable_drop() = message.drop();
    }
    queue_.push_back(std::move(queued));
    begin_if_asked();
}

// As many texts as there is room for, and whatever is not wanted any more.
wire::Commands Session::next_commands() {
    wire::Commands commands;
    if (team_ == nullptr || !team_->scheduler) return commands;
    std::size_t taken = team_->scheduler->active() + team_->scheduler->waiting();
    std::deque<Queued> later;
    for (Queued& queued : queue_) {
        const bool ask = queued.command.has_ask();
        if (queued.generation != team_->generation() || (ask && taken >= team_->portion.sequences)) {
            later.push_back(std::move(queued));
            continue;
        }
        // Who asked for what cannot be computed has been told by its own node.
        if (ask && !infer::check(request_from(queued.command.ask()), team_->portion.context, subject_.config.vocab))
            continue;
        if (ask) ++taken;
        *commands.add_commands() = std::move(queued.command);
    }
    queue_ = std::move(later);
    return commands;
}

bool Session::all_ready() const {
    return std::ranges::all_of(team_->group.members, [&](NodeId member) {
        const auto found = ready_.find(member);
        return found != ready_.end() && found->second == team_->generation();
    });
}

// Where nothing is being computed, the chief says when to begin.
void Session::begin_if_asked() {
    if (!is_chief() || stage_ != Stage::whole || team_->computing || !all_ready()) return;
    wire::Work message;
    message.mutable_begin()->set_generation(team_->generation());
    *message.mutable_begin()->mutable_commands() = next_commands();
    if (message.begin().commands().commands().empty()) return;
    for (const NodeId member : team_->group.members)
        if (member != self_) (void)ports_.send(member, message);
    apply(message.begin().commands());
    team_->computing = true;
}

// ---- between passes

std::string Session::words_for(const Team& team) const {
    const std::string expecting =
        ", expecting " + milliseconds_text(seconds(team.division.predicted_ns())) + " per token";
    if (!team.computes()) return "passes requests on to " + brief(team.chief) + expecting;
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
        for (const wire::Division::Member& member : division.members()) {
            team->group.members.push_back(node_from(member.node()));
            if (!division.direct()) team->group.parents.push_back(member.parent());
        }
        // Sums of the largest batch, or all logits of all sequences, and commands beside them.
        const auto tokens = static_cast<std::uint64_t>(infer::Engine::max_tokens);
        const auto width = static_cast<std::uint64_t>(subject_.config.width);
        const auto vocab = static_cast<std::uint64_t>(subject_.config.vocab);
        team->group.max_message_bytes =
            std::max<std::uint64_t>(tokens * width * sizeof(std::int64_t), tokens * (vocab + 1) * sizeof(float)) +
            (std::uint64_t{64} << 20);
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

// This node cannot have the slice; others may do without it.
void Session::give_up(const Error& why) {
    stage_ = Stage::broken;
    const bool alone = team_->group.members.size() == 1 && those_who_can().size() <= 1;
    if (leads() && alone) return ports_.failed(why);
    if (const auto to = leader()) tell_unable(*to, team_->generation(), why);
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
    auto scheduler = infer::Scheduler::make(*team_->engine, {.sequences = team_->portion.sequences,
                                                             .context = team_->portion.context,
                                                             .kv_type = options_.kv_type,
                                                             .speculate = options_.speculate,
                                                             .batch = team_->portion.batch});
    if (!scheduler) return give_up(scheduler.error());
    team_->scheduler.emplace(std::move(*scheduler));
    exchange_.begin(team_->group);
    wire::Work message;
    message.mutable_ready()->set_generation(team_->generation());
    is_whole();
    tell(team_->chief, message);
}

void Session::is_whole() {
    stage_ = Stage::whole;
    ports_.note(words_for(*team_));
    ports_.whole();
    const auto later = std::exchange(later_, std::nullopt);
    if (later && later->generation() > team_->generation())
        received_ahead(team_->leader, *later);
    else
        ports_.get_rest();
    ask_for_all();
    begin_rehearsal();
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
        auto rehearsal = Rehearsal::make(*model, *team_->loaded.pool, options_.kv_type, team_->portion.context, [this] {
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

void Session::apply(const wire::Commands& commands) {
    for (const wire::Command& command : commands.commands()) {
        const NodeId asker = node_from(command.asker());
        if (command.has_ask()) submit(asker, command.ask());
        if (!command.has_drop()) continue;
        if (const auto id = team_->ids.find({asker, command.drop().number()}); id != team_->ids.end())
            team_->scheduler->cancel(id->second);
    }
}

void Session::drawn(Id id, const infer::Sampled& sampled) {
    const auto text = texts_.find(id);
    if (text == texts_.end()) return;  // its end is on its way to the others
    text->second.request.prompt.push_back(sampled.token);
    ++text->second.request.drawn;
    told_->tell(id, sampled);
}

void Session::ended(Id id, const infer::Ended& ended) {
    if (texts_.erase(id) > 0) told_->tell(id, ended);
}

// The one that asked hears what comes of it: by itself, or, where it does not compute, by the chief.
infer::Listener Session::listener_for(NodeId asker, Id number) {
    if (asker == self_)
        return {.on_token =
                    [this, number](const infer::Sampled& sampled) {
                        drawn(number, sampled);
                        return true;
                    },
                .on_end = [this, number](const infer::Ended& how) { ended(number, how); }};
    const auto& members = team_->group.members;
    if (!is_chief() || std::ranges::find(members, asker) != members.end()) return {};
    wire::Work message;
    message.mutable_told()->set_generation(team_->generation());
    message.mutable_told()->set_number(number);
    return {.on_token =
                [this, asker, message](const infer::Sampled& sampled) mutable {
                    *message.mutable_told()->mutable_sampled() = to_wire(sampled);
                    (void)ports_.send(asker, message);
                    return true;
                },
            .on_end =
                [this, asker, message](const infer::Ended& how) mutable {
                    *message.mutable_told()->mutable_ended() = to_wire(how);
                    (void)ports_.send(asker, message);
                }};
}

// All members do the same.
void Session::submit(NodeId asker, const wire::Ask& ask) {
    const std::pair key{asker, ask.number()};
    infer::Listener listener = listener_for(asker, ask.number());
    listener.on_end = [this, key, team = team_.get(), then = std::move(listener.on_end)](const infer::Ended& how) {
        team->ids.erase(key);
        // What an interruption ends goes on later.
        if (how.ending == infer::Ending::failed && exchange_.interrupted()) return;
        if (then) then(how);
    };
    const auto id = team_->scheduler->submit(request_from(ask), std::move(listener));
    if (id)
        team_->ids[key] = *id;
    else
        ports_.note("a request of " + brief(asker) + " makes no sense: " + id.error().message);
}

void Session::pass() {
    const auto began = Clock::now();
    const double waited = exchange_.waited_s();
    const bool computed = team_->scheduler->step();
    if (const auto& failure = team_->scheduler->failure(); failure) {
        if (!exchange_.interrupted()) return ports_.failed(*failure);
        return interrupt(failure->message);
    }
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
    if (leads()) state.reasons = reasons_;
    if (team_ == nullptr) return state;
    state.generation = team_->generation();
    state.members = members_of(team_->division);
    state.exchange = printable(team_->division.exchange());
    state.computes = team_->computes();
    state.whole = stage_ == Stage::whole;
    state.slice = team_->portion.slice;
    if (team_->loaded.model != nullptr) state.weight_bytes = infer::packed_bytes(team_->loaded.model->tensors());
    state.predicted_s = seconds(team_->division.predicted_ns());
    state.measured_s = paces_.mean_s();
    state.measured_own_s = paces_.mean_own_s();
    return state;
}

}  // namespace chaos::tensor
