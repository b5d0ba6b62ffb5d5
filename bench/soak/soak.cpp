#include "soak/soak.h"

#include "base/file.h"
#include "elastic/journal_check.h"
#include "nodes/sever.h"
#include "report.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>

namespace chaos::bench {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A step takes about 25 ms, most of which nodes sleep: they share the machine with each other.
constexpr unsigned batch = 24;
constexpr unsigned sample_us = 8000;

constexpr double detect_s = 1.0;  // silence that fails a link
constexpr seconds patience{60};
constexpr milliseconds look_again{20};

constexpr std::size_t spared_nodes = 2;
// Times that a process was looked at before it counts as warm. All that a node opens, it opens early; memory takes
// longer: events, views and decisions of late are remembered.
constexpr unsigned descriptors_warm_after = 2;
constexpr unsigned memory_warm_after = 100;
constexpr double largest_memory_growth = 0.15;
constexpr unsigned looks_at_rest = 10;
constexpr seconds patience_with_descriptors{10};
constexpr std::int64_t descriptors_per_link = 4;  // control, bulk, and results for who is behind (net/links.h)

std::string toy_run() {
    return "[model]\nkind = \"mlp\"\nhidden = [64]\n"
           "[data]\nkind = \"synthetic\"\nshape = [63]\nclasses = 2\nsamples = 1000\nheld_out = 0\n"
           "[train]\nthreads = 1\nbatch = " +
           std::to_string(batch) + "\nsteps = 10000000\neval_every = 0\ncheckpoint_every = 20\n";
}

LocalClusterOptions cluster_options(const SoakOptions& options) {
    LocalClusterOptions cluster{.folder = options.folder,
                                .run_file = options.folder / "run.toml",
                                .data = options.data,
                                .strict = options.strict,
                                .toy = options.run.empty()};
    cluster.environment["CHAOS_TOY_SAMPLE_US"] = std::to_string(sample_us);
    return cluster;
}

// The last step of which a node told.
std::uint64_t last_step(NodeProcess& node) {
    const std::vector<Line>& lines = node.lines();
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
        if (is_kind("trained")(line->content)) return line->content.at("step");
    return 0;
}

// The longest time between two steps, the last of which was done after `since`.
double longest_pause(NodeProcess& node, double since) {
    const std::vector<Line>& lines = node.lines();
    double longest = 0.0;
    double later = now();
    for (auto line = lines.rbegin(); line != lines.rend() && later >= since; ++line) {
        if (!is_kind("trained")(line->content)) continue;
        longest = std::max(longest, later - line->time);
        later = line->time;
    }
    return longest;
}

// What a step took lately: the middle of the last ones before a time.
double usual_step(NodeProcess& node, double before) {
    constexpr std::size_t enough = 41;
    const std::vector<Line>& lines = node.lines();
    std::vector<double> times;
    for (auto line = lines.rbegin(); line != lines.rend() && times.size() < enough; ++line)
        if (line->time < before && is_kind("trained")(line->content)) times.push_back(line->time);
    if (times.size() < 2) return 0.0;
    std::vector<double> steps;
    for (std::size_t i = 1; i < times.size(); ++i) steps.push_back(times[i - 1] - times[i]);
    std::ranges::nth_element(steps, steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2));
    return steps[steps.size() / 2];
}

}  // namespace

std::string name_of(Fault fault) {
    switch (fault) {
        case Fault::kill:
            return "killed, and started again";
        case Fault::kill_two:
            return "two killed at once";
        case Fault::freeze:
            return "frozen, and thawed";
        case Fault::sever:
            return "connections broken";
        case Fault::part:
            return "some parted from the others";
        case Fault::remove_link:
            return "link removed";
        case Fault::add_link:
            return "link added";
        case Fault::leave:
            return "left, and joined again";
        case Fault::all_down:
            return "all killed, and started again";
    }
    return "";
}

Soak::Soak(const SoakOptions& options) : options_(options), cluster_(cluster_options(options)), random_(options.seed) {
    for (unsigned i = 0; i < options.nodes; ++i) names_.push_back("n" + std::to_string(i));
}

double Soak::i3_bound_s(double step_s) const {
    return detect_s + 2.0 * round_trip_s_ + step_s;
}

