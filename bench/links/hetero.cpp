#include "hetero.h"

#include "hosts.h"
#include "peer.h"

#include "base/random.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <numeric>
#include <sstream>

namespace chaos::bench {
namespace {

using Clock = std::chrono::steady_clock;
using testbed::Process;
using testbed::Spec;
using testbed::Testbed;

constexpr unsigned hosts = 6;
constexpr std::uint32_t connections = 2;
// TCP's share of what a link carries, with full segments (testbed/spec.h): what a node would measure.
constexpr std::uint64_t tcp_bytes = 1448;
constexpr std::uint64_t frame_bytes = 1514;

std::string host_name(unsigned number) {
    return "h" + std::to_string(number);
}

// Of the link between two hosts, a < b: 10 to 100 Mbit/s, in steps of 0.01.
std::uint64_t bits_per_s(std::uint64_t seed, unsigned a, unsigned b) {
    return 10'000'000 + random_bits(seed, a, b) % 9'001 * 10'000;
}

plan::SyncRequest request_of(std::uint64_t seed, std::uint64_t bytes) {
    plan::SyncRequest request;
    request.bytes = bytes;
    for (unsigned b = 0; b < hosts; ++b) {
        request.members.push_back({.id = b});
        for (unsigned a = 0; a < b; ++a) {
            const std::uint64_t rate = bits_per_s(seed, a, b) / 8 * tcp_bytes / frame_bytes;
            request.links.push_back(
                {.a = a, .b = b, .a_to_b_bytes_per_s = rate, .b_to_a_bytes_per_s = rate, .delay_ns = 100'000});
        }
    }
    request.chunk_bytes = collective::fit_chunk_bytes(request);
    return request;
}

// n paths along the cycle of all members in order of number, each rooted in its middle.
plan::SyncPlan plain_ring(const plan::SyncRequest& request) {
    plan::SyncPlan ring;
    ring.shape = plan::SyncShape::ring;
    for (unsigned gap = 0; gap < hosts; ++gap) {
        plan::SyncTree tree{
            .first_byte = ring.trees.empty() ? 0 : ring.trees.back().first_byte + ring.trees.back().bytes,
            .bytes = request.bytes / hosts / sizeof(float) * sizeof(float),
            .parent = std::vector<std::uint32_t>(hosts)};
        if (gap == hosts - 1) tree.bytes = request.bytes - tree.first_byte;
        for (unsigned place = 0; place < hosts; ++place) {
            const unsigned towards = place < hosts / 2 ? place + 1 : place > hosts / 2 ? place - 1 : place;
            tree.parent[(gap + 1 + place) % hosts] = (gap + 1 + towards) % hosts;
        }
        ring.trees.push_back(std::move(tree));
    }
    return ring;
}

// A random tree over all members, below a random one of them.
plan::SyncPlan random_tree(const plan::SyncRequest& request, std::uint64_t seed) {
    constexpr std::uint64_t stream = 1000;
    std::vector<std::uint32_t> parent(hosts);
    std::vector<std::uint32_t> in_tree{static_cast<std::uint32_t>(random_bits(seed, stream, hosts) % hosts)};
    parent[in_tree[0]] = in_tree[0];
    // A walk from member to member; the way by which a member is entered first joins it to the tree: every tree is as
    // likely as any other.
    std::uint32_t at = in_tree[0];
    for (std::uint64_t step = hosts + 1; in_tree.size() < hosts; ++step) {
        const auto next = static_cast<std::uint32_t>(random_bits(seed, stream, step) % hosts);
        if (next == at) continue;
        if (std::ranges::find(in_tree, next) == in_tree.end()) {
            parent[next] = at;
            in_tree.push_back(next);
        }
        at = next;
    }
    plan::SyncPlan tree;
    tree.shape = plan::SyncShape::tree;
    tree.trees.push_back({.first_byte = 0, .bytes = request.bytes, .parent = std::move(parent)});
    return tree;
}

// One of the six: all-reduces under each plan in turn. Number 0 prints, per round, the plan's name, the seconds until
// everybody had the result, and the share of the machine that was busy.
int reduce(unsigned number, std::uint64_t seed, std::uint64_t bytes, unsigned rounds,
           const std::vector<std::string>& addresses) {
    Peer peer(number, false, connections);
    (void)peer.listen(addresses[number] + ":" + std::to_string(host_port));
    std::printf("listening\n");
    std::fflush(stdout);
    for (unsigned other = 0; other < number; ++other)
        peer.connect(other, addresses[other] + ":" + std::to_string(host_port));
    peer.await_links(hosts - 1);

    const plan::SyncRequest request = request_of(seed, bytes);
    const Result<plan::SyncPlan> planned = plan::plan_sync(request);
    if (!planned) {
        std::fprintf(stderr, "%s\n", planned.error().message.c_str());
        return 1;
    }
    struct Contender {
        std::string name;
        plan::SyncPlan plan;
        unsigned repeats;  // more for who is fast, so that what links let through after a rest does not flatter it
    };
    const std::vector<Contender> contenders{
        {"plan", *planned, 3}, {"ring", plain_ring(request), 1}, {"tree", random_tree(request, seed), 1}};

    const std::vector<float> input(bytes / sizeof(float), static_cast<float>(number + 1));
    std::vector<std::vector<float>> outputs(2, std::vector<float>(input.size()));  // what is sent stays for one step
    std::size_t turn = 0;
    const auto once = [&](const Contender& contender) {
        peer.follow(contender.plan, hosts, request);
        peer.barrier(hosts);
        const MachineUse use;
        const auto begun = Clock::now();
        for (unsigned i = 0; i < contender.repeats; ++i) peer.all_reduce(input, outputs[turn++ % 2]);
        peer.barrier(hosts);
        const double seconds = std::chrono::duration<double>(Clock::now() - begun).count() / contender.repeats;
        if (number == 0) std::printf("%s %.6f %.3f\n", contender.name.c_str(), seconds, use.share());
    };
    peer.follow(*planned, hosts, request);
    peer.all_reduce(input, outputs[turn++ % 2]);  // warms up
    for (unsigned round = 0; round < rounds; ++round)
        for (const Contender& contender : contenders) once(contender);
    const auto expected = static_cast<float>(hosts * (hosts + 1) / 2);
    for (const std::vector<float>& output : outputs) {
        if (std::ranges::any_of(output, [&](float value) { return value != expected; })) {
            std::fprintf(stderr, "a wrong sum\n");
            return 1;
        }
    }
    peer.finish(hosts);
    return 0;
}

struct Seen {
    std::map<std::string, std::vector<double>> seconds;  // by plan
    double busy = 0.0;                                   // the most of any round
};

Result<Seen> run_seed(std::uint64_t seed, std::uint64_t bytes, unsigned rounds) {
    Spec spec{.seed = seed};
    for (unsigned host = 0; host < hosts; ++host) spec.hosts.push_back({host_name(host)});
    for (unsigned b = 0; b < hosts; ++b)
        for (unsigned a = 0; a < b; ++a)
            spec.links.push_back({.a = host_name(a),
                                  .b = host_name(b),
                                  .rate_mbit = static_cast<double>(bits_per_s(seed, a, b)) * 1e-6});
    CHAOS_TRY(const Testbed box, Testbed::start(spec));
    std::vector<std::string> addresses;
    for (unsigned host = 0; host < hosts; ++host) addresses.push_back(*box.address(host_name(host)));
    std::vector<Process> processes;
    for (unsigned host = 0; host < hosts; ++host) {
        std::vector<std::string> arguments{"hetero", std::to_string(host), std::to_string(seed), std::to_string(bytes),
                                           std::to_string(rounds)};
        arguments.insert(arguments.end(), addresses.begin(), addresses.end());
        CHAOS_TRY(Process process, spawn_part(box, host_name(host), arguments));
        if (!process.wait_for_output("listening")) return Error{"a process does not listen: " + process.err()};
        processes.push_back(std::move(process));
    }
    for (unsigned host = 1; host < hosts; ++host) {
        CHAOS_TRY(const std::string printed, output_of(processes[host]));
    }
    CHAOS_TRY(const std::string printed, output_of(processes[0]));
    Seen seen;
    std::istringstream lines(printed);
    std::string name;
    lines >> name;
    double seconds = 0.0;
    for (double busy = 0.0; lines >> name >> seconds >> busy;) {
        seen.seconds[name].push_back(seconds);
        seen.busy = std::max(seen.busy, busy);
    }
    return seen;
}

}  // namespace

Result<Table> compare_plans(bool quick, std::vector<Figure>& figures) {
    const std::uint64_t bytes = 16'000'000;
    const unsigned rounds = quick ? 1 : 2;
    Table table{.head = {"seed", "plan", "bound", "plan / bound", "ring / plan", "tree / plan", "% machine"},
                .rows = {}};
    std::vector<double> vs_ring;
    std::vector<double> vs_tree;
    std::vector<double> vs_bound;
    double busiest = 0.0;
    for (std::uint64_t seed = 1; seed <= (quick ? 2 : 5); ++seed) {
        CHAOS_TRY(const plan::SyncPlan planned, plan::plan_sync(request_of(seed, bytes)));
        CHAOS_TRY(Seen seen, run_seed(seed, bytes, rounds));
        const double plan_s = median(seen.seconds["plan"]);
        const double bound_s = static_cast<double>(planned.bound_ns) * 1e-9;
        vs_bound.push_back(plan_s / bound_s);
        vs_ring.push_back(median(seen.seconds["ring"]) / plan_s);
        vs_tree.push_back(median(seen.seconds["tree"]) / plan_s);
        busiest = std::max(busiest, seen.busy);
        table.rows.push_back({std::to_string(seed), fixed(plan_s, 3) + " s", fixed(bound_s, 3) + " s",
                              fixed(vs_bound.back(), 3), fixed(vs_ring.back(), 2), fixed(vs_tree.back(), 2),
                              fixed(seen.busy * 100.0, 0)});
    }
    constexpr double void_above = 0.8;  // what is measured is the CPU then, not the links
    if (busiest > void_above) return table;
    figures.insert(figures.end(), {{"hetero_vs_ring", median(vs_ring)},
                                   {"hetero_vs_ring_worst", *std::ranges::min_element(vs_ring)},
                                   {"hetero_vs_tree", median(vs_tree)},
                                   {"hetero_vs_tree_worst", *std::ranges::min_element(vs_tree)},
                                   {"hetero_vs_bound", median(vs_bound)},
                                   {"hetero_vs_bound_worst", *std::ranges::max_element(vs_bound)},
                                   {"hetero_cpu", busiest}});
    return table;
}

int play_hetero(const std::vector<std::string>& arguments) {
    if (arguments.size() != 4 + hosts) return 2;
    return reduce(static_cast<unsigned>(std::stoul(arguments[0])), std::stoull(arguments[1]), std::stoull(arguments[2]),
                  static_cast<unsigned>(std::stoul(arguments[3])), {arguments.begin() + 4, arguments.end()});
}

}  // namespace chaos::bench
