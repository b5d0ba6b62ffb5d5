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

// What a member may have waiting with the chief: more than is computed at once.
constexpr std::size_t max_queued = 1024;
constexpr std::size_t max_queued_bytes = 64 << 20;
constexpr const char* too_long = "the text is longer than a message to those who compute it";

// As it lies here: tokens are shorter on their way.
std::size_t memory_bytes(const wire::Ask& ask) {
    return ask.ByteSizeLong() + static_cast<std::size_t>(ask.tokens_size()) * sizeof(std::int32_t);
}

std::uint64_t incarnation_of(const wire::Command& command) {
    return command.has_ask() ? command.ask().incarnation() : command.drop().incarnation();
}

}  // namespace

void Session::ask(Id id, infer::Request request) {
    const auto [text, fresh] = texts_.emplace(id, Text{std::move(request)});
    CHAOS_ASSERT(fresh);
    look_at_rest();
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
    const auto cannot = [&](const std::string& why) {
        ended(id, {.ending = infer::Ending::failed,
                   .error = why,
                   .prompt_tokens = request.prompt.size() - request.drawn,
                   .reused_tokens = 0,
                   .tokens = request.drawn});
    };
    if (const auto sound = infer::check(request, team_->portion.context, subject_.config.vocab); !sound)
        return cannot(sound.error().message);
    wire::Work message;
    *message.mutable_ask() = to_wire(request);
    message.mutable_ask()->set_generation(team_->generation());
    message.mutable_ask()->set_number(id);
    message.mutable_ask()->set_incarnation(incarnation());
    if (message.ask().ByteSizeLong() > max_text_bytes) return cannot(too_long);
    tell_chief(message);
}

void Session::drop(Id id) {
    if (texts_.erase(id) == 0 || stage_ != Stage::whole) return;
    wire::Work message;
    message.mutable_drop()->set_generation(team_->generation());
    message.mutable_drop()->set_number(id);
    message.mutable_drop()->set_incarnation(incarnation());
    tell(team_->chief, message);
}

// Of the chief: what others ask for, in the order in which it comes; by those who know of a later division, too.
void Session::queue(NodeId asker, const wire::Work& message) {
    if (message.has_drop()) return queue_drop(asker, message.drop());
    const wire::Ask& ask = message.ask();
    if (team_ != nullptr && ask.generation() < team_->generation()) return;  // it asks again
    if (const auto fits = may_wait(asker, ask); !fits) return refuse(asker, ask, fits.error().message);
    Queued queued{.generation = ask.generation(), .asker = asker, .command = {}};
    *queued.command.mutable_asker() = to_wire(asker);
    *queued.command.mutable_ask() = ask;
    queue_.push_back(std::move(queued));
    begin_if_asked();
}

// Whoever asks may have so much waiting, in number and in memory, and nothing that can never be computed.
Result<void> Session::may_wait(NodeId asker, const wire::Ask& ask) const {
    if (ask.ByteSizeLong() > max_text_bytes) return Error{too_long};
    const auto most_context = static_cast<std::size_t>(subject_.config.max_context);
    CHAOS_CHECK(infer::check(request_from(ask), most_context, subject_.config.vocab));
    std::size_t texts = 1;
    std::size_t bytes = memory_bytes(ask);
    for (const Queued& each : queue_) {
        if (each.asker != asker || !each.command.has_ask()) continue;
        ++texts;
        bytes += memory_bytes(each.command.ask());
    }
    if (texts > max_queued || bytes > max_queued_bytes)
        return Error{"too many texts wait for those who compute together: ask again when some of them have ended"};
    return {};
}

