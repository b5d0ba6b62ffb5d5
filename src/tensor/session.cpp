#include "tensor/session.h"

#include "base/assert.h"
#include "tensor/division.h"
#include "tensor/wire.h"

#include <boost/asio/post.hpp>

#include <algorithm>

namespace chaos::tensor {
namespace {

using cluster::brief;
using Id = infer::Writer::Id;

// Generations of a later view are later.
constexpr unsigned attempt_bits = 20;
// What a member may have waiting with the leader.
constexpr std::size_t max_queued = 4096;

std::vector<std::byte> encoded(const wire::Commands& commands) {
    std::vector<std::byte> bytes(commands.ByteSizeLong());
    commands.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
}

// Tokens of a pass: all members compute the same. Fewer where somebody has little memory.
std::size_t batch_of(const wire::Division& division, std::size_t sequences) {
    const bool little = std::ranges::any_of(
        division.members(), [](const wire::Division::Member& member) { return member.able().memory_bytes() > 0; });
    return little ? infer::Scheduler::min_batch(sequences) : infer::Engine::max_tokens;
}

// Whether everybody is linked with everybody: then sums go directly, else by the leader.
bool all_linked(const wire::Division& division) {
    const auto linked = [](const wire::Division::Member& a, const wire::Division::Member& b) {
        return std::ranges::any_of(a.able().linked(),
                                   [&](const wire::Node& node) { return node_from(node) == node_from(b.node()); });
    };
    return std::ranges::all_of(division.members(), [&](const wire::Division::Member& a) {
        return std::ranges::all_of(division.members(), [&](const wire::Division::Member& b) {
            return node_from(a.node()) == node_from(b.node()) || (linked(a, b) && linked(b, a));
        });
    });
}

}  // namespace

Session::Session(asio::io_context& loop, LinkExchange& exchange, NodeId self, const infer::Config& config,
                 const SessionOptions& options, Ports ports, std::shared_ptr<Gateway::Told> told)
    : loop_(loop),
      exchange_(exchange),
      self_(self),
      config_(config),
      options_(options),
      ports_(std::move(ports)),
      told_(std::move(told)) {
    exchange_.attach([this] { return leads() ? encoded(next_commands()) : std::vector<std::byte>(); });
}

Session::~Session() {
    if (loading_.joinable()) loading_.join();
}

// ---- who leads, who can

std::optional<NodeId> Session::leader() const {
    if (view_ == nullptr || view_->active_count() == 0) return std::nullopt;
    return view_->longest_standing();
}

wire::Able Session::able() const {
    wire::Able able;
    able.set_weight_bytes_per_s(options_.weight_bytes_per_s);
    able.set_memory_bytes(options_.memory_bytes);
    for (const NodeId peer : ports_.linked()) *able.add_linked() = to_wire(peer);
    return able;
}

void Session::tell_able() {
    ables_[self_] = able();
    wire::Work message;
    *message.mutable_able() = ables_[self_];
    for (const NodeId peer : ports_.linked()) (void)ports_.send(peer, message);
}

void Session::adopted(const ViewPtr& view) {
    view_ = view;
    ables_[self_] = able();
    unable_.clear();
    if (stage_ == Stage::loading || stage_ == Stage::whole) {
        const bool all_there =
            std::ranges::all_of(team_->group.members, [&](NodeId member) { return view_->is_active(member); });
        if (!all_there || leader() != team_->leader) break_up("there is another view");
    }
    look_at_divisions();
    lead();
}

void Session::excluded() {
    view_ = nullptr;
    break_up("this node is out");
}

void Session::link_up(NodeId) {
    tell_able();
    lead();
}

void Session::link_down(NodeId peer) {
    ables_.erase(peer);
    divisions_.erase(peer);
    if (needs_link_with(peer)) break_up("the link with " + brief(peer) + " is gone");
    tell_able();
    lead();
}

bool Session::needs_link_with(NodeId peer) const {
    if (stage_ != Stage::loading && stage_ != Stage::whole) return false;
    const auto& members = team_->group.members;
    const auto place = static_cast<std::size_t>(std::ranges::find(members, peer) - members.begin());
    if (place == members.size()) return false;
    const auto& parents = team_->group.parents;
    return parents.empty() || parents[place] == team_->group.self || parents[team_->group.self] == place;
}

// The active members that this one is linked with and that can take part, itself included.
std::vector<NodeId> Session::those_who_can() const {
    const std::vector<NodeId> linked = ports_.linked();
    std::vector<NodeId> result;
    for (const cluster::MemberInfo& member : view_->members) {
        const NodeId node = member.id.node;
        const bool here = node == self_ || std::ranges::find(linked, node) != linked.end();
        if (view_->is_active(node) && here && !unable_.contains(node)) result.push_back(node);
    }
    return result;
}

// The leader divides anew where the team is not the one it should be.
void Session::lead() {
    if (!leads() || !view_->is_active(self_)) return;
    const std::vector<NodeId> members = those_who_can();
    if (!std::ranges::all_of(members, [&](NodeId node) { return ables_.contains(node); })) return;
    const bool under_way = next_ && next_leader_ == self_;
    if (under_way) {
        std::vector<NodeId> planned;
        for (const wire::Division::Member& each : next_->members()) planned.push_back(node_from(each.node()));
        if (planned == members) return;
    } else if ((stage_ == Stage::loading || stage_ == Stage::whole) && team_->leader == self_ &&
               team_->group.members == members) {
        // Links that came later make a shorter way, for which no text need wait.
        const bool shorter = stage_ == Stage::whole && !team_->computing && !team_->group.parents.empty() &&
                             all_linked(facts_of(members));
        if (!shorter) return;
    }
    if (!members.empty()) divide(members);
}

wire::Division Session::facts_of(const std::vector<NodeId>& members) const {
    wire::Division division;
    for (const NodeId node : members) {
        wire::Division::Member& member = *division.add_members();
        *member.mutable_node() = to_wire(node);
        *member.mutable_able() = ables_.at(node);
    }
    return division;
}

void Session::divide(const std::vector<NodeId>& members) {
    generation_ = std::max(generation_ + 1, view_->epoch << attempt_bits);
    wire::Work message;
    wire::Division& division = *message.mutable_division();
    division = facts_of(members);
    division.set_generation(generation_);
    queue_.clear();
    for (const NodeId node : members)
        if (node != self_) (void)ports_.send(node, message);
    take(self_, division);
}

void Session::look_at_divisions() {
    const auto chief = leader();
    if (!chief) return;
    if (const auto found = divisions_.find(*chief); found != divisions_.end()) {
        const wire::Division division = found->second;
        take(*chief, division);
    }
}

// It is taken up between passes.
void Session::take(NodeId from, const wire::Division& division) {
    if (next_ && next_->generation() >= division.generation()) return;
    if (team_ != nullptr && team_->generation >= division.generation()) return;
    const bool in = std::ranges::any_of(
        division.members(), [&](const wire::Division::Member& member) { return node_from(member.node()) == self_; });
    if (!in) return;
    generation_ = std::max(generation_, division.generation());
    break_up("the model is divided anew");
    next_ = division;
    next_leader_ = from;
}

// ---- messages

void Session::received(NodeId from, const wire::Work& message) {
    if (message.has_able()) {
        ables_[from] = message.able();
        return lead();
    }
    if (message.has_division()) {
        divisions_[from] = message.division();
        if (leader() == from) take(from, message.division());
        return;
    }
    if (message.has_ready()) {
        ready_[from] = message.ready().generation();
        return begin_if_asked();
    }
    if (message.has_interrupted()) return received_interrupted(from, message.interrupted());
    if (message.has_ask() || message.has_drop()) return queue(from, message);
    if (message.has_begin() && stage_ == Stage::whole && from == team_->leader &&
        message.begin().generation() == team_->generation) {
        if (team_->computing) {
            team_->begun = message.begin().commands();
            return;
        }
        apply(message.begin().commands());
        team_->computing = true;
    }
}

void Session::received_interrupted(NodeId from, const wire::Interrupted& message) {
    if (!leads() || message.generation() != generation_) return;
    if (!message.why().empty()) {
        ports_.note(brief(from) + " cannot compute its slice: " + message.why());
        unable_.insert(from);
    }
    break_up("a member was interrupted");
    lead();
}

void Session::tell_leader(const wire::Work& message) {
    const auto chief = leader();
    if (!chief) return;
    if (*chief == self_)
        received(self_, message);
    else
        (void)ports_.send(*chief, message);
}

// Passes stop; what is in flight counts for nothing.
void Session::break_up(const std::string& why) {
    exchange_.interrupt(why);
    if (stage_ != Stage::loading && stage_ != Stage::whole) return;
    stage_ = Stage::broken;
    if (!texts_.empty()) ++healed_;
}

// ---- texts

void Session::ask(Id id, infer::Request request) {
    const auto [text, fresh] = texts_.emplace(id, Text{std::move(request)});
    CHAOS_ASSERT(fresh);
    if (stage_ == Stage::whole) ask_leader(id, text->second);
}

void Session::ask_leader(Id id, const Text& text) {
    wire::Work message;
    *message.mutable_ask() = to_wire(text.request);
    message.mutable_ask()->set_generation(team_->generation);
    message.mutable_ask()->set_number(id);
    tell_leader(message);
}

void Session::drop(Id id) {
    if (texts_.erase(id) == 0 || stage_ != Stage::whole) return;
    wire::Work message;
    message.mutable_drop()->set_generation(team_->generation);
    message.mutable_drop()->set_number(id);
    tell_leader(message);
}

// Of the leader: what members ask for, in the order in which it comes.
void Session::queue(NodeId asker, const wire::Work& message) {
    if (!leads()) return;
    wire::Command command;
    *command.mutable_asker() = to_wire(asker);
    if (message.has_ask()) {
        const infer::Request request = request_from(message.ask());
        if (message.ask().generation() != generation_ || queue_.size() >= max_queued) return;
        if (!infer::check(request, options_.context, config_.vocab)) return;
        *command.mutable_ask() = message.ask();
    } else {
        if (message.drop().generation() != generation_) return;
        const auto waiting = std::ranges::find_if(queue_, [&](const wire::Command& each) {
            return node_from(each.asker()) == asker && each.has_ask() && each.ask().number() == message.drop().number();
        });
        if (waiting != queue_.end()) {
            queue_.erase(waiting);
            return;
        }
        *command.mutable_drop() = message.drop();
    }
    queue_.push_back(std::move(command));
    begin_if_asked();
}

// As many texts as there is room for, and whatever is not wanted any more.
wire::Commands Session::next_commands() {
    wire::Commands commands;
    if (team_ == nullptr || !team_->scheduler) return commands;
    std::size_t taken = team_->scheduler->active() + team_->scheduler->waiting();
    std::deque<wire::Command> later;
    for (wire::Command& command : queue_) {
        if (command.has_ask() && taken >= options_.sequences) {
            later.push_back(std::move(command));
            continue;
        }
        if (command.has_ask()) ++taken;
        *commands.add_commands() = std::move(command);
    }
    queue_ = std::move(later);
    return commands;
}

bool Session::all_ready() const {
    return std::ranges::all_of(team_->group.members, [&](NodeId member) {
        const auto found = ready_.find(member);
        return found != ready_.end() && found->second == team_->generation;
    });
}

// Where nothing is being computed, the leader says when to begin.
void Session::begin_if_asked() {
    if (!leads() || stage_ != Stage::whole || team_->computing || queue_.empty() || !all_ready()) return;
    wire::Work message;
    message.mutable_begin()->set_generation(team_->generation);
    *message.mutable_begin()->mutable_commands() = next_commands();
    for (const NodeId member : team_->group.members)
        if (member != self_) (void)ports_.send(member, message);
    apply(message.begin().commands());
    team_->computing = true;
}

// ---- between passes

std::string Session::words_for(const Team& team) {
    const std::size_t others = team.group.members.size() - 1;
    if (others == 0) return "computes alone";
    const auto range = [](const infer::Extent& extent) {
        return std::to_string(extent.first) + " to " + std::to_string(extent.end());
    };
    return "computes with " + std::to_string(others) + (others == 1 ? " other" : " others") +
           (team.group.parents.empty() ? "" : ", by way of " + brief(team.leader)) + ": heads " +
           range(team.slice.heads) + ", FFN columns " + range(team.slice.ffn) + ", tokens " + range(team.slice.vocab);
}

bool Session::ready() const {
    if (arrived_ || (next_ && !loading_.joinable())) return true;
    return stage_ == Stage::whole && team_->computing;
}

void Session::compute() {
    if (arrived_) finish_loading();
    if (next_) start_loading();
    if (stage_ == Stage::whole && team_->computing) pass();
}

// The old slice goes first: there may be no room for both.
void Session::start_loading() {
    if (loading_.joinable()) return;  // one at a time
    if (leader() != next_leader_) return next_.reset();
    auto team = std::make_unique<Team>();
    std::vector<Ability> abilities;
    team->generation = next_->generation();
    team->leader = next_leader_;
    for (const wire::Division::Member& member : next_->members()) {
        if (node_from(member.node()) == self_) team->group.self = team->group.members.size();
        team->group.members.push_back(node_from(member.node()));
        abilities.push_back({.weight_bytes_per_s = member.able().weight_bytes_per_s()});
    }
    team->batch = batch_of(*next_, options_.sequences);
    if (!all_linked(*next_)) {
        const auto& members = team->group.members;
        const auto root = static_cast<std::size_t>(std::ranges::find(members, team->leader) - members.begin());
        team->group.parents.assign(members.size(), root);
    }
    next_.reset();
    team->group.generation = team->generation;
    team->slice = tensor::divide(config_, abilities)[team->group.self];
    // Sums of the largest batch, or all logits of all sequences, and commands beside them.
    const auto tokens = static_cast<std::uint64_t>(infer::Engine::max_tokens);
    team->group.max_message_bytes =
        std::max<std::uint64_t>(tokens * static_cast<std::uint64_t>(config_.width) * sizeof(std::int64_t),
                                tokens * static_cast<std::uint64_t>(config_.vocab + 1) * sizeof(float)) +
        (std::uint64_t{64} << 20);
    const bool same = team_ != nullptr && team_->loaded.model != nullptr && team_->slice == team->slice &&
                      team_->batch == team->batch;
    const LoadedSlice kept = same ? team_->loaded : LoadedSlice{};
    team_ = std::move(team);
    stage_ = Stage::loading;
    if (same) return take_up(kept);
    loading_ = std::thread([this, load = ports_.load, slice = team_->slice, batch = team_->batch] {
        auto loaded = std::make_shared<Result<LoadedSlice>>(load(slice, batch));
        asio::post(loop_, [this, loaded] { arrived_.emplace(std::move(*loaded)); });
    });
}

void Session::finish_loading() {
    loading_.join();
    Result<LoadedSlice> loaded = std::move(*arrived_);
    arrived_.reset();
    if (stage_ == Stage::loading) take_up(std::move(loaded));
}

// This member can compute.
void Session::take_up(Result<LoadedSlice> loaded) {
    const auto give_up = [&](const Error& why) {
        wire::Work message;
        message.mutable_interrupted()->set_generation(team_->generation);
        message.mutable_interrupted()->set_why(why.message);
        if (leads()) return ports_.failed(why);
        stage_ = Stage::broken;
        tell_leader(message);
    };
    if (!loaded) return give_up(loaded.error());
    team_->loaded = std::move(*loaded);
    team_->engine.emplace(*team_->loaded.model, *team_->loaded.pool, &exchange_);
    auto scheduler = infer::Scheduler::make(*team_->engine, {.sequences = options_.sequences,
                                                             .context = options_.context,
                                                             .kv_type = options_.kv_type,
                                                             .speculate = options_.speculate,
                                                             .batch = team_->batch});
    if (!scheduler) return give_up(scheduler.error());
    team_->scheduler.emplace(std::move(*scheduler));
    exchange_.begin(team_->group);
    stage_ = Stage::whole;
    ports_.note(words_for(*team_));
    ports_.whole();
    wire::Work message;
    message.mutable_ready()->set_generation(team_->generation);
    tell_leader(message);
    for (const auto& [id, text] : texts_) ask_leader(id, text);
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

// All members do the same; the one that was asked hears what comes of it.
void Session::submit(NodeId asker, const wire::Ask& ask) {
    const std::pair key{asker, ask.number()};
    infer::Listener listener;
    if (asker == self_) {
        listener.on_token = [this, id = ask.number()](const infer::Sampled& sampled) {
            const auto text = texts_.find(id);
            if (text == texts_.end()) return true;  // its end is on its way to the others
            text->second.request.prompt.push_back(sampled.token);
            ++text->second.request.drawn;
            told_->tell(id, sampled);
            return true;
        };
    }
    listener.on_end = [this, key, team = team_.get()](const infer::Ended& ended) {
        team->ids.erase(key);
        // What an interruption ends goes on later.
        if (ended.ending == infer::Ending::failed && exchange_.interrupted()) return;
        if (key.first == self_ && texts_.erase(key.second) > 0) told_->tell(key.second, ended);
    };
    const auto id = team_->scheduler->submit(request_from(ask), std::move(listener));
    if (id)
        team_->ids[key] = *id;
    else
        ports_.note("a request of " + brief(asker) + " makes no sense: " + id.error().message);
}

void Session::pass() {
    const bool computed = team_->scheduler->step();
    if (const auto& failure = team_->scheduler->failure(); failure) {
        if (!exchange_.interrupted()) return ports_.failed(*failure);
        // The others may wait for what does not come.
        break_up(failure->message);
        wire::Work message;
        message.mutable_interrupted()->set_generation(team_->generation);
        return tell_leader(message);
    }
    if (computed) {
        ++passes_;
        const std::size_t chief = static_cast<std::size_t>(std::ranges::find(team_->group.members, team_->leader) -
                                                           team_->group.members.begin());
        const std::vector<std::byte>& attached = exchange_.attached_by(chief);
        wire::Commands commands;
        if (!commands.ParseFromArray(attached.data(), static_cast<int>(attached.size()))) {
            exchange_.interrupt("the leader's commands cannot be read");
            return break_up("the leader's commands cannot be read");
        }
        apply(commands);
    }
    if (team_->scheduler->active() + team_->scheduler->waiting() > 0) return;
    if (const auto begun = std::exchange(team_->begun, std::nullopt)) return apply(*begun);
    team_->computing = false;
    begin_if_asked();
    lead();
}

Session::State Session::state() const {
    State state;
    state.texts = texts_.size();
    state.passes = passes_;
    state.healed = healed_;
    if (team_ == nullptr) return state;
    state.generation = team_->generation;
    state.members = team_->group.members;
    state.whole = stage_ == Stage::whole;
    state.slice = team_->slice;
    return state;
}

}  // namespace chaos::tensor
