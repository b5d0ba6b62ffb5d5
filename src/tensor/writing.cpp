// The texts of a session: asked for by clients of any member, queued by the chief, computed by all who compute, and
// told to whoever asked.
#include "base/assert.h"
#include "tensor/session.h"
#include "tensor/wire.h"

#include <algorithm>

namespace chaos::tensor {
namespace {

using cluster::brief;
using Id = infer::Writer::Id;

// What a member may have waiting with the chief: more than it computes at once.
constexpr std::ptrdiff_t max_queued = 1024;

}  // namespace

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

}  // namespace chaos::tensor
