#include "trial.h"

#include "base/random.h"
#include "temporary_folder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using testbed::Process;
using testbed::Testbed;
using Clock = std::chrono::steady_clock;

constexpr double link_mbit = 200.0;
constexpr std::uint64_t steps_before = 3;
constexpr std::chrono::seconds patience{30};
constexpr std::chrono::milliseconds moment_within{400};  // a few steps

std::string host_of(unsigned number) {
    return std::string(1, static_cast<char>('a' + number));
}

// What a node has printed.
struct Story {
    struct Step {
        std::string lineage;
        long long at = 0;
    };
    std::map<std::uint64_t, Step> steps;
    struct View {
        std::uint64_t committed = 0;  // steps, when it was adopted
        long long at = 0;
    };
    std::vector<View> views;
    std::vector<long long> downs;
    bool wrong = false;

    explicit Story(const std::string& text) {
        std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string kind;
            words >> kind;
            if (kind == "applied") {
                std::uint64_t step = 0;
                Step applied;
                words >> step >> applied.lineage >> applied.at;
                steps[step] = applied;
            } else if (kind == "view") {
                auto& [committed, at] = views.emplace_back();
                words >> committed >> at;
            } else if (kind == "wrong") {
                wrong = true;
            } else if (kind == "down") {
                words >> downs.emplace_back();
            }
        }
    }

    // When the first step that was committed after the first view after `fault` was applied. (One that was committed
    // before may be applied later.)
    [[nodiscard]] std::optional<long long> result_after(long long fault) const {
        const auto view = std::ranges::find_if(views, [&](const View& entry) { return entry.at > fault; });
        if (view == views.end()) return std::nullopt;
        const auto first = steps.lower_bound(view->committed);
        return first == steps.end() ? std::nullopt : std::optional(first->second.at);
    }
};

class Trial {
public:
    Trial(Testbed& box, FaultKind kind, std::uint64_t seed) : box_(box), kind_(kind), seed_(seed) {
        victim_ = static_cast<unsigned>(random_bits(seed, 1, 0) % nodes_per_trial);
        witness_ =
            (victim_ + 1 + static_cast<unsigned>(random_bits(seed, 2, 0) % (nodes_per_trial - 1))) % nodes_per_trial;
    }
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;

    Result<TrialFigures> run() {
        CHAOS_CHECK(start());
        CHAOS_CHECK(wait("the nodes do not begin", [&] { return fewest_steps() >= steps_before; }));
        std::this_thread::sleep_for(moment_within * (random_bits(seed_, 3, 0) % 1000) / 1000);
        const long long fault = Clock::now().time_since_epoch().count();
        CHAOS_CHECK(strike());
        const Result<void> finished = wait("the survivors do not finish the step", [&] {
            return std::ranges::all_of(survivors(),
                                       [&](unsigned number) { return story(number).result_after(fault).has_value(); });
        });
        const Result<void> healed = box_.heal_host(host_of(victim_));
        CHAOS_CHECK(finished);
        CHAOS_CHECK(healed);
        CHAOS_CHECK(agree());
        return figures(fault);
    }

    Result<unsigned> false_alarms(std::chrono::seconds duration) {
        CHAOS_CHECK(start());
        CHAOS_CHECK(wait("the nodes do not begin", [&] { return fewest_steps() >= steps_before; }));
        const long long begun = Clock::now().time_since_epoch().count();
        std::atomic<bool> over{false};
        std::vector<std::jthread> busy;
        for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
            busy.emplace_back([&over] {
                while (!over) {
                }
            });
        std::this_thread::sleep_for(duration);
        over = true;
        unsigned alarms = 0;
        for (unsigned number = 0; number < nodes_per_trial; ++number)
            for (const long long down : story(number).downs) alarms += down > begun ? 1 : 0;
        return alarms;
    }

private:
    Result<void> start() {
        std::vector<std::string> addresses;
        for (unsigned number = 0; number < nodes_per_trial; ++number) {
            CHAOS_TRY(const std::string address, box_.address(host_of(number)));
            addresses.push_back(address + ":4545");
        }
        for (unsigned number = 0; number < nodes_per_trial; ++number) {
            const fs::path own = folder_ / host_of(number);
            fs::create_directory(own);
            std::vector<std::string> arguments = {fs::read_symlink("/proc/self/exe"), "node", std::to_string(number),
                                                  own};
            arguments.insert(arguments.end(), addresses.begin(), addresses.end());
            CHAOS_TRY(Process node, box_.spawn(host_of(number), arguments));
            nodes_.push_back(std::move(node));
        }
        return {};
    }

