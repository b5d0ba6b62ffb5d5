// ./dev demo: nodes on this machine train one model while everything happens to them that can. Told as it happens; the
// exit code says whether all went as it must.
#include "ending.h"
#include "play.h"
#include "report.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

using namespace chaos;
using namespace chaos::bench;

namespace {

namespace fs = std::filesystem;

// Rounding in another order makes less than a hundredth of that of this run's losses, even after a thousand steps.
constexpr double largest_loss_gap = 1e-4;
constexpr double scale_out_factor = 10.0;
constexpr double steps_of_a_scale_out = 10.0;

// What a pause may be: I3, where a step may take twice what the longest took in peace: the machine is busy.
double bound_of(const Scene& scene, const Scene& peace) {
    return scene.detection_s + 2.0 * scene.cost.round_trip_s + 2.0 * peace.cost.longest_s;
}

// What a scale-out may take: many times the limit, because training has the same cores and the copy has none of its
// hashing and encryption; and the steps that training is at when the newcomer asks and when it compares roots.
double scale_out_bound_of(const Scene& scene, const Scene& peace) {
    return scale_out_factor * scene.scale_out->limit_s + steps_of_a_scale_out * peace.cost.longest_s;
}

std::string ms(double seconds) {
    return fixed(seconds * 1e3, 0) + " ms";
}

void print_table(const std::vector<Scene>& scenes, std::vector<std::string>& wrong) {
    Table table{.head = {"event", "handling", "stall", "at most", "scale-out delay", "limit", "at most"}, .rows = {}};
    const Scene& peace = scenes.front();
    for (const Scene& scene : scenes) {
        const double bound = bound_of(scene, peace);
        std::vector<std::string> row = {scene.event, fixed(scene.cost.handling_ms, 2) + " ms", ms(scene.cost.stall_s),
                                        ms(bound)};
        if (scene.scale_out) {
            const double most = scale_out_bound_of(scene, peace);
            row.insert(row.end(), {ms(scene.scale_out->delay_s), ms(scene.scale_out->limit_s), ms(most)});
            if (scene.scale_out->delay_s > most) wrong.push_back(scene.event + ": the scale-out took too long");
        } else {
            row.insert(row.end(), {"", "", ""});
        }
        table.rows.push_back(std::move(row));
        if (scene.cost.stall_s > bound) wrong.push_back(scene.event + ": steps stood still for too long");
    }
    std::printf("\n%s\n", table_text(table).c_str());
    std::puts("handling: CPU time per view, of the node that it took the longest.");
    std::puts("stall: the longest pause between two steps, beyond a usual step.");
    std::puts("at most, of a stall: detection + 2 round trips + twice the longest step in peace.");
    std::puts(
        "scale-out delay: from the request to the whole state, compared; a few steps pass until the view lists it.");
    std::puts("limit: as many bytes from as many senders through plain sockets, and the round trips of a join.");
    std::printf("at most, of a scale-out: %.0f times the limit, and the longest step in peace %.0f times.\n\n",
                scale_out_factor, steps_of_a_scale_out);
}

void print_losses(const Losses& losses) {
    Table table{.head = {"loss after step", "together", "undisturbed"}, .rows = {}};
    const std::size_t steps = losses.alone.size();
    for (const std::size_t step : {std::size_t{1}, steps / 4, steps / 2, 3 * steps / 4, steps})
        table.rows.push_back(
            {std::to_string(step), fixed(losses.together[step - 1], 6), fixed(losses.alone[step - 1], 6)});
    std::printf("%s", table_text(table).c_str());
    std::printf("largest relative difference in %zu steps: %.1e (at most %.0e)\n\n", steps, losses.largest_gap,
                largest_loss_gap);
}

Result<std::vector<std::string>> perform(const fs::path& folder) {
    const fs::path run_file = folder / "together.toml";
    LocalClusterOptions options{.folder = folder, .run_file = run_file, .data = folder, .toy = false};
    options.more = {"--links", "4"};
    Play play(options);
    CHAOS_CHECK(play.perform());
    std::vector<std::string> wrong = play.not_shown();
    print_table(play.scenes(), wrong);

    std::vector<fs::path> last;
    std::vector<fs::path> all;
    for (const std::string& name : play.last_members()) last.push_back(folder / name);
    for (const std::string& name : play.everybody()) all.push_back(folder / name);
    CHAOS_TRY(const CommonHash hash, common_hash(last));
    std::printf("After %llu steps the state's hash is %s on %zu nodes of %zu.\n",
                static_cast<unsigned long long>(hash.applied), hex(hash.root).c_str(), last.size(), last.size());
    CHAOS_TRY(const std::vector<std::string> broken, violations(all));
    wrong.insert(wrong.end(), broken.begin(), broken.end());
    if (broken.empty()) std::printf("All invariants held, by the journals of %zu nodes.\n\n", all.size());

    // The last ones' journals go to the end; those who went earlier know the beginning.
    std::vector<fs::path> nodes = last;
    for (const fs::path& dir : all)
        if (std::ranges::find(last, dir) == last.end()) nodes.push_back(dir);
    std::puts("One process trains the same run, undisturbed ...");
    CHAOS_TRY(const Losses losses, compare_losses(run_file, folder / "undisturbed", nodes));
    print_losses(losses);
    if (losses.largest_gap > largest_loss_gap) wrong.emplace_back("the loss is not that of the undisturbed run");
    return wrong;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "Usage: chaos_demo FOLDER (with together.toml and what it names)\n");
        return 2;
    }
    const auto wrong = perform(fs::absolute(argv[1]));
    if (!wrong) {
        std::fprintf(stderr, "demo: %s\n", wrong.error().message.c_str());
        return 1;
    }
    for (const std::string& what : *wrong) std::fprintf(stderr, "demo: this is not as it must be: %s\n", what.c_str());
    if (wrong->empty()) std::puts("All of it is so.");
    return wrong->empty() ? 0 : 1;
}
