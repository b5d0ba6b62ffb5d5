#include "play.h"

#include "nodes/sever.h"
#include "plain_copy.h"
#include "report.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

namespace chaos::bench {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds patience{60};
constexpr std::uint64_t breath = 150;  // steps between two events
constexpr double detect_s = 1.0;       // silence that fails a link
constexpr double at_once_s = 0.0;      // a closed connection is evidence
const std::vector<std::string> first_four = {"a", "b", "c", "d"};
const std::string fifth = "e";

std::string ms(double seconds) {
    return fixed(seconds * 1e3, 0) + " ms";
}

// Lines since a time, wherever they are in what a node told.
Wanted since(double time, const Wanted& what) {
    return [time, what](const json& line) { return line.value("time", 0.0) >= time && what(line); };
}

}  // namespace

Result<void> Play::perform() {
    CHAOS_CHECK(four_train());
    CHAOS_CHECK(peace());
    CHAOS_CHECK(fifth_joins());
    CHAOS_CHECK(founder_is_killed());
    CHAOS_CHECK(connection_breaks());
    CHAOS_CHECK(link_is_removed());
    CHAOS_CHECK(one_leaves());
    CHAOS_CHECK(one_is_frozen_and_returns());
    return curtain();
}

Result<void> Play::four_train() {
    say("Node a founds a cluster; b, c and d join it while it trains.");
    everybody_ = first_four;
    CHAOS_CHECK(cluster_.found("a"));
    for (const std::string name : {"b", "c", "d"}) CHAOS_CHECK(cluster_.join(name));
    for (const std::string name : {"b", "c", "d"}) CHAOS_CHECK(cluster_.until_it_trains(name, patience));
    say("Four nodes train" + where());
    return {};
}

Result<void> Play::peace() {
    CHAOS_TRY(Act act, Act::begin(cluster_, cluster_.running()));
    CHAOS_TRY(const Cost cost, act.end(2 * breath));
    scenes_.push_back({.event = "nothing", .cost = cost});
    say("A step takes " + ms(cost.step_s) + where());
    return {};
}

Result<void> Play::fifth_joins() {
    CHAOS_TRY(const double limit, scale_out_limit(static_cast<unsigned>(first_four.size())));
    say("A fifth node, e, joins. Training goes on meanwhile.");
    CHAOS_TRY(Act act, Act::begin(cluster_, first_four));
    everybody_.push_back(fifth);
    CHAOS_CHECK(cluster_.join(fifth));
    CHAOS_CHECK(cluster_.until_it_trains(fifth, patience));
    CHAOS_TRY(const Scene::ScaleOut scale_out, scale_out_of(fifth, is_kind("joins"), act.since(), limit));
    say("e pulled the whole state from its neighbours in " + ms(scale_out.delay_s) +
        ", the same bits as theirs, and trains with them" + where());
    CHAOS_TRY(const Cost cost, act.end(breath));
    scenes_.push_back({.event = "e joins", .cost = cost, .scale_out = scale_out});
    return {};
}

Result<void> Play::founder_is_killed() {
    CHAOS_TRY(const std::string id, id_of("a"));
    say("a, which founded the cluster, is killed with SIGKILL.");
    const std::vector<std::string> survivors = all_but("a");
    CHAOS_TRY(Act act, Act::begin(cluster_, survivors));
    cluster_.node("a").kill();
    CHAOS_CHECK(until_all_tell(survivors, tells("failed", id.substr(0, 8)), act.since()));
    cluster_.drop("a");
    CHAOS_TRY(const Cost cost, act.end(breath));
    say("The others finished the step in flight without it: a pause of " + ms(cost.longest_s) + where());
    scenes_.push_back({.event = "a is killed", .cost = cost, .detection_s = at_once_s});
    return {};
}

