// A session as its leader leads it: who is to have which slice, whether another division is worth it, and what a token
// will take.
#include "base/words.h"
#include "tensor/session.h"
#include "tensor/wire.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace chaos::tensor {
namespace {

using cluster::brief;

// Generations of a later view are later.
constexpr unsigned attempt_bits = 20;
// What nobody can have taken up: whoever says so must not make an end of all generations.
constexpr std::uint64_t max_taken = std::uint64_t{1} << 63;
// Nor what is later than all this leader knows of by more than other lines of views can be.
constexpr std::uint64_t most_ahead = std::uint64_t{1} << 44;
// Whoever interrupts the others more often is left out for a while; each time is forgiven after so long.
constexpr double few_interruptions = 5.0;
constexpr std::chrono::seconds forgiven_after{10};
constexpr std::chrono::minutes aside_for{1};
constexpr std::chrono::minutes longest_retry_pause{5};
// What a division must promise, as a share of the one there is, to be worth an interruption: where texts are being
// written, where nothing is, and by what was measured.
constexpr double worth_while_writing = 0.9;
constexpr double worth_when_idle = 0.97;
constexpr double worth_by_measure = 0.85;
constexpr std::chrono::seconds replan_interval{10};
constexpr std::chrono::minutes experience_lasts{10};

}  // namespace

// The active members that have told what they can do, this one included. Who would heed no division has no part.
std::vector<NodeId> Session::those_who_can() const {
    std::vector<NodeId> result;
    for (const cluster::MemberInfo& member : view_->members) {
        const NodeId node = member.id.node;
        const auto able = ables_.find(node);
        if (view_->is_active(node) && able != ables_.end() && !unable_.contains(node) &&
            believes(node, able->second.taken()))
            result.push_back(node);
    }
    return result;
}

// Why it has no part, where no plan says so.
std::string Session::why_left_out(NodeId node, const Divided& planned) const {
    if (!view_->is_active(node)) return "it is being let in";
    if (const auto unable = unable_.find(node); unable != unable_.end())
        return "it could not load its part: " + unable->second;
    if (const auto aside = aside_.find(node); aside != aside_.end())
        return "for a minute, because " + aside->second.why;
    if (unsound_.contains(node)) return "it says of itself what cannot be";
    const auto able = ables_.find(node);
    if (able == ables_.end()) return "it has not said yet what it can do";
    if (!believes(node, able->second.taken())) return "it says that it has taken up divisions that cannot be";
    if (able->second.context() < planned.division.context() || able->second.sequences() < planned.division.sequences())
        return "it offers shorter texts, or fewer at once, than the others write";
    if (std::ranges::find(planned.nodes, node) == planned.nodes.end())
        return "others are faster, and no more than " + std::to_string(plan::max_tensor_devices) + " compute";
    return "with it a token would not be so much faster that the others should be interrupted";
}

// Of what is in force, and why everybody else has no part of it: as was said when there was a plan with them.
std::vector<std::string> Session::reasons_of(const Divided& in_force, const Divided& planned,
                                             const std::vector<std::string>& said) const {
    const std::string left_out = " is left out: ";
    std::vector<std::string> reasons;
    std::ranges::copy_if(in_force.plan.reasons, std::back_inserter(reasons),
                         [&](const std::string& each) { return each.find(left_out) == std::string::npos; });
    const std::vector<NodeId> members = members_of(in_force.division);
    for (const cluster::MemberInfo& member : view_->members) {
        const NodeId node = member.id.node;
        if (std::ranges::find(members, node) != members.end()) continue;
        const std::string begin = brief(node) + left_out;
        const auto known = std::ranges::find_if(said, [&](const auto& each) { return each.starts_with(begin); });
        reasons.push_back(known != said.end() ? *known : begin + why_left_out(node, planned));
    }
    return reasons;
}

// Those of them who may get a slice; where texts under way are to fit, and anybody has room for them, only who has.
std::vector<Fact> Session::facts_of(const std::vector<NodeId>& members, Texts texts) const {
    const wire::Division* group = next_ ? &*next_ : team_ != nullptr ? &team_->division : nullptr;
    std::vector<Fact> all;
    std::vector<Fact> enough;
    for (const NodeId node : members) {
        const Fact& fact = all.emplace_back(Fact{.node = node, .able = ables_.at(node)});
        if (group == nullptr || texts == Texts::end ||
            (fact.able.context() >= group->context() && fact.able.sequences() >= group->sequences()))
            enough.push_back(fact);
    }
    std::vector<Fact> facts = enough.empty() ? std::move(all) : std::move(enough);
    if (facts.size() <= plan::max_tensor_devices) return facts;
    std::ranges::stable_sort(facts, std::greater(), [](const Fact& each) { return each.able.weight_bytes_per_s(); });
    facts.resize(plan::max_tensor_devices);
    return facts;
}

