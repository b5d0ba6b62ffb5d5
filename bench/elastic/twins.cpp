#include "twins.h"

#include "node/institutions.h"
#include "nodes/nodes.h"
#include "temporary_folder.h"
#include "testbed/testbed.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::seconds;

constexpr seconds patience{120};
constexpr unsigned port = 7440;
const std::vector<std::string> hosts = {"a", "b"};
constexpr double host_cpus = 0.8;  // the rest of its core is for the kernel's work on packets, and for us
constexpr double link_mbit = 1000.0;
constexpr std::uint64_t warm_up_steps = 5;

// An mlp of equal layers: the gradient of the first, which nothing can hide, is a small part of all.
constexpr std::uint64_t width = 1024;
constexpr std::uint64_t layers = 8;
constexpr std::uint64_t classes = 10;
constexpr std::uint64_t parameters = layers * (width + 1) * width + (width + 1) * classes;

std::string run_of_layers(std::uint64_t samples) {
    std::string hidden = std::to_string(width);
    for (std::uint64_t i = 1; i < layers; ++i) hidden += ", " + std::to_string(width);
    return "[model]\nkind = \"mlp\"\nhidden = [" + hidden + "]\n[data]\nkind = \"synthetic\"\nshape = [" +
           std::to_string(width) + "]\nclasses = " + std::to_string(classes) +
           "\nsamples = 4096\nheld_out = 0\n[train]\nthreads = 1\nbatch = " + std::to_string(samples) +
           "\nsteps = 1000000\neval_every = 0\ncheckpoint_every = 0\n";
}

Wanted trained_by(std::size_t members) {
    return [members](const json& line) {
        return line.value("kind", "") == "trained" && line.value("members", std::size_t{0}) == members;
    };
}

// Of a node, per step.
struct Cost {
    double step_s = 0.0;
    double cpu_s = 0.0;
};

struct Reading {
    std::uint64_t step = 0;
    double time = 0.0;
    double cpu_s = 0.0;
};

Result<Reading> after_next_step(NodeProcess& node) {
    CHAOS_TRY(const Line line, node.wait_for(is_kind("trained"), patience, node.lines().size()));
    return Reading{.step = line.content.at("step"), .time = line.time, .cpu_s = node.cpu_seconds()};
}

// Of those who train at the same time: the slower one's step, and the mean of their CPU time.
Result<Cost> cost_of(std::vector<NodeProcess>& nodes, std::uint64_t steps) {
    for (NodeProcess& node : nodes) {
        CHAOS_TRY(const Reading here, after_next_step(node));
        CHAOS_CHECK(node.wait_for(trained_step(here.step + warm_up_steps), patience));
    }
    std::vector<Reading> begun;
    for (NodeProcess& node : nodes) {
        CHAOS_TRY(const Reading reading, after_next_step(node));
        begun.push_back(reading);
    }
    Cost cost;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        CHAOS_CHECK(nodes[i].wait_for(trained_step(begun[i].step + steps), patience));
        CHAOS_TRY(const Reading ended, after_next_step(nodes[i]));
        const double done = static_cast<double>(ended.step - begun[i].step);
        cost.step_s = std::max(cost.step_s, (ended.time - begun[i].time) / done);
        cost.cpu_s += (ended.cpu_s - begun[i].cpu_s) / done / static_cast<double>(nodes.size());
    }
    return cost;
}

class Twins {
public:
    static Result<Twins> start() {
        testbed::Spec spec;
        for (const std::string& host : hosts) spec.hosts.push_back({.name = host, .cpus = host_cpus});
        testbed::link_all(spec, {.rate_mbit = link_mbit});
        CHAOS_TRY(testbed::Testbed box, testbed::Testbed::start(spec));
        return Twins(std::move(box));
    }

