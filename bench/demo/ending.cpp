#include "ending.h"

#include "elastic/journal_check.h"
#include "nodes/pace.h"
#include "testbed/process.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

namespace chaos::bench {
namespace {

using elastic::journal::TimedEntry;

Result<std::map<std::uint64_t, cluster::Name>> hashes_of(const std::filesystem::path& dir) {
    std::map<std::uint64_t, cluster::Name> hashes;
    const auto keep = [&](const TimedEntry& entry) -> Result<void> {
        if (const auto* hash = std::get_if<elastic::journal::StateHash>(&entry.entry))
            hashes[hash->applied] = hash->root;
        return {};
    };
    CHAOS_CHECK(elastic::read_journal(dir / "journal", keep));
    return hashes;
}

Result<std::vector<double>> losses_alone(const std::filesystem::path& program, const std::filesystem::path& run_file,
                                         const std::filesystem::path& dir, std::uint64_t steps) {
    CHAOS_TRY(const std::string told, testbed::run_program({program, "train", run_file, "--dir", dir, "--max-steps",
                                                            std::to_string(steps), "--json"}));
    std::vector<double> losses;
    std::istringstream lines(told);
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
        if (event.is_object() && event.value("event", "") == "step") losses.push_back(event.at("loss"));
    }
    if (losses.size() != steps)
        return Error{"the undisturbed run ended after " + std::to_string(losses.size()) + " steps"};
    return losses;
}

}  // namespace

Result<CommonHash> common_hash(const std::vector<std::filesystem::path>& dirs) {
    std::vector<std::map<std::uint64_t, cluster::Name>> all;
    for (const std::filesystem::path& dir : dirs) {
        CHAOS_TRY(auto hashes, hashes_of(dir));
        all.push_back(std::move(hashes));
    }
    for (auto newest = all.front().rbegin(); newest != all.front().rend(); ++newest) {
        const auto [applied, root] = *newest;
        if (!std::ranges::all_of(all, [&](const auto& hashes) { return hashes.contains(applied); })) continue;
        for (std::size_t i = 1; i < all.size(); ++i)
            if (all[i].at(applied) != root)
                return Error{"after " + std::to_string(applied) + " steps the states of " +
                             dirs.front().filename().string() + " and " + dirs[i].filename().string() + " differ"};
        return CommonHash{.applied = applied, .root = root};
    }
    return Error{"there is no step of which all nodes wrote down their state's hash"};
}

Result<Losses> compare_losses(const std::filesystem::path& program, const std::filesystem::path& run_file,
                              const std::filesystem::path& dir, const std::filesystem::path& founder,
                              std::uint64_t steps) {
    Losses losses;
    CHAOS_TRY(losses.alone, losses_alone(program, run_file, dir, steps));
    CHAOS_TRY(const std::vector<StepTime> applied, step_times(founder));
    for (const StepTime& step : applied)
        if (step.applied == losses.together.size() + 1 && step.applied <= steps) losses.together.push_back(step.loss);
    if (losses.together.size() != steps) return Error{"the cluster did not come to step " + std::to_string(steps)};
    for (std::size_t i = 0; i < steps; ++i)
        losses.largest_gap =
            std::max(losses.largest_gap, std::abs(losses.together[i] - losses.alone[i]) / std::abs(losses.alone[i]));
    return losses;
}

Result<std::vector<std::string>> violations(const std::vector<std::filesystem::path>& dirs) {
    elastic::JournalCheck check;
    for (const std::filesystem::path& dir : dirs) {
        check.begin_journal();
        const auto add = [&](const TimedEntry& entry) -> Result<void> {
            check.add(entry);
            return {};
        };
        CHAOS_CHECK(elastic::read_journal(dir / "journal", add));
    }
    return check.finish().violations;
}

}  // namespace chaos::bench
