#include "nodes/losses.h"

#include "base/assert.h"
#include "elastic/replay.h"
#include "nodes/nodes.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

namespace chaos::bench {

Result<std::vector<double>> losses_alone(const std::filesystem::path& run_file, const std::filesystem::path& dir,
                                         std::uint64_t steps) {
    CHAOS_TRY(const std::string told, testbed::run_program({chaos_program(), "train", run_file, "--dir", dir,
                                                            "--max-steps", std::to_string(steps), "--json"}));
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

Result<std::vector<double>> losses_together(const std::vector<std::filesystem::path>& dirs) {
    std::vector<std::vector<elastic::journal::TimedEntry>> journals;
    for (const std::filesystem::path& dir : dirs) {
        CHAOS_TRY(auto journal, elastic::read_journal(dir / "journal"));
        journals.push_back(std::move(journal));
    }
    CHAOS_TRY(const elastic::CommittedChain chain, elastic::chain_of(journals));
    if (chain.first_step != 0) return Error{"the journals do not tell of the run's beginning"};
    std::vector<double> losses;
    for (const elastic::journal::Applied& step : chain.steps) losses.push_back(step.record.loss);
    return losses;
}

double largest_gap(std::span<const double> alone, std::span<const double> together) {
    CHAOS_ASSERT(alone.size() == together.size());
    double gap = 0.0;
    for (std::size_t i = 0; i < alone.size(); ++i)
        gap = std::max(gap, std::abs(together[i] - alone[i]) / std::abs(alone[i]));
    return gap;
}

}  // namespace chaos::bench