Result<void> Play::connection_breaks() {
    CHAOS_TRY(const Pair pair, linked_pair());
    NodeProcess& one = cluster_.node(pair.one);
    CHAOS_TRY(Act act, Act::begin(cluster_, cluster_.running()));
    const Result<std::size_t> broken = sever(one.process().pid(), cluster_.node(pair.other).process().pid());
    if (!broken) {
        not_shown_.push_back("no connection could be broken: " + broken.error().message);
        say("(" + not_shown_.back() + ")");
        return {};
    }
    if (*broken == 0) return Error{pair.one + " and " + pair.other + " have a link, but no connection"};
    say("The connections between " + pair.one + " and " + pair.other + " break (" + std::to_string(*broken) + ").");
    CHAOS_CHECK(until_all_tell({pair.one}, tells("note", "the link to " + pair.other_id.substr(0, 8) + " closed"),
                               act.since()));
    CHAOS_TRY(const Cost cost, act.end(breath));
    say("Training went on over other links: a pause of " + ms(cost.longest_s) + where());
    scenes_.push_back({.event = "connections break", .cost = cost, .detection_s = at_once_s});
    return {};
}

Result<void> Play::link_is_removed() {
    CHAOS_TRY(const Pair pair, linked_pair());
    say("chaos link remove: " + pair.one + " and " + pair.other + " give up their link.");
    CHAOS_TRY(Act act, Act::begin(cluster_, cluster_.running()));
    CHAOS_CHECK(cluster_.node(pair.one).ask(
        {{"command", "link"}, {"change", "remove"}, {"a", pair.one_id}, {"b", pair.other_id}}));
    CHAOS_CHECK(until_all_tell(cluster_.running(), is_kind("link_down"), act.since()));
    CHAOS_TRY(const Cost cost, act.end(breath));
    say("All agreed on it between two steps" + where());
    scenes_.push_back({.event = "a link is removed", .cost = cost});
    return {};
}

Result<void> Play::one_leaves() {
    CHAOS_TRY(const std::string id, id_of("b"));
    say("chaos leave: b asks the others to go on without it.");
    const std::vector<std::string> others = all_but("b");
    CHAOS_TRY(Act act, Act::begin(cluster_, others));
    CHAOS_CHECK(cluster_.node("b").ask({{"command", "leave"}}));
    CHAOS_CHECK(until_all_tell(others, tells("left", id.substr(0, 8)), act.since()));
    if (const int code = cluster_.node("b").process().wait(); code != 0)
        return Error{"b left with exit code " + std::to_string(code) + ": " + cluster_.node("b").last_words()};
    cluster_.drop("b");
    CHAOS_TRY(const Cost cost, act.end(breath));
    say("b has left; nothing was lost" + where());
    scenes_.push_back({.event = "b leaves", .cost = cost});
    return {};
}

Result<void> Play::one_is_frozen_and_returns() {
    CHAOS_TRY(const std::string id, id_of("d"));
    const std::vector<std::string> others = all_but("d");
    say("d is frozen (SIGSTOP): its connections stand, but it says nothing.");
    CHAOS_TRY(Act freezing, Act::begin(cluster_, others));
    cluster_.node("d").freeze();
    CHAOS_CHECK(until_all_tell(others, tells("failed", id.substr(0, 8)), freezing.since()));
    CHAOS_TRY(const Cost frozen, freezing.end(breath));
    say("After a second of silence the others went on without it: a pause of " + ms(frozen.longest_s) + where());
    scenes_.push_back({.event = "d is frozen", .cost = frozen, .detection_s = detect_s});

    CHAOS_TRY(const double limit, scale_out_limit(static_cast<unsigned>(others.size())));
    say("d is thawed (SIGCONT).");
    CHAOS_TRY(Act returning, Act::begin(cluster_, others));
    cluster_.node("d").thaw();
    CHAOS_CHECK(until_all_tell({"d"}, tells("joined", "trains with the others"), returning.since()));
    CHAOS_TRY(const Scene::ScaleOut scale_out, scale_out_of("d", is_kind("excluded"), returning.since(), limit));
    CHAOS_CHECK(until_it_has_trained("d", 1));
    CHAOS_TRY(const Cost returned, returning.end(breath));
    say("d learnt that it was out, pulled the state anew in " + ms(scale_out.delay_s) + ", and is back" + where());
    scenes_.push_back({.event = "d returns", .cost = returned, .scale_out = scale_out});
    return {};
}

