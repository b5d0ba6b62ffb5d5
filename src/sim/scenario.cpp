#include "sim/scenario.h"

#include "base/random.h"
#include "base/words.h"

#include <algorithm>

namespace chaos::sim {
namespace {

constexpr Host max_nodes = 2000;  // newcomers come on top, and a view holds twice as many

// Draws from one stream of a seed.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : seed_(seed) {}
    std::uint64_t bits() { return random_bits(seed_, 0x7363656e, index_++); }
    std::uint64_t below(std::uint64_t limit) { return bits() % limit; }
    std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
    bool percent(std::uint64_t chance) { return below(100) < chance; }

private:
    std::uint64_t seed_;
    std::uint64_t index_ = 0;
};

// Writes the list of faults.
class Author {
public:
    Author(Setup& setup, Dice& dice, Time begin, Time duration)
        : setup_(setup), dice_(dice), begin_(begin), end_(begin + duration) {
        // In half of the runs faults come in bursts: several in the time that one change takes.
        if (dice_.percent(50))
            for (std::uint64_t i = dice_.between(1, 3); i > 0; --i) bursts_.push_back(anytime());
    }

    Time anytime() { return begin_ + static_cast<Time>(dice_.below(static_cast<std::uint64_t>(end_ - begin_))); }
    Time moment() {
        if (bursts_.empty() || dice_.percent(25)) return anytime();
        return bursts_[dice_.below(bursts_.size())] + span(0, 300 * millisecond);
    }
    Host any() { return static_cast<Host>(dice_.below(setup_.nodes)); }
    Host another(Host than) {
        return setup_.nodes < 2 ? than : (than + 1 + static_cast<Host>(dice_.below(setup_.nodes - 1))) % setup_.nodes;
    }
    Time span(Time low, Time high) {
        return static_cast<Time>(dice_.between(static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)));
    }
    void add(Time at, FaultKind kind, Host host, Host other = 0, std::uint64_t value = 0) {
        setup_.faults.push_back({.at = at, .kind = kind, .host = host, .other = other, .value = value});
    }
    void newcomer(Time at) { add(at, FaultKind::join, setup_.hosts++); }
    void impostor(Time at) {
        setup_.impostors.resize(setup_.hosts + 1);
        setup_.impostors[setup_.hosts] = static_cast<Impostor>(dice_.between(1, 4));
        newcomer(at);
    }
    // Two who were given one join token: one of them comes in.
    void rivals(Time at) {
        const auto token = static_cast<std::uint32_t>(setup_.hosts + 1);
        setup_.tokens.resize(setup_.hosts + 2);
        setup_.tokens[setup_.hosts] = setup_.tokens[setup_.hosts + 1] = token;
        newcomer(at);
        newcomer(at + span(0, 500 * millisecond));
    }

    void crash() {
        const Time at = moment();
        const Host host = any();
        const bool silent = dice_.percent(40);
        const bool for_good = dice_.percent(25);
        add(at, silent ? FaultKind::power_loss : FaultKind::crash, host, 0, for_good ? 1 : 0);
        if (for_good) return;
        add(at + span(100 * millisecond, 8 * second), dice_.percent(20) ? FaultKind::restart_blank : FaultKind::restart,
            host);
    }
    void churn(std::uint64_t count) {
        std::uint64_t leaves = setup_.nodes / 3;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t kind = dice_.below(10);
            if (kind < 3) {
                newcomer(moment());
            } else if (kind < 5 && leaves > 0) {
                --leaves;
                add(moment(), FaultKind::leave, any());
            } else {
                crash();
            }
        }
    }
    void cuts(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            const Time at = moment();
            const Host host = any();
            const Host other = another(host);
            if (host == other) return;
            add(at, dice_.percent(50) ? FaultKind::cut : FaultKind::cut_one_way, host, other);
            if (dice_.percent(80)) add(at + span(200 * millisecond, 12 * second), FaultKind::mend, host, other);
        }
    }
    void partitions(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            const Time at = moment();
            std::uint64_t mask = dice_.bits();
            if (dice_.percent(30)) mask &= dice_.bits();  // uneven sides
            add(at, FaultKind::partition, 0, 0, mask);
            if (dice_.percent(80)) add(at + span(300 * millisecond, 20 * second), FaultKind::heal, 0);
        }
    }
    void freezes(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            const Time at = moment();
            const Host host = any();
            const std::uint64_t kind = dice_.below(6);
            if (kind < 4) {
                add(at, FaultKind::freeze, host);
                if (dice_.percent(90)) add(at + span(50 * millisecond, 8 * second), FaultKind::thaw, host);
            } else if (kind == 4) {
                add(at, FaultKind::slow, host, 0, dice_.between(2, 12));
            } else {
                add(at, FaultKind::drift, host, 0, dice_.between(0, 2000));
            }
        }
    }
    void links(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            const Host host = any();
            add(moment(), dice_.percent(50) ? FaultKind::connect : FaultKind::disconnect, host, another(host));
        }
    }
    void blackout() {
        const Time at = moment();
        add(at, FaultKind::all_down, 0, 0, dice_.below(2));
        if (dice_.percent(70)) {
            add(at + span(200 * millisecond, 6 * second), FaultKind::all_up, 0);
            return;
        }
        for (Host host = 0; host < setup_.nodes; ++host)  // one by one
            add(at + span(200 * millisecond, 10 * second), FaultKind::restart, host);
    }
    void liar() {
        const Host host = any();
        const Time at = moment();
        add(at, FaultKind::lie, host, 0, dice_.between(1, all_lies));
        for (std::uint64_t i = 0; i < 3; ++i) newcomer(at + span(100 * millisecond, 6 * second));
        for (std::uint64_t i = dice_.between(1, 2); i > 0; --i) impostor(moment());
        if (dice_.percent(60)) add(moment(), FaultKind::corrupt, any(), 0, dice_.between(1'000, 100'000));
        if (dice_.percent(30)) add(moment(), FaultKind::corrupt, any(), 0, dice_.between(1'000, 300'000));
    }
    void institutions() {
        // Of institution 1 there are few, so that its removal leaves a quorum.
        if (dice_.percent(60)) add(moment(), FaultKind::remove, any(), 0, 1);
        const Time at = moment();
        if (dice_.percent(60)) {
            add(at, FaultKind::admit, any(), 0, 2);
            for (std::uint64_t i = dice_.below(3); i > 0; --i) newcomer(at + span(0, 3 * second));
        }
        if (dice_.percent(40)) {
            const Host host = any();
            if (const Host other = another(host); host != other)
                add(moment(), FaultKind::revoke, host, other, dice_.below(2));
        }
        if (dice_.percent(40)) impostor(moment());
        if (dice_.percent(40)) rivals(moment());
    }

