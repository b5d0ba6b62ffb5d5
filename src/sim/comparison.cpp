#include "sim/comparison.h"

#include "base/assert.h"
#include "base/median.h"

#include <array>
#include <cstdio>

namespace chaos::sim {
namespace {

constexpr std::array<std::uint64_t, 2> cards_bytes_per_s = {125'000'000, 1'250'000'000};
constexpr std::array<Host, 5> sizes = {4, 8, 16, 32, 64};
constexpr std::array<Host, 2> crowd_sizes = {8, 32};
constexpr std::array<Host, 3> crowds = {1, 4, 8};
constexpr Host rhythm_size = 16;
constexpr std::array<Time, 3> computes = {100 * millisecond, 1 * second, 10 * second};

struct Samples {
    std::vector<std::uint64_t> ratio_milli;
    std::vector<Time> delay;
    std::vector<Time> members_idle;
    std::vector<Time> joiners_idle;

    void add(const ScaleOut& outcome, Time limit) {
        ratio_milli.push_back(static_cast<std::uint64_t>((outcome.delay * 1000 + limit / 2) / limit));
        delay.push_back(outcome.delay);
        members_idle.push_back(outcome.members_idle);
        joiners_idle.push_back(outcome.joiners_idle);
    }
    [[nodiscard]] Figures medians() const {
        return {median(ratio_milli), median(delay), median(members_idle), median(joiners_idle)};
    }
};

// Three significant digits are enough for medians.
std::string number(std::uint64_t milli) {
    std::array<char, 32> text{};
    const double value = static_cast<double>(milli) / 1000;
    const int places = milli < 10'000 ? 2 : milli < 100'000 ? 1 : 0;
    std::snprintf(text.data(), text.size(), "%.*f", places, value);
    return text.data();
}
std::string seconds(Time time) {
    return number(static_cast<std::uint64_t>((time + millisecond / 2) / millisecond));
}

std::string card_name(std::uint64_t bytes_per_s) {
    return std::to_string(bytes_per_s / 125'000'000) + " Gbit/s";
}

using Reading = std::string (*)(const Figures&);
std::string read_ratio(const Figures& figures) {
    return number(figures.ratio_milli);
}
std::string read_members_idle(const Figures& figures) {
    return seconds(figures.members_idle);
}
std::string read_joiners_idle(const Figures& figures) {
    return seconds(figures.joiners_idle);
}

std::string table_head(std::string_view first) {
    std::string line = "| " + std::string(first) + " |";
    std::string rule = "| --- |";
    for (const Strategy strategy : all_strategies) {
        line += " " + std::string(title_of(strategy)) + " |";
        rule += " ---: |";
    }
    return line + "\n" + rule + "\n";
}

std::string table_line(std::string_view first, const ComparedSetting& setting, Reading reading) {
    std::string line = "| " + std::string(first) + " |";
    for (std::size_t i = 0; i < setting.calm.size(); ++i) {
        line += " " + reading(setting.calm[i]);
        if (!setting.struck.empty()) line += " / " + reading(setting.struck[i]);
        line += " |";
    }
    return line + "\n";
}

// Over the models, of one card and size.
ComparedSetting over_models(const Comparison& comparison, std::uint64_t card, Host members) {
    ComparedSetting sum;
    for (std::size_t i = 0; i < all_strategies.size(); ++i) {
        Samples calm;
        Samples struck;
        const auto add = [](Samples& samples, const Figures& figures) {
            samples.ratio_milli.push_back(figures.ratio_milli);
            samples.delay.push_back(figures.delay);
            samples.members_idle.push_back(figures.members_idle);
            samples.joiners_idle.push_back(figures.joiners_idle);
        };
        for (const ComparedSetting& setting : comparison.joins) {
            if (setting.card_bytes_per_s != card || setting.members != members) continue;
            add(calm, setting.calm[i]);
            add(struck, setting.struck[i]);
        }
        sum.calm.push_back(calm.medians());
        sum.struck.push_back(struck.medians());
    }
    return sum;
}

std::string summary_table(const Comparison& comparison, std::uint64_t card, Reading reading) {
    std::string text = table_head("neighbours");
    for (const Host members : sizes)
        text += table_line(std::to_string(members), over_models(comparison, card, members), reading);
    return text;
}

// In how many settings ours has the smallest figure of all.
template <class Key>
std::string wins(const Comparison& comparison, std::uint64_t card, Key key) {
    int all = 0;
    int calm = 0;
    int struck = 0;
    const auto first_is_least = [&](const std::vector<Figures>& figures) {
        return std::all_of(figures.begin(), figures.end(),
                           [&](const Figures& other) { return key(figures.front()) <= key(other); });
    };
    for (const ComparedSetting& setting : comparison.joins) {
        if (setting.card_bytes_per_s != card) continue;
        ++all;
        if (first_is_least(setting.calm)) ++calm;
        if (first_is_least(setting.struck)) ++struck;
    }
    return std::to_string(calm) + " / " + std::to_string(struck) + " of " + std::to_string(all);
}

std::string details(const Comparison& comparison, std::uint64_t card) {
    const auto table = [&](std::string_view first, Reading reading, bool with_limit) {
        std::string text = table_head(first);
        for (const ComparedSetting& setting : comparison.joins) {
            if (setting.card_bytes_per_s != card) continue;
            std::string name = std::string(setting.model) + ", " + std::to_string(setting.members);
            if (with_limit) name += ", " + seconds(setting.limit) + " s";
            text += table_line(name, setting, reading);
        }
        return text;
    };
    const std::string name = card_name(card);
    return "\n### Scale-out delay / limit, cards of " + name + "\n\n" +
           table("model, neighbours, limit", read_ratio, true) + "\n### Idle time of members, node-seconds, cards of " +
           name + "\n\n" + table("model, neighbours", read_members_idle, false) +
           "\n### Idle time of the joiner, seconds, cards of " + name + "\n\n" +
           table("model, neighbours", read_joiners_idle, false);
}

std::string crowd_tables(const Comparison& comparison) {
    const auto table = [&](Reading reading) {
        std::string text = table_head("cards, model, neighbours, joiners");
        for (const ComparedSetting& setting : comparison.crowds)
            text += table_line(card_name(setting.card_bytes_per_s) + ", " + std::string(setting.model) + ", " +
                                   std::to_string(setting.members) + ", " + std::to_string(setting.joiners),
                               setting, reading);
        return text;
    };
    return "\n### Delay of the last joiner / limit\n\n" + table(read_ratio) +
           "\n### Idle time of members, node-seconds\n\n" + table(read_members_idle) +
           "\n### Idle time of all joiners, node-seconds\n\n" + table(read_joiners_idle);
}

std::string rhythm_tables(const Comparison& comparison) {
    const auto table = [&](Reading reading) {
        std::string text = table_head("cards, model, computation per step");
        for (const ComparedSetting& setting : comparison.rhythms)
            text += table_line(card_name(setting.card_bytes_per_s) + ", " + std::string(setting.model) + ", " +
                                   seconds(setting.compute) + " s",
                               setting, reading);
        return text;
    };
    return "\n### Scale-out delay / limit\n\n" + table(read_ratio) + "\n### Idle time of members, node-seconds\n\n" +
           table(read_members_idle) + "\n### Idle time of the joiner, seconds\n\n" + table(read_joiners_idle);
}

constexpr std::string_view introduction =
    R"(This page compares how long a joiner waits for the state, and how long everybody else waits for it, when Chaos or one of its rivals scales out. It comes out of a simulation (`src/sim/scaleout.h`), not out of measurements, and **nothing here reproduces
the tables of the Chaos paper**: its body was not available to us. What is taken from its abstract and prototype are the six models and the links of 100-1000 Mbit/s. Figures are for comparing strategies with each other and with the limit, on
sizes that no test machine has; do not read them as seconds on your machines.
)";

constexpr std::string_view model_text =
    R"(
## What is modelled

- **Links.** Every two hosts have a full-duplex link; each direction's rate is drawn uniformly from 100-1000 Mbit/s, its delay from 1-20 ms. Every host has one network card, 1 Gbit/s or 10 Gbit/s in each direction. With 1 Gbit/s the joiner's own card is
  usually the limit and one good donor nearly fills it; with 10 Gbit/s the links are the limit (hosts far apart). Transfers are fluids: those that meet on a card or a link share it max-min fairly. No loss, no TCP start-up, no CPU time: hashing, copying and writing to disk cost nothing, for
  anybody.
- **State.** fp32 parameters with both moments of AdamW: 3 x 44.7, 94.1, 170.1, 515.2, 537.2, 228.2 MB. Every strategy moves all of it. A gradient, and a step's result, is as large as the parameters.
- **Training.** A step is 1 s of computation, whatever the model and the number of members, then the exchange of gradients by our own sync plan over the same links and cards (everybody gets the same exchange). The request comes at a random point of a step. No overlap of
  computation and exchange.
- **The joiner's process** runs already when it asks, for all strategies.
- **Failure.** The donor that sends the most (Pollux: the member that writes) ends in the middle of the transfer. Its host closes the connections, so the others know after one delay.
- **limit**: state / min(joiner's ingress, sum of donor rates) + one round trip; with several joiners also all bytes / what all donors can send. It ignores gradients, waiting for a step's end, and joiners that help each other.
- **delay**: request sent -> state verified (of the last joiner). **Idle time of members**: what surviving members lose against undisturbed steps, standing still or slowed down, in node-seconds. **Idle time of joiners**: request -> beginning of the first step
  they contribute to. Each figure is the median over the seeds. `a / b`: without / with the failure.

## What each strategy does

| strategy | a join | when a donor dies |
| --- | --- | --- |
| Chaos | 5 round trips (TCP, TLS, hello, agreement, links). Shards from all members at once, divided by `plan_shards` (live nodes: see below), while training goes on; results of steps follow for what was sent, from the same donor. Gradients keep at least 3/4 of a busy card, the transfer at least 1/4 (live nodes: 10 %). Who has sent everything takes over from others. If results come nearly as fast as they can be carried, members pause where that costs fewer node-seconds. One step with share 0 before it contributes | the rest is planned again; the step in flight is settled (2 round trips) and the lost share of it computed again, which counts as idle time of members here |
| Elan (ICDCS'20) | 3 round trips; all stop at a step's end; the best single member sends; several joiners copy from different members | the next best sends everything again |
| EDL (TPDS'22) | the same from one random member; each joiner has its own | another random one sends everything again |
| PCCL | the same from one designated member, for all joiners | the next one sends what whole variables are missing (they are hash-checked one by one) |
| torchft | donors in turn; members compute one more step meanwhile, then wait | the next donor sends everything again |
| Autoscaling (MLSys'20) | the joiner computes one batch alone; all stop; members split the variables evenly by count; an allgather brings all of them to everyone, directly from each to each in a perfect schedule | a collective has no partial result: survivors split anew |
| Autoscaling, ring | the same around the ring of ranks, as Horovod's libraries do | the same |
| Pollux, moving only (OSDI'21) | all stop; member 0 writes everything to a store (10 Gbit/s card, links like all others); everybody reads everything back | another member writes again (granted: AdaptDL would go back to its last checkpoint and lose work) |
| Pollux | the same after waiting for the scheduler (every 60 s: 30 s on average) and with a restart of every process (30 s; the paper says 15-120 s) | the same |

Where their papers leave room, rivals got the better reading: links in both directions with everybody, perfect schedules, no checkpoint lost, no start-up of the joiner. After the state has arrived a round trip lets all go on.
)";

constexpr std::string_view short_text =
    R"(
## Where this falls short

- On cards of 1 Gbit/s a joiner waits longer with Chaos than with Elan before it contributes: results share its card, and it goes along for one step with share 0. What it gains is that nobody else waits.
- With a failure Chaos's delay can be shorter than without: while the members redo a step, no result is sent to the joiner. The redone step is in the members' idle time.
- The protocol around the plans is counted in round trips, not run (the other scenarios of `chaos sim` run it). The sync plan is the one that nodes compute. Shards have 256 KiB, and the shard plan is given link rates that together just fill the joiner's card.
- Live nodes do not pull by `plan_shards`. It is what could be done if links carried just what was agreed, and they do not: agreed figures may be old, and gradients take their part. So a joiner (`src/elastic/joiner.h`) begins with each donor in a region of its own, in proportion to
  what its link carries, asks for a twentieth of a second's worth at a time by the rate that it measures meanwhile, and lets whoever is done help the one that is furthest behind. And of what a node sends on a link while gradients wait, the transfer gets at least 10 % (here a quarter of a
  busy card): gradients come first, because everybody waits for them.
- The hops of an exchange advance together, as one fluid. A member that stands still could compute something else; that is credited to nobody.
- A step's computation of 1 s is an assumption; the last tables vary it. With long steps torchft's copy hides behind the computation, so its members idle as little as ours, or less
  when a donor fails (it drops the lost member's samples of that step, we compute them again), and our joiner waits longest for its first step: for the step's end and then one step with share 0.
)";

}  // namespace

ComparedSetting compare_setting(const Draw& draw, const Model& model, std::uint64_t first_seed,
                                std::uint64_t last_seed) {
    std::vector<Time> limits;
    std::vector<Samples> calm(all_strategies.size());
    std::vector<Samples> struck(all_strategies.size());
    for (std::uint64_t seed = first_seed; seed < last_seed; ++seed) {
        Draw seeded = draw;
        seeded.seed = seed;
        const Setting setting = draw_setting(seeded, model);
        const Time limit = limit_of(setting);
        limits.push_back(limit);
        for (std::size_t i = 0; i < all_strategies.size(); ++i) {
            const ScaleOut outcome = scale_out(all_strategies[i], setting);
            calm[i].add(outcome, limit);
            if (draw.joiners == 1) struck[i].add(scale_out(all_strategies[i], setting, outcome.worst_fault), limit);
        }
    }
    ComparedSetting compared;
    compared.card_bytes_per_s = draw.card_bytes_per_s;
    compared.model = model.name;
    compared.members = draw.members;
    compared.joiners = draw.joiners;
    compared.compute = draw.compute;
    compared.limit = median(limits);
    for (const Samples& samples : calm) compared.calm.push_back(samples.medians());
    if (draw.joiners == 1)
        for (const Samples& samples : struck) compared.struck.push_back(samples.medians());
    return compared;
}

Comparison compare(std::uint64_t first_seed, std::uint64_t last_seed) {
    CHAOS_ASSERT(first_seed < last_seed);
    Comparison comparison;
    comparison.first_seed = first_seed;
    comparison.last_seed = last_seed;
    const std::vector<Model> models = image_models();
    for (const std::uint64_t card : cards_bytes_per_s) {
        for (const Model& model : models)
            for (const Host members : sizes)
                comparison.joins.push_back(
                    compare_setting({.members = members, .card_bytes_per_s = card}, model, first_seed, last_seed));
        for (const Model& model : models) {
            if (model.name != "ResNet50" && model.name != "VGG16") continue;
            for (const Time compute : computes)
                comparison.rhythms.push_back(
                    compare_setting({.members = rhythm_size, .card_bytes_per_s = card, .compute = compute}, model,
                                    first_seed, last_seed));
            for (const Host members : crowd_sizes) {
                for (const Host joiners : crowds) {
                    comparison.crowds.push_back(
                        compare_setting({.members = members, .joiners = joiners, .card_bytes_per_s = card}, model,
                                        first_seed, last_seed));
                    comparison.crowds.back().struck.clear();
                }
            }
        }
    }
    return comparison;
}

std::string summary_of(const Comparison& comparison) {
    std::string text;
    for (const std::uint64_t card : cards_bytes_per_s) {
        const std::string name = card_name(card);
        text += "\nScale-out delay / limit, cards of " + name + ":\n\n" + summary_table(comparison, card, read_ratio);
        text += "\nIdle time of members in node-seconds, cards of " + name + ":\n\n" +
                summary_table(comparison, card, read_members_idle);
        text += "\nIdle time of the joiner in seconds, cards of " + name + ":\n\n" +
                summary_table(comparison, card, read_joiners_idle);
    }
    text +=
        "\nIn how many settings (model, neighbours) Chaos has the least of all, without / with the failure:\n\n"
        "| cards | delay | idle time of members | idle time of the joiner |\n| --- | ---: | ---: | ---: |\n";
    for (const std::uint64_t card : cards_bytes_per_s)
        text += "| " + card_name(card) + " | " +
                wins(comparison, card, [](const Figures& f) { return f.ratio_milli; }) + " | " +
                wins(comparison, card, [](const Figures& f) { return f.members_idle; }) + " | " +
                wins(comparison, card, [](const Figures& f) { return f.joiners_idle; }) + " |\n";
    return text;
}

std::string page_of(const Comparison& comparison) {
    const std::string seeds = std::to_string(comparison.first_seed) + ".." + std::to_string(comparison.last_seed);
    std::string text = "# Scale-out, compared in simulation\n\n";
    text += introduction;
    text += "\nMade by `chaos sim --compare --seeds " + seeds +
            " --markdown docs/scale-out.md`: the same numbers on every machine. Do not edit.\n"
            "\n## In short\n\nMedians over the six models; `a / b`: without / with a donor failing in mid-transfer.\n";
    text += summary_of(comparison);
    text += model_text;
    text += short_text;
    text += "\n## One joiner\n";
    for (const std::uint64_t card : cards_bytes_per_s) text += details(comparison, card);
    text += "\n## Several joiners at once\n\nNo failure here.\n";
    text += crowd_tables(comparison);
    text += "\n## Steps of other lengths\n\nOne joiner, " + std::to_string(rhythm_size) + " neighbours.\n";
    text += rhythm_tables(comparison);
    return text;
}

}  // namespace chaos::sim