// Whether a division of ours is in force, or about to be.
bool Session::under_way() const {
    if (next_) return next_leader_ == self_;
    return stage_ != Stage::none && stage_ != Stage::broken && team_->leader == self_;
}

// The division that is in force, or about to be.
const wire::Division& Session::current() const {
    return next_ ? *next_ : team_->division;
}

// Whether somebody would not heed the division that there is, because it has taken up a later one, in another line.
bool Session::is_outdone() const {
    return std::ranges::any_of(ables_, [&](const auto& each) {
        const auto& [node, able] = each;
        const bool has_part = place_of(current(), node) < static_cast<std::size_t>(current().members_size());
        return view_->is_active(node) && able.taken() > current().generation() &&
               (has_part || believes(node, able.taken()));
    });
}

bool Session::believes(NodeId node, std::uint64_t taken) const {
    const std::uint64_t newest = std::max({generation_, past_, view_->epoch << attempt_bits});
    return taken < max_taken && taken - std::min(taken, newest) <= most_ahead && !aside_.contains(node);
}

// A link that comes and goes, or somebody who wishes the others ill: they have something better to do.
void Session::count_interruption(NodeId by) {
    if (by == self_ || aside_.contains(by)) return;
    Trouble& trouble = troubles_[by];
    const auto now = Clock::now();
    const double forgiven =
        std::chrono::duration<double>(now - trouble.last) / std::chrono::duration<double>(forgiven_after);
    trouble.times = std::max(0.0, trouble.times - forgiven) + 1.0;
    trouble.last = now;
    if (trouble.times <= few_interruptions) return;
    troubles_.erase(by);
    put_aside(by, "it interrupted the others again and again");
    ports_.note(brief(by) + " interrupts the others again and again: for a minute they compute without it");
}

void Session::put_aside(NodeId node, const std::string& why) {
    aside_[node] = {.until = Clock::now() + aside_for, .why = why};
    considered_.clear();
}

void Session::let_come_back() {
    const auto now = Clock::now();
    bool back = std::erase_if(aside_, [&](const auto& each) { return each.second.until <= now; }) > 0;
    // What kept them from it may be over: a disk is not full any more, memory is free again.
    if (!unable_.empty() && !under_way() && now - unable_since_ >= retry_pause_) {
        retry_pause_ = std::min<std::chrono::milliseconds>(2 * retry_pause_, longest_retry_pause);
        unable_.clear();
        back = true;
    }
    if (!back) return;
    considered_.clear();
    lead();
}

// The leader divides anew where another division is better than what there is.
void Session::lead() {
    if (!leads() || !view_->is_active(self_)) return;
    const std::vector<NodeId> members = those_who_can();
    if (members.empty()) return;
    const bool idle = !team_ || !team_->computing;
    const bool due = idle && Clock::now() - planned_ > replan_interval;
    if (members == considered_ && (!due || ahead_)) return;
    const auto divide_among = [&](std::vector<Fact> facts) {
        return tensor::divide(subject_.config, subject_.tensors, std::move(facts), self_, options_.everyone);
    };
    auto divided = divide_among(facts_of(members, Texts::fit));
    // Shorter texts are better than none.
    if (!divided) divided = divide_among(facts_of(members, Texts::end));
    const bool again = members == considered_;
    considered_ = members;
    planned_ = Clock::now();
    ahead_.reset();
    if (!divided) {
        reasons_ = {divided.error().message};
        return ports_.note("cannot divide the model: " + divided.error().message + "; waits for others");
    }
    reasons_ = reasons_of(*divided, *divided, divided->plan.reasons);
    if (!under_way() || is_outdone()) return divide(std::move(*divided));
    if (!same(divided->division, current())) {
        if (is_worth_it(divided->division)) return prepare(std::move(*divided));
        if (!idle) considered_.clear();  // later, when nothing is being written
        if (divided_) reasons_ = reasons_of(*divided_, *divided, divided->plan.reasons);
    }
    // Whoever came has to know whom to ask, and why it has no part.
    if (again) return;
    wire::Division told = current();
    set_reasons(*told.mutable_reasons(), reasons_);
    send_to_all(told);
}