Result<void> Play::curtain() {
    last_ = cluster_.running();
    // A state that all of them have compared: hashes are taken every few steps.
    for (const std::string& name : last_) CHAOS_CHECK(until_it_has_trained(name, breath));
    say("The end: all nodes are told to stop (SIGINT)" + where());
    for (const std::string& name : last_) cluster_.node(name).process().signal(SIGINT);
    for (const std::string& name : last_) {
        NodeProcess& node = cluster_.node(name);
        if (const int code = node.process().wait(); code != 0)
            return Error{name + " ended with exit code " + std::to_string(code) + ": " + node.last_words()};
    }
    return {};
}

// ---- what scenes have in common

Result<Play::Pair> Play::linked_pair() {
    std::map<std::string, std::string> names;  // by id
    for (const std::string& name : cluster_.running()) {
        CHAOS_TRY(const std::string id, id_of(name));
        names[id] = name;
    }
    CHAOS_TRY(const json status, cluster_.node(cluster_.running().front()).status());
    for (const json& link : status.at("links")) {
        const auto a = names.find(link.at("a"));
        const auto b = names.find(link.at("b"));
        if (a != names.end() && b != names.end())
            return Pair{.one = a->second, .other = b->second, .one_id = a->first, .other_id = b->first};
    }
    return Error{"no two nodes are linked"};
}

Result<std::string> Play::id_of(const std::string& name) {
    CHAOS_TRY(const json status, cluster_.node(name).status());
    return status.at("node").get<std::string>();
}

std::vector<std::string> Play::all_but(const std::string& name) const {
    std::vector<std::string> names = cluster_.running();
    std::erase(names, name);
    return names;
}

Result<void> Play::until_all_tell(const std::vector<std::string>& names, const Wanted& what, double when) {
    for (const std::string& name : names) CHAOS_CHECK(cluster_.node(name).wait_for(since(when, what), patience));
    return {};
}

Result<void> Play::until_it_has_trained(const std::string& name, std::uint64_t more_steps) {
    NodeProcess& node = cluster_.node(name);
    CHAOS_TRY(const json status, node.status());
    CHAOS_CHECK(node.wait_for(trained_step(status.at("step").get<std::uint64_t>() + more_steps), patience));
    return {};
}

Result<Scene::ScaleOut> Play::scale_out_of(const std::string& name, const Wanted& asked, double when, double limit_s) {
    NodeProcess& node = cluster_.node(name);
    CHAOS_TRY(const Line begun, node.wait_for(since(when, asked), patience));
    CHAOS_TRY(const Line synced, node.wait_for(since(when, is_kind("synced")), patience));
    return Scene::ScaleOut{.delay_s = synced.time - begun.time, .limit_s = limit_s};
}

// A checkpoint holds the state and little else.
Result<double> Play::scale_out_limit(unsigned donors) {
    std::uint64_t bytes = 0;
    for (const std::string& name : everybody_)
        for (std::error_code none;
             const auto& file : std::filesystem::directory_iterator(cluster_.dir(name) / "checkpoints", none))
            bytes = std::max<std::uint64_t>(bytes, file.file_size());
    if (bytes == 0) return Error{"there is no checkpoint yet"};
    return plain_copy(bytes, donors, join_round_trips);
}

std::string Play::where() {
    for (const std::string& name : cluster_.running()) {
        const std::vector<Line>& lines = cluster_.node(name).lines();
        const auto last = std::find_if(lines.rbegin(), lines.rend(),
                                       [](const Line& line) { return is_kind("trained")(line.content); });
        if (last != lines.rend())
            return " (step " + std::to_string(last->content.at("step").get<std::uint64_t>()) + ", loss " +
                   fixed(last->content.at("loss").get<double>(), 3) + ").";
    }
    return ".";
}

void Play::say(const std::string& text) const {
    std::printf("%6.1f s  %s\n", now() - begun_, text.c_str());
    std::fflush(stdout);
}

}  // namespace chaos::bench