// A pause begins with the step that the fault cut off, up to one more before it.
double Soak::pause_bound_s(double step_s) const {
    return i3_bound_s(step_s) + step_s + options_.scheduling_s + lateness_.since(since_);
}

bool Soak::goes_on() {
    if (happened_ >= options_.faults) return false;
    if (options_.until_step == 0) return true;
    return std::ranges::all_of(
        names_, [&](const std::string& name) { return last_step(cluster_.node(name)) < options_.until_step; });
}

Result<SoakReport> Soak::run() {
    CHAOS_CHECK(begin());
    while (goes_on()) {
        // Those who were spared stand longest by then.
        if (!second_half_ && happened_ >= options_.faults / 2 && hurt_.empty()) {
            second_half_ = true;
            CHAOS_CHECK(spare_the_youngest());
        }
        const Fault fault = choose();
        ++happened_;
        ++report_.kinds[fault].times;
        CHAOS_CHECK(happen(fault));
        // Now and then the next one comes before this one is healed.
        if (fault != Fault::all_down && below(3) == 0 && hurt_.size() + 2 < names_.size() / 2) {
            CHAOS_CHECK(until_steps_advance());
            CHAOS_CHECK(judge_pause(fault));
            continue;
        }
        CHAOS_CHECK(until_all_train(patience));
        CHAOS_CHECK(judge_pause(fault));
        CHAOS_CHECK(measure_processes());
        hurt_.clear();
    }
    CHAOS_CHECK(until_all_train(patience));
    CHAOS_CHECK(measure_processes());
    CHAOS_CHECK(end());
    return report_;
}

Result<void> Soak::begin() {
    CHAOS_CHECK(write_file_atomically(options_.folder / "run.toml", options_.run.empty() ? toy_run() : options_.run));
    CHAOS_CHECK(cluster_.found(names_.front()));
    for (std::size_t i = 1; i < names_.size(); ++i) CHAOS_CHECK(cluster_.join(names_[i]));
    CHAOS_CHECK(until_all_train(patience));
    say(std::to_string(names_.size()) + " nodes train");
    return spare_the_youngest();
}

Fault Soak::choose() {
    const unsigned dice = below(100);
    if (dice < 22) return Fault::kill;
    if (dice < 30) return names_.size() >= 5 ? Fault::kill_two : Fault::kill;
    if (dice < 50) return Fault::freeze;
    if (dice < 58) return Fault::sever;
    if (dice < 66) return hurt_.empty() ? Fault::part : Fault::sever;
    if (dice < 74) return Fault::remove_link;
    if (dice < 80) return Fault::add_link;
    if (dice < 97) return Fault::leave;
    // Only at first: afterwards some processes are to live for long.
    const bool early = happened_ < options_.faults / 5;
    return options_.all_may_fall && early && hurt_.empty() ? Fault::all_down : Fault::kill;
}

Result<void> Soak::happen(Fault fault) {
    if (hurt_.empty()) since_ = now();
    CHAOS_TRY(const std::vector<std::string> order, by_standing());
    eldest_ = order.front();
    switch (fault) {
        case Fault::kill:
            return kill(1);
        case Fault::kill_two:
            return kill(2);
        case Fault::freeze:
            return freeze();
        case Fault::sever:
        case Fault::remove_link:
        case Fault::add_link:
            return change_link(fault);
        case Fault::part:
            return part();
        case Fault::leave:
            return leave();
        case Fault::all_down:
            return all_down();
    }
    return {};
}

// ---- what happens

Result<std::vector<std::string>> Soak::by_standing() {
    std::map<std::string, std::string> names;  // by id
    json members;
    for (const std::string& name : unhurt()) {
        CHAOS_TRY(const json status, cluster_.node(name).status());
        names[status.at("node")] = name;
        members = status.at("members");
    }
    std::vector<std::pair<std::uint64_t, std::string>> order;  // ids are compared where epochs are equal
    for (const json& member : members)
        if (member.at("standing") == "active" && names.contains(member.at("node")))
            order.emplace_back(member.at("since_epoch"), member.at("node"));
    if (order.empty()) return Error{"nobody trains who was not hurt"};
    std::ranges::sort(order);
    std::vector<std::string> eldest_first;
    for (const auto& [since, id] : order) eldest_first.push_back(names.at(id));
    return eldest_first;
}

