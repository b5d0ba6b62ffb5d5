#include "ending.h"

#include "elastic/journal_check.h"
#include "nodes/losses.h"

#include <algorithm>
#include <map>

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

Result<Losses> compare_losses(const std::filesystem::path& run_file, const std::filesystem::path& dir,
                              const std::vector<std::filesystem::path>& nodes) {
    Losses losses;
    CHAOS_TRY(losses.together, losses_together(nodes));
    CHAOS_TRY(losses.alone, losses_alone(run_file, dir, losses.together.size()));
    losses.largest_gap = largest_gap(losses.alone, losses.together);
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
