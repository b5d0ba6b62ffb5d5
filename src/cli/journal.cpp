#include "cli/commands.h"

#include "base/words.h"
#include "elastic/journal_check.h"
#include "node/status.h"

#include <nlohmann/json.hpp>

#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <string>

namespace chaos::cli {
namespace {

using namespace elastic::journal;
using nlohmann::json;
using node::text_of;

std::filesystem::path journal_of(const std::filesystem::path& dir) {
    return std::filesystem::is_directory(dir) ? dir / "journal" : dir;
}

std::string seconds(std::int64_t ns) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3f s", static_cast<double>(ns) / 1e9);
    return text.data();
}

// ---- one entry for programs

json to_json(const Begun& begun) {
    return {{"entry", "begun"},      {"node", text_of(begun.member.node)}, {"incarnation", begun.member.incarnation},
            {"run", hex(begun.run)}, {"threads", begun.threads},           {"version", begun.version}};
}
json to_json(const Adopted& adopted) {
    const cluster::View& view = *adopted.view;
    json said{{"entry", "adopted"},         {"view", hex(view.name)},
              {"parent", hex(view.parent)}, {"epoch", view.epoch},
              {"fork", view.is_fork()},     {"first_step", view.first_step},
              {"batch", view.batch},        {"settled", view.settlement.has_value()}};
    for (const cluster::MemberInfo& member : view.members)
        said["members"].push_back({{"node", text_of(member.id.node)},
                                   {"incarnation", member.id.incarnation},
                                   {"active", member.standing == cluster::Standing::active},
                                   {"speed", member.speed}});
    said["links"] = view.links.size();
    return said;
}
const char* name_of(How how) {
    return how == How::exchanged ? "exchanged" : how == How::taken ? "taken" : "followed";
}
json to_json(const Applied& applied) {
    const state::StepRecord& record = applied.record;
    return {{"entry", "applied"},
            {"step", record.step},
            {"view", hex(record.view)},
            {"pass", record.pass},
            {"index", record.index},
            {"samples", record.samples},
            {"samples_lost", applied.samples_lost},
            {"learning_rate", record.scalars.learning_rate},
            {"clip_scale", record.scalars.clip_scale},
            {"norm", record.norm},
            {"loss", record.loss},
            {"result_hash", record.result_hash},
            {"lineage", hex(applied.lineage)},
            {"how", name_of(applied.how)}};
}
json to_json(const StateHash& hash) {
    return {{"entry", "state_hash"}, {"applied", hash.applied}, {"root", hex(hash.root)}};
}
json to_json(const Synced& synced) {
    return {
        {"entry", "synced"}, {"applied", synced.applied}, {"lineage", hex(synced.lineage)}, {"root", hex(synced.root)}};
}
json to_json(const Restored& restored) {
    return {{"entry", "restored"}, {"applied", restored.applied}, {"lineage", hex(restored.lineage)}};
}
json to_json(const Stable& stable) {
    return {{"entry", "stable"}, {"steps", stable.steps}};
}
json to_json(const Skipped& skipped) {
    return {{"entry", "skipped"},
            {"step", skipped.step},
            {"view", hex(skipped.view)},
            {"node", skipped.node ? json(text_of(*skipped.node)) : json()},
            {"why", skipped.why}};
}
json to_json(const Excluded& excluded) {
    return {{"entry", "excluded"}, {"why", excluded.why}};
}
json to_json(const Left&) {
    return {{"entry", "left"}};
}

// ---- one entry for people

std::string words_of(const Begun& begun) {
    return "began as " + cluster::brief(begun.member.node) + ", " + std::to_string(begun.threads) + " threads, chaos " +
           printable(begun.version);
}
std::string words_of(const Adopted& adopted) {
    const cluster::View& view = *adopted.view;
    return "adopted " + cluster::label_of(view) + " from step " + std::to_string(view.first_step) +
           " on: " + std::to_string(view.active_count()) + " active of " + std::to_string(view.members.size()) +
           " members, " + std::to_string(view.links.size()) + " links" + (view.is_fork() ? ", a fork" : "") +
           (view.settlement ? ", after a fault" : "");
}
std::string words_of(const Applied& applied) {
    std::array<char, 32> loss{};
    std::snprintf(loss.data(), loss.size(), "%.4f", applied.record.loss);
    return "applied step " + std::to_string(applied.record.step) + " (" + name_of(applied.how) + " under " +
           cluster::brief(applied.record.view) + "), loss " + loss.data() + ", lineage " +
           cluster::brief(applied.lineage);
}
std::string words_of(const StateHash& hash) {
    return "state after " + std::to_string(hash.applied) + " steps: " + cluster::brief(hash.root);
}
std::string words_of(const Synced& synced) {
    return "pulled the state of " + std::to_string(synced.applied) + " steps, lineage " +
           cluster::brief(synced.lineage) + ", root " + cluster::brief(synced.root);
}
std::string words_of(const Restored& restored) {
    return "restored the state of " + std::to_string(restored.applied) + " steps, lineage " +
           cluster::brief(restored.lineage);
}
std::string words_of(const Stable& stable) {
    return std::to_string(stable.steps) + " steps are stable";
}
std::string words_of(const Skipped& skipped) {
    return "skipped the update of step " + std::to_string(skipped.step) +
           (skipped.node ? ", by the contribution of " + cluster::brief(*skipped.node) : "") + ": " +
           printable(skipped.why);
}
std::string words_of(const Excluded& excluded) {
    return "excluded: " + printable(excluded.why);
}
std::string words_of(const Left&) {
    return "left";
}

std::string clock_of(std::int64_t time_ns) {
    const std::time_t whole = time_ns / 1'000'000'000;
    std::tm local{};
    ::localtime_r(&whole, &local);
    std::array<char, 48> text{};
    const std::size_t length = std::strftime(text.data(), text.size(), "%F %T", &local);
    std::snprintf(text.data() + length, text.size() - length, ".%03d",
                  static_cast<int>(time_ns % 1'000'000'000 / 1'000'000));
    return text.data();
}

void print(const elastic::CheckReport& report) {
    for (const elastic::NodeFigures& node : report.nodes)
        std::printf("%s: %" PRIu64 " steps (took part in %" PRIu64 ", took %" PRIu64 ", followed %" PRIu64
                    ") in %" PRIu64 " %s; longest pause %s, before step %" PRIu64 "; since the last fault %s%s\n",
                    cluster::brief(node.node).c_str(), node.applied, node.exchanged, node.taken, node.followed,
                    node.lives, node.lives == 1 ? "life" : "lives", seconds(node.longest_pause_ns).c_str(),
                    node.longest_pause_step, seconds(node.longest_pause_since_fault_ns).c_str(),
                    node.left ? "; left" : "");
    std::printf("%" PRIu64 " steps committed under %" PRIu64 " views of %" PRIu64 " nodes; %" PRIu64 " forks, %" PRIu64
                " foundings; %" PRIu64 " samples lost, %" PRIu64 " updates skipped\n",
                report.committed, report.views, report.members, report.forks, report.foundings, report.samples_lost,
                report.skipped);
    if (report.unknown_views > 0)
        std::printf("%" PRIu64 " views are in none of these journals: what they say of shares is not checked\n",
                    report.unknown_views);
    for (const std::string& violation : report.violations) std::printf("violated: %s\n", violation.c_str());
    if (report.more_violations > 0) std::printf("and %" PRIu64 " more\n", report.more_violations);
    if (report.sound()) std::puts("all invariants held");
}

}  // namespace

Result<bool> check_journals(const std::vector<std::filesystem::path>& dirs) {
    elastic::JournalCheck check;
    for (const std::filesystem::path& dir : dirs) {
        check.begin_journal();
        CHAOS_CHECK(elastic::read_journal(journal_of(dir), [&](const TimedEntry& entry) -> Result<void> {
            check.add(entry);
            return {};
        }));
    }
    const elastic::CheckReport report = check.finish();
    print(report);
    return report.sound();
}

Result<void> show_journal(const ShowJournalOptions& options) {
    CHAOS_TRY(const elastic::JournalEnd end,
              elastic::read_journal(journal_of(options.dir), [&](const TimedEntry& entry) -> Result<void> {
                  if (options.json) {
                      json said = std::visit([](const auto& what) { return to_json(what); }, entry.entry);
                      said["time_ns"] = entry.time_ns;
                      // Words of a peer may be no UTF-8.
                      std::puts(said.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
                  } else {
                      const std::string words =
                          std::visit([](const auto& what) { return words_of(what); }, entry.entry);
                      std::printf("%s  %s\n", clock_of(entry.time_ns).c_str(), words.c_str());
                  }
                  return {};
              }));
    if (end.torn_bytes > 0)
        std::fprintf(stderr, "chaos: the last %" PRIu64 " bytes are no whole entry\n", end.torn_bytes);
    return {};
}

}  // namespace chaos::cli