    Result<Cost> alone(std::uint64_t batch, std::uint64_t steps) {
        const test::TemporaryFolder folder;
        folder.write("run.toml", run_of_layers(batch / hosts.size()));
        std::vector<NodeProcess> nodes;
        for (const std::string& host : hosts) {
            CHAOS_TRY(const NodeStart start, start_of(folder, host, folder / ("home-" + host)));
            CHAOS_TRY(NodeProcess node, NodeProcess::start(start));
            nodes.push_back(std::move(node));
        }
        return cost_of(nodes, steps);
    }

    Result<Cost> together(std::uint64_t batch, std::uint64_t steps) {
        const test::TemporaryFolder folder;
        folder.write("run.toml", run_of_layers(batch));
        std::vector<NodeProcess> nodes;
        for (const std::string& host : hosts) {
            CHAOS_TRY(NodeStart start, start_of(folder, host, folder / "home"));
            if (!nodes.empty()) {
                CHAOS_CHECK(nodes.front().wait_for(is_kind("trained"), patience));
                CHAOS_TRY(const std::string founder, box_.address(hosts.front()));
                start.join = {founder + ":" + std::to_string(port)};
            }
            CHAOS_TRY(NodeProcess node, NodeProcess::start(start));
            nodes.push_back(std::move(node));
        }
        for (NodeProcess& node : nodes) CHAOS_CHECK(node.wait_for(trained_by(hosts.size()), patience));
        return cost_of(nodes, steps);
    }

    // The slower process's. None: Gloo is not here.
    Result<std::optional<double>> gloo_s() {
#ifdef CHAOS_GLOO_PAIR
        const test::TemporaryFolder folder;
        std::vector<testbed::Process> processes;
        for (std::size_t i = 0; i < hosts.size(); ++i) {
            CHAOS_TRY(const std::string address, box_.address(hosts[i]));
            CHAOS_TRY(testbed::Process process, box_.spawn(hosts[i], {CHAOS_GLOO_PAIR, folder.path(), std::to_string(i),
                                                                      address, std::to_string(parameters)}));
            processes.push_back(std::move(process));
        }
        double slower_s = 0.0;
        for (testbed::Process& process : processes) {
            if (process.wait() != 0) return Error{"Gloo failed: " + process.err()};
            slower_s = std::max(slower_s, std::stod(process.out()));
        }
        return std::optional(slower_s);
#else
        return std::optional<double>();
#endif
    }

private:
    explicit Twins(testbed::Testbed box) : box_(std::move(box)) {}

    Result<NodeStart> start_of(const test::TemporaryFolder& folder, const std::string& host, const fs::path& home) {
        NodeStart start;
        start.run_file = folder / "run.toml";
        start.dir = folder / host;
        start.home = home;
        start.toy = false;
        CHAOS_TRY(const std::string address, box_.address(host));
        start.listen = address + ":" + std::to_string(port);
        CHAOS_TRY(start.place, box_.place(host));
        return start;
    }

    testbed::Testbed box_;
};

// Computing takes four times as long as the all-reduce, or not much longer.
constexpr std::uint64_t large_batch = 2048;
constexpr std::uint64_t small_batch = 512;