bool Session::is_worth_it(const wire::Division& division) const {
    if (options_.everyone || next_) return true;
    double promised = predicted_s(division);
    // What these members took lately counts more than what a plan says.
    const auto known = experience_.find({members_of(division), division.whole_heads()});
    if (known != experience_.end() && Clock::now() - known->second.when < experience_lasts)
        promised = std::max(promised, known->second.token_s);
    if (paces_.tell()) return promised < worth_by_measure * paces_.usual_s();
    return promised < (team_->computing ? worth_while_writing : worth_when_idle) * predicted_s(team_->division);
}

void Session::send_to_all(const wire::Division& division) {
    wire::Work message;
    *message.mutable_division() = division;
    send_to_members(message);
}

void Session::send_to_members(const wire::Work& message) {
    for (const cluster::MemberInfo& member : view_->members)
        if (member.id.node != self_ && view_->is_active(member.id.node)) (void)ports_.send(member.id.node, message);
}

// Of a division to come.
std::uint64_t Session::next_generation() const {
    std::uint64_t newest = std::max(generation_, past_);
    for (const auto& [node, able] : ables_)
        if (believes(node, able.taken())) newest = std::max(newest, able.taken());
    return std::max(newest + 1, view_->epoch << attempt_bits);
}

// Everybody gets what it will need, while what there is goes on.
void Session::prepare(Divided divided) {
    wire::Division& division = divided.division;
    generation_ = next_generation();
    division.set_generation(generation_);
    division.set_ahead(true);
    const wire::Division told = division;
    ahead_ = Ahead{.divided = std::move(divided), .waited_for = {}};
    for (const wire::Division::Member& member : told.members()) ahead_->waited_for.insert(node_from(member.node()));
    send_to_all(told);
    if (place_of(told, self_) < ahead_->waited_for.size()) received_ahead(self_, told);
}

void Session::divide(Divided divided) {
    generation_ = next_generation();
    divided.division.set_generation(generation_);
    divided.division.set_ahead(false);
    ahead_.reset();
    for (const std::string& reason : reasons_) ports_.note(reason);
    set_reasons(*divided.division.mutable_reasons(), reasons_);
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
    reasons_ = reasons_of(*divided_, *divided_, reasons_);
    wire::Work message;
    message.mutable_forecast()->set_generation(team_->generation());
    message.mutable_forecast()->set_predicted_ns(divided_->division.predicted_ns());
    set_reasons(*message.mutable_forecast()->mutable_reasons(), reasons_);
    send_to_members(message);
    received_forecast(self_, message.forecast());
}

void Session::received_prepared(NodeId from, const wire::Prepared& message) {
    if (!leads() || !ahead_ || ahead_->divided.division.generation() != message.generation()) return;
    ahead_->waited_for.erase(from);
    if (ahead_->waited_for.empty()) divide(Divided(ahead_->divided));
}

// Who is linked but no active member has no part in anything that could be interrupted.
void Session::received_interrupted(NodeId from, const wire::Interrupted& message) {
    if (!leads() || !view_->is_active(from)) return;
    const bool prepares = ahead_ && ahead_->divided.division.generation() == message.generation();
    const bool computes = team_ != nullptr && team_->generation() == message.generation();
    const bool next = next_ && next_->generation() == message.generation();
    if (!prepares && !computes && !next) {
        // Who is behind may not have heard.
        if (from != self_ && under_way() && message.generation() < current().generation()) {
            wire::Work answer;
            *answer.mutable_division() = current();
            (void)ports_.send(from, answer);
        }
        return;
    }
    // It asks again for what cannot be had now.
    if (from != self_ && computes && stage_ == Stage::broken && message.why().empty()) return;
    const bool has_part = prepares || place_of(current(), from) < static_cast<std::size_t>(current().members_size());
    if (aside_.contains(from) && !has_part) return;
    count_interruption(from);
    if (!message.why().empty()) {
        ports_.note(brief(from) + " cannot compute its slice: " + printable(message.why()));
        unable_since_ = Clock::now();
        // What is to come it cannot have; what it has it computes.
        if (prepares)
            put_aside(from, "it cannot have its part: " + printable(message.why()));
        else
            unable_[from] = printable(message.why());
    }
    considered_.clear();
    if (next) next_.reset();
    if (computes || next) break_up("a member was interrupted");
    lead();
}

}  // namespace chaos::tensor