// Whoever asked would wait for ever.
void Session::refuse(NodeId asker, const wire::Ask& ask, const std::string& why) {
    const auto tokens = static_cast<std::uint64_t>(ask.tokens_size());
    const infer::Ended how{.ending = infer::Ending::failed,
                           .error = why,
                           .prompt_tokens = tokens - std::min(tokens, ask.drawn()),
                           .reused_tokens = 0,
                           .tokens = ask.drawn()};
    if (asker == self_) return ended(ask.number(), how);
    wire::Work message;
    message.mutable_told()->set_generation(ask.generation());
    message.mutable_told()->set_number(ask.number());
    message.mutable_told()->set_incarnation(ask.incarnation());
    message.mutable_told()->set_drawn(ask.drawn());
    *message.mutable_told()->mutable_ended() = to_wire(how);
    tell_asker(asker, message);
}

// Where its text is still waiting, that is all. Of a later division nothing else can be: a text comes before its drop.
void Session::queue_drop(NodeId asker, const wire::Drop& drop) {
    const auto waiting = std::ranges::find_if(queue_, [&](const Queued& each) {
        return each.generation == drop.generation() && each.asker == asker && each.command.has_ask() &&
               each.command.ask().number() == drop.number() && each.command.ask().incarnation() == drop.incarnation();
    });
    if (waiting != queue_.end()) {
        queue_.erase(waiting);
        return;
    }
    if (!is_chief() || drop.generation() != team_->generation()) return;
    const auto drops = std::ranges::count_if(
        queue_, [&](const Queued& each) { return each.asker == asker && each.command.has_drop(); });
    if (static_cast<std::size_t>(drops) >= max_queued) return;  // more than it can have asked for
    Queued queued{.generation = drop.generation(), .asker = asker, .command = {}};
    *queued.command.mutable_asker() = to_wire(asker);
    *queued.command.mutable_drop() = drop;
    queue_.push_back(std::move(queued));
    begin_if_asked();
}

// This node's own, in the view.
std::uint64_t Session::incarnation() const {
    const cluster::MemberInfo* own = view_ == nullptr ? nullptr : view_->find(self_);
    return own == nullptr ? 0 : own->id.incarnation;
}

// Who is not yet a member here, but has a link, is coming; and whoever began anew has forgotten what it asked for.
bool Session::is_gone(const cluster::MemberId& asker) const {
    if (view_ == nullptr) return false;
    if (const cluster::MemberInfo* known = view_->find(asker.node)) return asker.incarnation < known->id.incarnation;
    const std::vector<NodeId> linked = ports_.linked();
    return std::ranges::find(linked, asker.node) == linked.end();
}

// They may have asked for what is to come, which is not forgotten with a division. What is being computed for them ends
// with the next commands.
void Session::forget_askers_that_are_gone() {
    std::erase_if(queue_, [&](const Queued& each) {
        return is_gone({.node = each.asker, .incarnation = incarnation_of(each.command)});
    });
}