Result<void> measure_two(const Wish& wish, Table& table, std::vector<Figure>& figures) {
    CHAOS_TRY(Twins twins, Twins::start());
    for (const std::uint64_t batch : {large_batch, small_batch}) {
        if (wish.quick && batch != large_batch) continue;
        const std::uint64_t steps = (wish.quick ? 8 : 15) * large_batch / batch;  // as long in either case
        std::vector<double> ratios;
        for (unsigned i = 0; i < wish.times.value_or(wish.quick ? 1 : 3); ++i) {
            CHAOS_TRY(const Cost alone, twins.alone(batch, steps));
            CHAOS_TRY(const std::optional<double> gloo_s, twins.gloo_s());
            CHAOS_TRY(const Cost together, twins.together(batch, steps));
            const double own_s = std::max(together.cpu_s - alone.cpu_s, 0.0) / host_cpus;
            const double best_s = std::max(alone.step_s, gloo_s.value_or(0.0)) + own_s;
            if (gloo_s) ratios.push_back(together.step_s / best_s);
            table.rows.push_back({"two: a step of " + std::to_string(batch), fixed(together.step_s, 3) + " s",
                                  "alone " + fixed(alone.step_s, 3) + " s, Gloo " +
                                      (gloo_s ? fixed(*gloo_s, 3) + " s" : "not here") + ", own CPU " +
                                      fixed(own_s, 3) + " s",
                                  fixed(best_s, 3) + " s", gloo_s ? fixed(together.step_s / best_s, 3) : ""});
            std::fprintf(stderr, "two: a step of %.3f s, at best %.3f s\n", together.step_s, best_s);
        }
        if (!ratios.empty())
            figures.push_back({batch == large_batch ? "twin_step_ratio" : "twin_small_step_ratio", median(ratios)});
    }
    return {};
}

constexpr unsigned many = 8;

std::string small_run() {
    return "[model]\nkind = \"llama\"\nwidth = 64\nlayers = 2\nheads = 4\n[data]\nkind = \"synthetic\"\ncontext = 32\n"
           "samples = 1000\nheld_out = 0\n[train]\nthreads = 1\nbatch = 64\nsteps = 1000000\neval_every = 0\n"
           "checkpoint_every = 0\n";
}

// From the start of all until each has told of a step: of its own, or of all.
Result<double> first_step_s(bool together) {
    const test::TemporaryFolder folder;
    folder.write("run.toml", small_run());
    CHAOS_CHECK(node::make_institution(folder / "home", "eight"));
    // Nobody else listens there.
    const auto address = [](unsigned number) {
        return "127.77.0." + std::to_string(number + 1) + ":" + std::to_string(port);
    };
    std::vector<NodeProcess> nodes;
    const double begun = now();
    for (unsigned i = 0; i < many; ++i) {
        NodeStart start;
        start.run_file = folder / "run.toml";
        start.dir = folder / std::to_string(i);
        start.home = folder / "home";
        start.toy = false;
        start.listen = address(i);
        if (together && i > 0) start.join = {address(0)};
        CHAOS_TRY(NodeProcess node, NodeProcess::start(start));
        nodes.push_back(std::move(node));
    }
    double last = begun;
    for (NodeProcess& node : nodes) {
        CHAOS_TRY(const Line line, node.wait_for(trained_by(together ? many : 1), patience));
        last = std::max(last, line.time);
    }
    return last - begun;
}

Result<void> measure_eight(const Wish& wish, Table& table, std::vector<Figure>& figures) {
    std::vector<double> ratios;
    for (unsigned i = 0; i < wish.times.value_or(wish.quick ? 1 : 3); ++i) {
        CHAOS_TRY(const double alone_s, first_step_s(false));
        CHAOS_TRY(const double together_s, first_step_s(true));
        const double allowed_s = 1.3 * alone_s + 1.0;
        ratios.push_back(together_s / allowed_s);
        table.rows.push_back({"eight: the first step of all", fixed(together_s, 2) + " s",
                              "1.3 x alone " + fixed(alone_s, 2) + " s, and 1 s", fixed(allowed_s, 2) + " s",
                              fixed(ratios.back(), 3)});
        std::fprintf(stderr, "eight: together after %.2f s, alone %.2f s\n", together_s, alone_s);
    }
    figures.push_back({"eight_first_step_ratio", median(ratios)});
    return {};
}

}  // namespace

Result<Table> measure_twins(const Wish& wish, std::vector<Figure>& figures) {
    Table table{.head = {"nodes that share", "took", "compared with", "in all", "ratio"}, .rows = {}};
    CHAOS_CHECK(measure_two(wish, table, figures));
    CHAOS_CHECK(measure_eight(wish, table, figures));
    return table;
}

}  // namespace chaos::bench