private:
    Setup& setup_;
    Dice& dice_;
    Time begin_;
    Time end_;
    std::vector<Time> bursts_;
};

void write_faults(const std::string& scenario, Dice& dice, Author& author) {
    if (scenario == "churn") {
        author.churn(dice.between(2, 10));
    } else if (scenario == "partition") {
        author.partitions(dice.between(1, 3));
        author.cuts(dice.below(4));
        if (dice.percent(40)) author.churn(dice.between(1, 3));
    } else if (scenario == "flashcrowd") {
        const Time at = author.moment();
        for (std::uint64_t i = dice.between(4, 24); i > 0; --i) author.newcomer(at + author.span(0, 500 * millisecond));
        if (dice.percent(50)) author.churn(dice.between(1, 3));
    } else if (scenario == "wan") {
        author.churn(dice.between(1, 5));
        author.links(dice.below(4));
    } else if (scenario == "liar") {
        author.liar();
        if (dice.percent(40)) author.churn(dice.between(1, 3));
    } else if (scenario == "blackout") {
        author.blackout();
        if (dice.percent(50)) author.churn(dice.between(1, 4));
    } else if (scenario == "freeze") {
        author.freezes(dice.between(1, 6));
        if (dice.percent(40)) author.churn(dice.between(1, 3));
    } else if (scenario == "links") {
        author.links(dice.between(2, 12));
        if (dice.percent(40)) author.cuts(dice.between(1, 3));
    } else if (scenario == "institutions") {
        author.institutions();
        if (dice.percent(40)) author.churn(dice.between(1, 3));
    } else if (scenario == "lossy") {
        author.add(author.moment(), FaultKind::lossy, 0, 0, dice.between(500, 30'000));
        author.churn(dice.between(1, 5));
    } else if (scenario == "single") {
        const Host host = author.any();
        if (dice.percent(50))
            author.add(author.moment(), FaultKind::crash, host, 0, 1);
        else
            author.add(author.moment(), FaultKind::power_loss, host, 0, 1);
    }
}

// A large cluster that is there from the beginning, and one event each second.
void write_scale(Setup& setup, Dice& dice, Time begin, Time duration) {
    for (Time at = begin; at < begin + duration; at += second) {
        const Host host = static_cast<Host>(dice.below(setup.nodes));
        const Host other = static_cast<Host>(dice.below(setup.nodes));
        const auto add = [&](Time when, FaultKind kind, Host h, Host o) {
            setup.faults.push_back({.at = when, .kind = kind, .host = h, .other = o, .value = 0});
        };
        switch (dice.below(5)) {
            case 0:
                add(at, FaultKind::join, setup.hosts++, 0);
                break;
            case 1:
                add(at, FaultKind::leave, host, 0);
                break;
            case 2:
                add(at, FaultKind::crash, host, 0);
                add(at + 20 * second, FaultKind::restart, host, 0);
                break;
            case 3:
                add(at, FaultKind::connect, host, other);
                break;
            default:
                add(at, FaultKind::disconnect, host, other);
                break;
        }
    }
}

// Every other node came by a join token, the founder among them.
void issue_tokens(Setup& setup) {
    setup.impostors.resize(setup.hosts);
    setup.tokens.resize(setup.hosts);
    for (Host host = 0; host < setup.hosts; ++host) {
        if (host % 2 == 0 && setup.impostors[host] == Impostor::none && setup.tokens[host] == 0)
            setup.tokens[host] = host + 1;
        if (setup.impostors[host] == Impostor::replay) setup.tokens[host] = setup.tokens[0];
    }
}

constexpr std::size_t mixable = 11;  // of the names below

}  // namespace

const std::vector<std::string_view>& scenario_names() {
    static const std::vector<std::string_view> names = {"churn",    "partition", "flashcrowd", "wan",          "liar",
                                                        "blackout", "freeze",    "links",      "institutions", "lossy",
                                                        "single",   "calm",      "scale",      "mixed"};
    return names;
}

Result<Setup> make_setup(std::uint64_t seed, const Wishes& wishes) {
    const auto& names = scenario_names();
    if (std::find(names.begin(), names.end(), wishes.scenario) == names.end())
        return Error{"there is no scenario \"" + wishes.scenario + "\"; there are " + one_of(names)};
    Dice dice(seed);
    Setup setup;
    setup.seed = seed;
    setup.scenario = wishes.scenario == "mixed" ? std::string(names[dice.below(mixable)]) : wishes.scenario;
    setup.strict = dice.percent(50);
    if (wishes.strict) setup.strict = *wishes.strict;
    // Most clusters are small: what goes wrong mostly goes wrong there already, and faster.
    setup.nodes = static_cast<Host>(dice.percent(60) ? dice.between(2, 9) : dice.between(2, 40));
    if (setup.scenario == "flashcrowd") setup.nodes = static_cast<Host>(dice.between(1, 6));
    if (setup.scenario == "liar") setup.nodes = std::max<Host>(setup.nodes, 6);
    if (setup.scenario == "scale") setup.nodes = 100;
    if (wishes.nodes) setup.nodes = *wishes.nodes;
    if (setup.nodes == 0) return Error{"a cluster has at least one node"};
    if (setup.nodes > max_nodes)
        return Error{"a simulated cluster has at most " + std::to_string(max_nodes) + " nodes"};
    if (wishes.duration && *wishes.duration < second) return Error{"things go wrong for at least one second"};
    setup.hosts = setup.nodes;
    setup.options.links_wanted = static_cast<std::uint32_t>(dice.between(2, 4));
    setup.plan = dice.percent(25) ? PlanKind::sync_plan : PlanKind::tree;
    setup.options.detect = static_cast<Time>(dice.between(2, 8)) * 250 * millisecond;
    setup.options.heartbeat = setup.options.detect / 4;
    setup.options.fork_after = static_cast<Time>(dice.between(5, 12)) * second;
    setup.options.found_after = static_cast<Time>(dice.between(5, 30)) * second;
    if (dice.percent(30)) {  // other rooms, not only other racks
        setup.paths.delay_max = 25 * millisecond;
        setup.paths.jitter = 2 * millisecond;
    }
    if (setup.scenario == "wan") {
        setup.paths.delay_min = 20 * millisecond;
        setup.paths.delay_max = 200 * millisecond;
        setup.paths.jitter = 5 * millisecond;
        setup.options.detect = 2 * second;
    }
    if (setup.scenario == "liar") setup.options.links_wanted = 4;
    setup.batch = setup.nodes > 16 ? 128 : 64;

    const Time duration = wishes.duration.value_or(static_cast<Time>(dice.between(4, 20)) * second);
    Time begin = (setup.scenario == "wan" ? 8 : 4) * second + static_cast<Time>(setup.nodes) * 100 * millisecond;
    if (dice.percent(20)) begin = second;  // while the first are still joining
    if (setup.scenario == "scale") {
        setup.prepared = true;
        setup.options.links_wanted = 8;
        setup.batch = 4096;
        write_scale(setup, dice, 10 * second, duration);
        setup.quiet_at = 10 * second + duration;
    } else {
        Author author(setup, dice, begin, duration);
        write_faults(setup.scenario, dice, author);
        if (wishes.scenario == "mixed" && dice.percent(30))
            write_faults(std::string(names[dice.below(mixable)]), dice, author);
        setup.quiet_at = begin + duration;
        for (const Fault& fault : setup.faults) setup.quiet_at = std::max(setup.quiet_at, fault.at);
        setup.quiet_at += second;
    }
    std::stable_sort(setup.faults.begin(), setup.faults.end(),
                     [](const Fault& x, const Fault& y) { return x.at < y.at; });

    // A few nodes do a step in some hundred milliseconds; many are bounded by the exchange.
    const std::uint64_t step_ms = setup.scenario == "scale" ? 1000 : dice.between(150, 500);
    const std::uint64_t each = std::uint64_t{setup.batch} * 1000 / step_ms /
                               (setup.scenario == "scale" ? setup.nodes : std::min<Host>(setup.nodes, 4));
    for (Host host = 0; host < setup.hosts; ++host) {
        setup.speeds.push_back(
            static_cast<std::uint32_t>(std::max<std::uint64_t>(1, each * dice.between(60, 140) / 100)));
        std::uint8_t institution = 0;
        if (setup.scenario == "institutions") institution = host >= setup.nodes ? 2 : host % 4 == 3 ? 1 : 0;
        setup.institutions.push_back(institution);
    }
    setup.brittle = dice.percent(50);
    issue_tokens(setup);
    return setup;
}

}  // namespace chaos::sim