Result<void> Soak::spare_the_youngest() {
    CHAOS_TRY(const std::vector<std::string> order, by_standing());
    spared_.clear();
    for (std::size_t i = 0; i < std::min(spared_nodes, order.size() - 1); ++i)
        spared_.insert(order[order.size() - 1 - i]);
    std::string text = "from now on these are not killed:";
    for (const std::string& name : spared_) text += " " + name;
    say(text);
    return {};
}

void Soak::hurt(const std::string& name) {
    hurt_.insert(name);
    if (name == eldest_) ++report_.eldest_hurt;
}

Result<std::string> Soak::victim(bool spared_too) {
    std::vector<std::string> names = unhurt();
    if (!spared_too) std::erase_if(names, [&](const std::string& name) { return spared_.contains(name); });
    if (names.empty()) return Error{"nobody is left to be hurt"};
    const bool aims = below(3) == 0;
    const std::string name = aims && std::ranges::find(names, eldest_) != names.end()
                                 ? eldest_
                                 : names[below(static_cast<unsigned>(names.size()))];
    hurt(name);
    return name;
}

Result<void> Soak::kill(unsigned count) {
    std::vector<std::string> victims;
    for (unsigned i = 0; i < count; ++i) {
        CHAOS_TRY(const std::string name, victim(false));
        victims.push_back(name);
    }
    std::string text = "kills";
    for (const std::string& name : victims) {
        cluster_.node(name).kill();
        text += " " + name;
    }
    const bool at_once = below(2) == 0;
    say(text + (at_once ? "" : ", and waits until the others went on"));
    for (const std::string& name : victims) cluster_.drop(name);
    if (!at_once) CHAOS_CHECK(until_steps_advance());
    for (const std::string& name : victims) CHAOS_CHECK(cluster_.join(name));
    return {};
}

// For a moment, or until the others went on without it.
Result<void> Soak::freeze() {
    CHAOS_TRY(const std::string name, victim(true));
    const bool brief = below(2) == 0;
    const milliseconds pause{50 + below(700)};
    say("freezes " + name + (brief ? " for " + std::to_string(pause.count()) + " ms" : ""));
    cluster_.node(name).freeze();
    if (brief) {
        std::this_thread::sleep_for(pause);
    } else {
        CHAOS_CHECK(until_steps_advance());
    }
    cluster_.node(name).thaw();
    return {};
}

Result<void> Soak::change_link(Fault fault) {
    std::map<std::string, std::string> ids;
    for (const std::string& name : unhurt()) {
        CHAOS_TRY(const json status, cluster_.node(name).status());
        ids[status.at("node")] = name;
    }
    const std::string asked = unhurt()[below(static_cast<unsigned>(unhurt().size()))];
    CHAOS_TRY(const json status, cluster_.node(asked).status());
    const std::string self = status.at("node");
    std::set<std::string> linked;
    for (const json& link : status.at("links")) {
        if (link.at("a") == self) linked.insert(link.at("b"));
        if (link.at("b") == self) linked.insert(link.at("a"));
    }
    std::vector<std::string> peers;
    for (const auto& [id, name] : ids)
        if (id != self && linked.contains(id) == (fault != Fault::add_link)) peers.push_back(id);
    if (peers.empty()) return {};
    const std::string peer = peers[below(static_cast<unsigned>(peers.size()))];
    if (fault == Fault::sever) {
        say("breaks the connections of " + asked + " and " + ids[peer]);
        CHAOS_CHECK(sever(cluster_.node(asked).process().pid(), cluster_.node(ids[peer]).process().pid()));
        return {};
    }
    const std::string change = fault == Fault::add_link ? "add" : "remove";
    say("link " + change + " " + asked + " " + ids[peer]);
    const Result<json> answer =
        cluster_.node(asked).ask({{"command", "link"}, {"change", change}, {"a", self}, {"b", peer}});
    // What others did meanwhile may have made it pointless.
    if (!answer) say("  not done: " + answer.error().message);
    return {};
}

// Fewer than half of them; each of the two groups stays together.
Result<void> Soak::part() {
    const unsigned count = 1 + below(static_cast<unsigned>((names_.size() - 1) / 2));
    std::string text;
    std::vector<std::string> few;
    for (unsigned i = 0; i < count; ++i) {
        CHAOS_TRY(const std::string name, victim(true));
        few.push_back(name);
        text += (i > 0 ? " and " : "") + name;
    }
    say("breaks all connections of " + text + " with the others");
    for (const std::string& one : few)
        for (const std::string& other : unhurt())
            CHAOS_CHECK(sever(cluster_.node(one).process().pid(), cluster_.node(other).process().pid()));
    return {};
}

