#include "cli/process.h"
#include "elastic/journals.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace chaos::test {
namespace {

using elastic::test::Scribe;
using ::testing::HasSubstr;

void write(const std::filesystem::path& folder, const Scribe& scribe) {
    std::filesystem::create_directories(folder);
    Result<elastic::Journal> journal = elastic::Journal::open(folder / "journal");
    ASSERT_TRUE(journal.ok()) << journal.error().message;
    ASSERT_TRUE(journal->append(scribe.entries));
}

// Two nodes train for some steps.
std::vector<Scribe> two_scribes() {
    std::vector<Scribe> scribes{Scribe(1), Scribe(2)};
    const auto view = elastic::test::join(elastic::test::founded(16), 2, {1}, 0).back();
    for (Scribe& scribe : scribes) {
        scribe.adopt(view);
        scribe.restore();
        while (scribe.applied < 10) scribe.apply(view);
    }
    return scribes;
}

TEST(Journal, ChecksAndShows) {
    const TemporaryFolder folder;
    const std::vector<Scribe> scribes = two_scribes();
    write(folder / "a", scribes[0]);
    write(folder / "b", scribes[1]);
    const Outcome sound = run_chaos({"journal", "check", "a", "b"}, folder.path());
    EXPECT_EQ(sound.code, 0) << sound.err;
    EXPECT_THAT(sound.out, HasSubstr("10 steps committed under 1 views of 2 nodes"));
    EXPECT_THAT(sound.out, HasSubstr("all invariants held"));

    const Outcome shown = run_chaos({"journal", "show", "b"}, folder.path());
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("applied step 9 (exchanged under "));

    const Outcome json = run_chaos({"journal", "show", "b/journal", "--json"}, folder.path());
    EXPECT_EQ(json.code, 0) << json.err;
    std::istringstream lines(json.out);
    std::string line;
    std::size_t count = 0;
    for (; std::getline(lines, line); ++count) EXPECT_TRUE(nlohmann::json::parse(line).contains("time_ns"));
    EXPECT_EQ(count, scribes[1].entries.size());
    EXPECT_EQ(nlohmann::json::parse(json.out.substr(0, json.out.find('\n')))["entry"], "begun");
}

TEST(Journal, ABrokenInvariantExitsWithOneAndAMissingFileWithTwo) {
    const TemporaryFolder folder;
    std::vector<Scribe> scribes = two_scribes();
    std::get<elastic::journal::Applied>(scribes[1].entries[5].entry).record.result_hash += 1;
    write(folder / "a", scribes[0]);
    write(folder / "b", scribes[1]);
    const Outcome broken = run_chaos({"journal", "check", "a", "b"}, folder.path());
    EXPECT_EQ(broken.code, 1);
    EXPECT_THAT(broken.out, HasSubstr("violated: I1: "));
    EXPECT_EQ(run_chaos({"journal", "check", "a", "nowhere"}, folder.path()).code, 2);
}

}  // namespace
}  // namespace chaos::test