// As many texts as there is room for, and whatever is not wanted any more; not more than a message carries well.
wire::Commands Session::next_commands() {
    wire::Commands commands;
    if (team_ == nullptr || !team_->scheduler) return commands;
    std::size_t taken = team_->scheduler->active() + team_->scheduler->waiting();
    std::size_t bytes = 0;
    bool full = false;
    for (const auto& [key, id] : team_->ids) {
        if (!is_gone(key.asker)) continue;
        wire::Command& command = *commands.add_commands();
        *command.mutable_asker() = to_wire(key.asker.node);
        command.mutable_drop()->set_generation(team_->generation());
        command.mutable_drop()->set_number(key.number);
        command.mutable_drop()->set_incarnation(key.asker.incarnation);
    }
    std::deque<Queued> later;
    for (Queued& queued : queue_) {
        const bool ask = queued.command.has_ask();
        if (queued.generation != team_->generation() || (ask && taken >= team_->portion.sequences) || full) {
            later.push_back(std::move(queued));
            continue;
        }
        if (ask) {
            const auto sound =
                infer::check(request_from(queued.command.ask()), team_->portion.context, subject_.config.vocab);
            if (!sound) {
                refuse(queued.asker, queued.command.ask(), sound.error().message);
                continue;
            }
        }
        const std::size_t more = queued.command.ByteSizeLong();
        full = bytes > 0 && bytes + more > max_commands_bytes;
        if (full) {
            later.push_back(std::move(queued));
            continue;
        }
        bytes += more;
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
        if (member != self_ && !ports_.send(member, message)) return interrupt("there is no way to " + brief(member));
    apply(message.begin().commands());
    team_->computing = true;
    look_at_rest();
}

void Session::apply(const wire::Commands& commands) {
    for (const wire::Command& command : commands.commands()) {
        const NodeId asker = node_from(command.asker());
        if (command.has_ask()) submit(asker, command.ask());
        if (!command.has_drop()) continue;
        const TextKey key{.asker = {.node = asker, .incarnation = incarnation_of(command)},
                          .number = command.drop().number()};
        if (const auto id = team_->ids.find(key); id != team_->ids.end()) team_->scheduler->cancel(id->second);
    }
    tell_askers();
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
infer::Listener Session::listener_for(const TextKey& key, std::uint64_t drawn) {
    const NodeId asker = key.asker.node;
    const Id number = key.number;
    if (asker == self_)
        return {.on_token =
                    [this, number](const infer::Sampled& sampled) {
                        this->drawn(number, sampled);
                        return true;
                    },
                .on_end = [this, number](const infer::Ended& how) { ended(number, how); }};
    const auto& members = team_->group.members;
    if (!is_chief() || std::ranges::find(members, asker) != members.end()) return {};
    return {
        .on_token =
            [this, key, drawn](const infer::Sampled& sampled) mutable {
                *telling(key, drawn++).add_sampled() = to_wire(sampled);
                return true;
            },
        .on_end = [this, key](const infer::Ended& how) { *telling(key, how.tokens).mutable_ended() = to_wire(how); }};
}

// What is said of a text at the end of this pass; `drawn`: how many of its tokens there are already, if that is nothing
// yet.
wire::Told& Session::telling(const TextKey& key, std::uint64_t drawn) {
    const auto [entry, fresh] = telling_.try_emplace(key);
    wire::Told& told = entry->second;
    if (fresh) {
        told.set_generation(team_->generation());
        told.set_number(key.number);
        told.set_incarnation(key.asker.incarnation);
        told.set_drawn(drawn);
    }
    return told;
}

void Session::tell_askers() {
    for (auto& [text, told] : std::exchange(telling_, {})) {
        wire::Work message;
        *message.mutable_told() = std::move(told);
        tell_asker(text.asker.node, message);
    }
}

// Nobody waits for what those who are gone had asked for.
void Session::tell_asker(NodeId asker, const wire::Work& message) {
    const bool sent = ports_.send(asker, message);
    if (!sent && view_ != nullptr && view_->has({.node = asker, .incarnation = message.told().incarnation()}))
        lost(message.told().generation());
}

// All members do the same.
void Session::submit(NodeId asker, const wire::Ask& ask) {
    const TextKey key{.asker = {.node = asker, .incarnation = ask.incarnation()}, .number = ask.number()};
    infer::Listener listener = listener_for(key, ask.drawn());
    listener.on_end = [this, key, team = team_.get(), then = std::move(listener.on_end)](const infer::Ended& how) {
        team->ids.erase(key);
        // What an interruption ends goes on later; so does, with others, what this node cannot go on with.
        if (how.ending == infer::Ending::failed && (exchange_.interrupted() || team->scheduler->failure())) return;
        if (then) then(how);
    };
    // The chief counts, as everybody does.
    if (team_->scheduler->active() + team_->scheduler->waiting() >= team_->portion.sequences)
        return ports_.note(brief(team_->chief) + " begins more texts than there is room for");
    const auto id = team_->scheduler->submit(request_from(ask), std::move(listener));
    if (id)
        team_->ids[key] = *id;
    else
        ports_.note("a request of " + brief(asker) + " makes no sense: " + id.error().message);
}

}  // namespace chaos::tensor