Result<void> Soak::leave() {
    CHAOS_TRY(const std::string name, victim(false));
    say(name + " leaves");
    NodeProcess& node = cluster_.node(name);
    CHAOS_CHECK(node.ask({{"command", "leave"}}));
    if (const int code = node.process().wait(); code != 0)
        return Error{name + " left with exit code " + std::to_string(code) + ": " + node.last_words()};
    cluster_.drop(name);
    return cluster_.join(name);
}

Result<void> Soak::all_down() {
    say("kills all, and starts them again");
    hurt_.insert(names_.begin(), names_.end());
    for (const std::string& name : names_) cluster_.node(name).kill();
    for (const std::string& name : names_) cluster_.drop(name);
    for (const std::string& name : names_) CHAOS_CHECK(cluster_.start_again(name));
    return {};
}

// ---- what must be true then

std::vector<std::string> Soak::unhurt() const {
    std::vector<std::string> names;
    for (const std::string& name : names_)
        if (!hurt_.contains(name)) names.push_back(name);
    return names;
}

Result<void> Soak::judge_pause(Fault fault) {
    for (const std::string& name : unhurt()) {
        NodeProcess& node = cluster_.node(name);
        const double pause = longest_pause(node, since_);
        // Fewer need longer for a step.
        const auto all = static_cast<double>(names_.size());
        const double step_s = usual_step(node, since_) * all / (all - static_cast<double>(hurt_.size()));
        const double bound = pause_bound_s(step_s);
        double& longest = report_.kinds[fault].longest_pause_s;
        longest = std::max(longest, pause);
        report_.longest_pause_over_bound = std::max(report_.longest_pause_over_bound, pause / bound);
        report_.longest_pause_over_i3 = std::max(report_.longest_pause_over_i3, pause / i3_bound_s(step_s));
        if (pause > bound)
            return Error{name + " stood still for " + fixed(pause, 2) + " s, " + fixed(bound, 2) +
                         " s are allowed: " + node.last_words()};
    }
    return {};
}

Result<void> Soak::until_steps_advance() {
    std::map<std::string, std::uint64_t> before;
    for (const std::string& name : unhurt()) before[name] = last_step(cluster_.node(name));
    for (const auto& [name, step] : before) CHAOS_CHECK(cluster_.node(name).wait_for(trained_step(step + 3), patience));
    return {};
}

Result<void> Soak::until_all_train(seconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (true) {
        CHAOS_TRY(const bool all, all_train());
        if (all) break;
        if (std::chrono::steady_clock::now() > end) {
            std::string stand;
            for (const std::string& name : names_) {
                const Result<json> status = cluster_.node(name).status();
                stand += "\n  " + name + ": ";
                stand += status ? status->at("role").get<std::string>() + ", step " + status->at("step").dump() + ", " +
                                      status->at("why").get<std::string>()
                                : status.error().message;
            }
            return Error{"the nodes do not come together again:" + stand};
        }
        std::this_thread::sleep_for(look_again);
    }
    for (const std::string& name : names_) {
        const std::uint64_t step = last_step(cluster_.node(name));
        CHAOS_CHECK(cluster_.node(name).wait_for(trained_step(step + 2), patience));
    }
    return {};
}

Result<bool> Soak::all_train() {
    for (const std::string& name : names_)
        if (cluster_.node(name).process().ended()) return Error{"a node ended: " + cluster_.node(name).last_words()};
    for (const std::string& name : names_) {
        const Result<json> status = cluster_.node(name).status();
        if (!status) return false;  // it has only begun
        if (status->at("role") != "active" || status->at("members").size() != names_.size()) return false;
        for (const json& member : status->at("members"))
            if (member.at("standing") != "active") return false;
    }
    return true;
}

Result<void> Soak::measure_processes() {
    round_trip_s_ = 0.0;
    for (const std::string& name : names_) {
        const pid_t pid = cluster_.node(name).process().pid();
        Process& process = processes_[name];
        if (process.pid != pid) process = {.pid = pid};
        ++process.seen;
        CHAOS_CHECK(measure_memory(name));
        CHAOS_CHECK(measure_descriptors(name));
    }
    return {};
}

