#include "events.h"

#include "base/file.h"
#include "elastic/journal_check.h"
#include "nodes/local_cluster.h"
#include "nodes/pace.h"
#include "temporary_folder.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <string>

namespace chaos::bench {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds patience{60};
constexpr unsigned batch = 20;
constexpr unsigned sample_us = 12'500;  // four of them: a step of 50 ms
constexpr std::uint64_t steps_after = 10;

double quantile(std::vector<double> values, double share) {
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Figures {
    std::vector<double> handling_us;  // per node and view
    std::vector<double> stretch;      // the longest step between the event and the view's first step, over a usual one
    std::vector<double> disruption;   // of failures: over two round trips and a step
    std::uint64_t redone = 0;         // steps, of all nodes
};

class Trials {
public:
    explicit Trials(const std::filesystem::path& folder) : folder_(folder), cluster_(options_of(folder)) {}

    Result<void> begin() {
        const std::string run =
            "[model]\nkind = \"mlp\"\nhidden = [256]\n[data]\nkind = \"synthetic\"\nshape = [63]\nclasses = 2\n"
            "samples = 1000\nheld_out = 0\n[train]\nthreads = 1\nbatch = " +
            std::to_string(batch) + "\nsteps = 1000000\neval_every = 0\ncheckpoint_every = 0\n";
        CHAOS_CHECK(write_file_atomically(folder_ / "run.toml", run));
        CHAOS_CHECK(cluster_.found(names_.front()));
        for (std::size_t i = 1; i < names_.size(); ++i) {
            CHAOS_CHECK(cluster_.join(names_[i]));
            CHAOS_CHECK(until_in(names_[i]));
        }
        return {};
    }

    // Nothing happens: how much of the figures is noise.
    Result<void> peace(Figures& figures) {
        return happen(figures, names_, false, [] { return Result<void>(); });
    }

    // Between two nodes that have links enough, or too few.
    Result<void> link(Figures& figures, bool add, std::mt19937& random) {
        std::map<std::string, std::string> names;
        for (const std::string& name : names_) {
            CHAOS_TRY(const json status, cluster_.node(name).status());
            names[status.at("node")] = name;
        }
        CHAOS_TRY(const json status, cluster_.node(names_.front()).status());
        std::map<std::string, unsigned> degree;
        std::set<std::pair<std::string, std::string>> links;
        for (const json& link : status.at("links")) {
            links.emplace(link.at("a"), link.at("b"));
            ++degree[link.at("a")];
            ++degree[link.at("b")];
        }
        std::vector<std::pair<std::string, std::string>> choice;
        for (const auto& [a, one] : names)
            for (const auto& [b, other] : names)
                if (a < b && links.contains({a, b}) != add &&
                    (add || (degree[a] > links_wanted && degree[b] > links_wanted)))
                    choice.emplace_back(a, b);
        if (choice.empty()) return {};
        const auto [a, b] = choice[random() % choice.size()];
        const json request = {{"command", "link"}, {"change", add ? "add" : "remove"}, {"a", a}, {"b", b}};
        return happen(figures, names_, true, [&]() -> Result<void> {
            CHAOS_CHECK(cluster_.node(names.at(a)).ask(request));
            return {};
        });
    }

    Result<void> leave(Figures& figures, std::mt19937& random) {
        const std::string name = names_[random() % names_.size()];
        const auto ask_to_leave = [&]() -> Result<void> {
            CHAOS_CHECK(cluster_.node(name).ask({{"command", "leave"}}));
            return {};
        };
        CHAOS_CHECK(happen(figures, others(name), true, ask_to_leave));
        if (cluster_.node(name).process().wait() != 0) return Error{cluster_.node(name).last_words()};
        return come_back(name);
    }

    Result<void> fail(Figures& figures, std::mt19937& random) {
        const std::string name = names_[random() % names_.size()];
        CHAOS_CHECK(happen(figures, others(name), true, [&]() -> Result<void> {
            cluster_.node(name).kill();
            return {};
        }));
        return come_back(name);
    }

    // All nodes end. The invariants must have held, and a sample that was lost or counted twice would give other bits:
    // how many steps were computed again.
    Result<std::uint64_t> end() {
        std::vector<std::filesystem::path> dirs;
        for (const std::string& name : names_) cluster_.node(name).process().signal(SIGINT);
        for (const std::string& name : names_) {
            if (cluster_.node(name).process().wait() != 0) return Error{cluster_.node(name).last_words()};
            dirs.push_back(cluster_.dir(name));
        }
        CHAOS_TRY(const elastic::CheckReport checked, check());
        if (!checked.sound()) return Error{"an invariant was broken: " + checked.violations.front()};
        return compute_again(dirs, folder_ / "run.toml", true);
    }

private:
    Result<elastic::CheckReport> check() {
        elastic::JournalCheck check;
        for (const std::string& name : names_) {
            check.begin_journal();
            const auto add = [&](const elastic::journal::TimedEntry& entry) -> Result<void> {
                check.add(entry);
                return {};
            };
            CHAOS_CHECK(elastic::read_journal(cluster_.dir(name) / "journal", add));
        }
        return check.finish();
    }

    static constexpr unsigned links_wanted = 2;

    static LocalClusterOptions options_of(const std::filesystem::path& folder) {
        LocalClusterOptions options{.folder = folder, .run_file = folder / "run.toml"};
        options.environment["CHAOS_TOY_SAMPLE_US"] = std::to_string(sample_us);
        options.more = {"--links", std::to_string(links_wanted)};
        return options;
    }
    [[nodiscard]] std::vector<std::string> others(const std::string& name) const {
        std::vector<std::string> all = names_;
        std::erase(all, name);
        return all;
    }
    Result<void> come_back(const std::string& name) {
        cluster_.drop(name);
        CHAOS_CHECK(cluster_.join(name));
        return until_in(name);
    }
    // Its speed is known and its links stand: what follows has another cause.
    Result<void> until_in(const std::string& name) {
        CHAOS_TRY(const Line first, cluster_.until_it_trains(name, patience));
        CHAOS_CHECK(cluster_.node(name).wait_for(
            trained_step(first.content.at("step").get<std::uint64_t>() + 2 * steps_after), patience));
        return {};
    }

    // When each of them had the first view after a time.
    Result<std::map<std::string, double>> views_since(double begun, const std::vector<std::string>& witnesses) {
        const Wanted younger = [begun](const json& line) {
            return line.value("kind", "") == "view" && line.value("time", 0.0) >= begun;
        };
        std::map<std::string, double> times;
        for (const std::string& name : witnesses) {
            CHAOS_TRY(const Line view, cluster_.node(name).wait_for(younger, patience));
            times[name] = view.time;
        }
        return times;
    }
    // They step together: whoever is waited for, the others come along.
    Result<void> until_all_stepped(const std::vector<std::string>& witnesses) {
        std::uint64_t newest = 0;
        for (const std::string& name : witnesses) {
            CHAOS_TRY(const json status, cluster_.node(name).status());
            newest = std::max(newest, status.at("step").get<std::uint64_t>());
        }
        for (const std::string& name : witnesses)
            CHAOS_CHECK(cluster_.node(name).wait_for(trained_step(newest + steps_after), patience));
        return {};
    }

    struct Before {
        double handling_us = 0.0;
        std::uint64_t epoch = 0;
        std::uint64_t redone = 0;
    };
    Result<void> happen(Figures& figures, const std::vector<std::string>& witnesses, bool view_follows,
                        const std::function<Result<void>()>& event) {
        std::map<std::string, Before> before;
        for (const std::string& name : witnesses) {
            CHAOS_TRY(const json status, cluster_.node(name).status());
            before[name] = {.handling_us = status.at("handling_cpu_us"),
                            .epoch = status.at("epoch"),
                            .redone = status.at("counters").at("steps_redone")};
        }
        const double begun = now();
        CHAOS_CHECK(event());
        std::map<std::string, double> in_force;
        if (view_follows) {
            CHAOS_TRY(in_force, views_since(begun, witnesses));
        }
        CHAOS_CHECK(until_all_stepped(witnesses));
        double round_trip_s = 0.0;
        double longest_s = 0.0;
        double usual_s = 0.0;
        for (const std::string& name : witnesses) {
            NodeProcess& node = cluster_.node(name);
            const double changed = view_follows ? in_force[name] : begun;
            CHAOS_TRY(const json status, node.status());
            const std::uint64_t views = status.at("epoch").get<std::uint64_t>() - before[name].epoch;
            figures.redone += status.at("counters").at("steps_redone").get<std::uint64_t>() - before[name].redone;
            const double handling = status.at("handling_cpu_us").get<double>() - before[name].handling_us;
            if (views > 0 || !view_follows)
                figures.handling_us.push_back(handling / static_cast<double>(std::max<std::uint64_t>(views, 1)));
            for (const json& connection : status.at("connections"))
                round_trip_s = std::max(round_trip_s, connection.at("round_trip_us").get<double>() / 1e6);
            CHAOS_TRY(const std::vector<StepTime> steps, step_times(node.dir()));
            // Who is left has more to compute.
            const double before_s = pace_between(steps, begun - 1.0, begun).step_s;
            const double usual = std::max(before_s, pace_between(steps, changed + 3.0 * before_s, now()).step_s);
            // Two steps: the one that the view came in, and the first one under it.
            const Pace spanning = pace_between(steps, begun, changed + 2.0 * usual);
            longest_s = std::max(longest_s, spanning.longest_s);
            usual_s = std::max(usual_s, usual);
        }
        figures.stretch.push_back(longest_s / usual_s);
        figures.disruption.push_back((longest_s - usual_s) / (2.0 * round_trip_s + usual_s));
        return {};
    }

    std::filesystem::path folder_;
    LocalCluster cluster_;
    std::vector<std::string> names_ = {"a", "b", "c", "d", "e"};
};

}  // namespace

Result<Table> measure_events(bool quick, std::vector<Figure>& figures) {
    const unsigned times = quick ? 4 : 30;
    const test::TemporaryFolder folder;
    Trials trials(folder.path());
    CHAOS_CHECK(trials.begin());
    std::mt19937 random(1);
    struct Kind {
        std::string name;
        Figures figures;
    };
    std::vector<Kind> kinds = {
        {"nothing", {}}, {"connect-link", {}}, {"disconnect-link", {}}, {"leave", {}}, {"failure", {}}};
    for (unsigned i = 0; i < times; ++i) {
        CHAOS_CHECK(trials.peace(kinds[0].figures));
        CHAOS_CHECK(trials.link(kinds[1].figures, true, random));
        CHAOS_CHECK(trials.link(kinds[2].figures, false, random));
        CHAOS_CHECK(trials.leave(kinds[3].figures, random));
        CHAOS_CHECK(trials.fail(kinds[4].figures, random));
    }
    CHAOS_TRY(const std::uint64_t computed_again, trials.end());
    std::fprintf(stderr, "events: %llu steps computed again, with the same bits\n",
                 static_cast<unsigned long long>(computed_again));
    Table table{.head = {"event", "times", "handling p50", "p99", "spanning step p50", "p99", "disruption p50", "p99"},
                .rows = {}};
    for (const Kind& kind : kinds) {
        if (kind.figures.stretch.empty()) continue;
        const bool fails = kind.name == "failure";
        table.rows.push_back({kind.name, std::to_string(kind.figures.stretch.size()),
                              fixed(quantile(kind.figures.handling_us, 0.5), 0) + " us",
                              fixed(quantile(kind.figures.handling_us, 0.99), 0) + " us",
                              fixed(quantile(kind.figures.stretch, 0.5), 3),
                              fixed(quantile(kind.figures.stretch, 0.99), 3),
                              fails ? fixed(quantile(kind.figures.disruption, 0.5), 2) : "",
                              fails ? fixed(quantile(kind.figures.disruption, 0.99), 2) : ""});
        if (kind.name == "nothing") continue;
        std::string name = kind.name;
        std::ranges::replace(name, '-', '_');
        figures.push_back({name + "_handling_p99_us", quantile(kind.figures.handling_us, 0.99)});
        if (fails) {
            figures.push_back({"failure_disruption_p50", quantile(kind.figures.disruption, 0.5)});
            figures.push_back({"failure_disruption_p99", quantile(kind.figures.disruption, 0.99)});
        } else {
            figures.push_back({name + "_step_stretch_p50", quantile(kind.figures.stretch, 0.5)});
            figures.push_back({name + "_steps_redone", static_cast<double>(kind.figures.redone)});
        }
    }
    return table;
}

}  // namespace chaos::bench
