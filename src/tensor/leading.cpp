// A session as its leader leads it: who is to have which slice, whether another division is worth it, and what a token
// will take.
#include "base/words.h"
#include "tensor/session.h"
#include "tensor/wire.h"

#include <algorithm>

namespace chaos::tensor {
namespace {

using cluster::brief;

// Generations of a later view are later.
constexpr unsigned attempt_bits = 20;
// What a division must promise, as a share of the one there is, to be worth an interruption: where texts are being
// written, where nothing is, and by what was measured.
constexpr double worth_while_writing = 0.9;
constexpr double worth_when_idle = 0.97;
constexpr double worth_by_measure = 0.85;
constexpr std::chrono::seconds replan_interval{10};
constexpr std::chrono::minutes experience_lasts{10};

}  // namespace

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

}  // namespace chaos::tensor