Result<void> Soak::measure_memory(const std::string& name) {
    Process& process = processes_[name];
    const std::uint64_t bytes = cluster_.node(name).memory_bytes();
    if (process.seen <= memory_warm_after) {
        // The most: a node keeps results for newcomers, and lets them go.
        process.warm_bytes = std::max(process.warm_bytes, bytes);
        return {};
    }
    const double growth = static_cast<double>(bytes) / static_cast<double>(process.warm_bytes) - 1.0;
    report_.memory_growth = std::max(report_.memory_growth.value_or(growth), growth);
    if (growth <= largest_memory_growth) return {};
    return Error{name + " has " + fixed(100.0 * growth, 0) + " % more memory than when it was warm; " +
                 fixed(100.0 * largest_memory_growth, 0) + " % are allowed"};
}

// Beyond those of its links.
Result<std::int64_t> Soak::descriptors(NodeProcess& node) {
    CHAOS_TRY(const json status, node.status());
    for (const json& link : status.at("connections"))
        round_trip_s_ = std::max(round_trip_s_, link.at("round_trip_us").get<double>() / 1e6);
    const auto links = static_cast<std::int64_t>(status.at("connections").size());
    return static_cast<std::int64_t>(node.descriptors()) - descriptors_per_link * links;
}

// Some are open for a moment only: what is still there after a while has leaked.
Result<void> Soak::measure_descriptors(const std::string& name) {
    NodeProcess& node = cluster_.node(name);
    Process& process = processes_[name];
    CHAOS_TRY(std::int64_t open, descriptors(node));
    const auto look_until = [&](const auto& enough) -> Result<void> {
        const auto end = std::chrono::steady_clock::now() + patience_with_descriptors;
        while (!enough() && std::chrono::steady_clock::now() < end) {
            std::this_thread::sleep_for(look_again);
            CHAOS_TRY(open, descriptors(node));
        }
        return {};
    };
    if (process.seen < descriptors_warm_after) return {};
    if (process.seen == descriptors_warm_after) {
        unsigned times = 0;
        CHAOS_CHECK(look_until([&] {
            times = open == process.warm_descriptors ? times + 1 : 0;
            process.warm_descriptors = open;
            return times == looks_at_rest;
        }));
        return {};
    }
    CHAOS_CHECK(look_until([&] { return open <= process.warm_descriptors; }));
    const std::int64_t growth = open - process.warm_descriptors;
    report_.descriptors_growth = std::max(report_.descriptors_growth, growth);
    if (growth <= 0) return {};
    return Error{name + " has " + std::to_string(growth) +
                 " open descriptors more than when it was warm, beyond those of its links"};
}

Result<void> Soak::end() {
    say("tells all to leave");
    for (const std::string& name : names_) report_.steps = std::max(report_.steps, last_step(cluster_.node(name)));
    for (const std::string& name : names_) cluster_.node(name).process().signal(SIGINT);
    std::vector<std::filesystem::path> dirs;
    elastic::JournalCheck check;
    for (const std::string& name : names_) {
        NodeProcess& node = cluster_.node(name);
        if (const int code = node.process().wait(); code != 0)
            return Error{name + " ended with exit code " + std::to_string(code) + ": " + node.last_words()};
        check.begin_journal();
        const auto add = [&](const elastic::journal::TimedEntry& entry) -> Result<void> {
            check.add(entry);
            return {};
        };
        CHAOS_CHECK(elastic::read_journal(cluster_.dir(name) / "journal", add));
        dirs.push_back(cluster_.dir(name));
    }
    const elastic::CheckReport checked = check.finish();
    if (!checked.sound()) {
        std::string text;
        for (const std::string& violation : checked.violations) text += "\n  " + violation;
        return Error{"invariants were broken:" + text};
    }
    report_.faults = happened_;
    report_.views = checked.views;
    say("all invariants held; computes the run again");
    CHAOS_TRY(report_.replayed, compute_again(dirs, options_.folder / "run.toml", options_.run.empty()));
    return {};
}

void Soak::say(const std::string& text) const {
    std::printf("%4u  %s\n", happened_, text.c_str());
    std::fflush(stdout);
}

}  // namespace chaos::bench