    Result<void> strike() {
        switch (kind_) {
            case FaultKind::crash:
                nodes_[victim_].kill();
                return {};
            case FaultKind::freeze:
                nodes_[victim_].freeze();
                return {};
            case FaultKind::blackhole:
                return box_.isolate(host_of(victim_));
            case FaultKind::one_way:
                return box_.cut_one_way(host_of(victim_), host_of(witness_));
        }
        return {};
    }

    [[nodiscard]] std::vector<unsigned> survivors() const {
        std::vector<unsigned> numbers;
        for (unsigned number = 0; number < nodes_per_trial; ++number)
            if (number != victim_ || kind_ == FaultKind::one_way) numbers.push_back(number);
        return numbers;
    }

    [[nodiscard]] Story story(unsigned number) const { return Story(nodes_[number].out()); }

    [[nodiscard]] std::uint64_t fewest_steps() const {
        std::uint64_t fewest = ~std::uint64_t{0};
        for (unsigned number = 0; number < nodes_per_trial; ++number)
            fewest = std::min<std::uint64_t>(fewest, story(number).steps.size());
        return fewest;
    }

    Result<void> wait(const std::string& otherwise, const std::function<bool()>& condition) {
        const auto limit = Clock::now() + patience;
        while (!condition()) {
            if (Clock::now() > limit) {
                std::string all;
                for (unsigned number = 0; number < nodes_per_trial; ++number)
                    all += "\n---- " + host_of(number) + (number == victim_ ? " (victim)\n" : "\n") +
                           nodes_[number].out() + nodes_[number].err();
                return Error{otherwise + all};
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return {};
    }

    // Every step that two survivors applied led them to the same state, by a sum that each found right.
    Result<void> agree() const {
        std::map<std::uint64_t, std::string> lineages;
        for (const unsigned number : survivors()) {
            const Story told = story(number);
            if (told.wrong) return Error{"a sum is wrong"};
            for (const auto& [step, applied] : told.steps)
                if (lineages.emplace(step, applied.lineage).first->second != applied.lineage)
                    return Error{"survivors differ after step " + std::to_string(step)};
        }
        return {};
    }

    [[nodiscard]] Result<TrialFigures> figures(long long fault) const {
        constexpr long long never = std::numeric_limits<long long>::max();
        long long detected = never;
        long long result = 0;
        for (const unsigned number : survivors()) {
            const Story told = story(number);
            for (const long long down : told.downs)
                if (down > fault) detected = std::min(detected, down);
            result = std::max(result, *told.result_after(fault));
        }
        if (detected == never) return Error{"no survivor gave up a link"};
        return TrialFigures{.detection_s = static_cast<double>(detected - fault) * 1e-9,
                            .result_s = static_cast<double>(result - fault) * 1e-9};
    }

    Testbed& box_;
    FaultKind kind_;
    std::uint64_t seed_;
    test::TemporaryFolder folder_;  // outlives the nodes
    unsigned victim_ = 0;
    unsigned witness_ = 0;
    std::vector<Process> nodes_;
};

}  // namespace

std::string name_of(FaultKind kind) {
    switch (kind) {
        case FaultKind::crash:
            return "crash";
        case FaultKind::freeze:
            return "freeze";
        case FaultKind::blackhole:
            return "blackhole";
        case FaultKind::one_way:
            return "one_way";
    }
    return "";
}

Result<Testbed> trial_testbed() {
    testbed::Spec spec;
    for (unsigned number = 0; number < nodes_per_trial; ++number) spec.hosts.push_back({.name = host_of(number)});
    testbed::link_all(spec, {.rate_mbit = link_mbit});
    return Testbed::start(spec);
}

Result<TrialFigures> run_trial(Testbed& box, FaultKind kind, std::uint64_t seed) {
    return Trial(box, kind, seed).run();
}

Result<unsigned> count_false_alarms(Testbed& box, std::chrono::seconds duration) {
    return Trial(box, FaultKind::crash, 0).false_alarms(duration);
}

}  // namespace chaos::bench
