#include "elastic/journal.h"

#include "cluster/message.h"
#include "elastic/lines.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <fstream>
#include <iterator>

namespace chaos::elastic {
namespace {

using namespace journal;
using cluster::ViewPtr;
using testing::HasSubstr;

Applied some_step(std::uint64_t step) {
    Applied applied;
    applied.record = {.step = step,
                      .view = test::name(3),
                      .pass = 1,
                      .index = 1U << 31,
                      .samples = 64,
                      .scalars = {.learning_rate = 0.1,
                                  .clip_scale = 1.0 / 3.0,
                                  .bias_correction1 = 1e-300,
                                  .bias_correction2 = -0.0},
                      .norm = 12345.678,
                      .loss = 1.0 / 7.0,
                      .result_hash = ~std::uint64_t{5}};
    applied.lineage = state::extend_lineage(test::name(4), applied.record);
    applied.how = How::followed;
    applied.samples_lost = 3;
    return applied;
}

std::vector<Entry> one_of_each() {
    const ViewPtr view = test::join(test::founded(64), 2, {1}, 5).back();
    return {Begun{.member = {.node = test::node(2), .incarnation = 77},
                  .run = test::name(9),
                  .threads = 2,
                  .version = "0.1.0"},
            Restored{.applied = 0, .lineage = test::name(9)},
            Adopted{view},
            some_step(0),
            StateHash{.applied = 1, .root = test::name(5)},
            Synced{.applied = 1, .lineage = test::name(6), .root = test::name(5)},
            Stable{1},
            Skipped{.step = 1, .view = view->name, .node = test::node(1), .why = "not a \xff number"},
            Skipped{.step = 2, .view = view->name, .node = std::nullopt, .why = ""},
            Excluded{"the cluster went on without this node"},
            Left{}};
}

void expect_same(const Entry& x, const Entry& y) {
    ASSERT_EQ(x.index(), y.index());
    if (const auto* view = std::get_if<Adopted>(&x)) {
        EXPECT_EQ(cluster::encode(*view->view), cluster::encode(*std::get<Adopted>(y).view));
    } else if (const auto* step = std::get_if<Applied>(&x)) {
        const auto& other = std::get<Applied>(y);
        EXPECT_EQ(step->record.step, other.record.step);
        EXPECT_EQ(step->how, other.how);
        EXPECT_EQ(step->samples_lost, other.samples_lost);
        EXPECT_EQ(step->lineage, other.lineage);
        // The hash covers every bit of a record.
        EXPECT_EQ(state::extend_lineage({}, step->record), state::extend_lineage({}, other.record));
    } else {
        std::visit(
            [&](const auto& entry) {
                using T = std::decay_t<decltype(entry)>;
                if constexpr (!std::is_same_v<T, Adopted> && !std::is_same_v<T, Applied>) {
                    EXPECT_EQ(entry, std::get<T>(y));
                }
            },
            x);
    }
}

class JournalTest : public testing::Test {
protected:
    Journal open() {
        Result<Journal> journal = Journal::open(path);
        EXPECT_TRUE(journal.ok()) << journal.error().message;
        return std::move(*journal);
    }
    void append(Journal& journal, const Entry& entry) {
        const auto appended = journal.append(entry);
        ASSERT_TRUE(appended.ok()) << appended.error().message;
    }
    std::vector<TimedEntry> read() {
        auto entries = read_journal(path);
        EXPECT_TRUE(entries.ok()) << entries.error().message;
        return entries ? *entries : std::vector<TimedEntry>{};
    }
    std::string content() { return *read_file(path); }
    void replace(const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

    chaos::test::TemporaryFolder folder;
    std::filesystem::path path = folder / "journal";
};

TEST_F(JournalTest, WhatIsWrittenIsReadAgain) {
    const std::vector<Entry> entries = one_of_each();
    {
        Journal journal = open();
        for (const Entry& entry : entries) append(journal, entry);
    }
    const std::vector<TimedEntry> back = read();
    ASSERT_EQ(back.size(), entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) expect_same(entries[i], back[i].entry);
    EXPECT_GT(back[0].time_ns, 1'600'000'000'000'000'000);
    EXPECT_GE(back.back().time_ns, back[0].time_ns);
}

TEST_F(JournalTest, AProcessThatStartsAgainGoesOnInTheSameFile) {
    for (std::uint64_t life = 0; life < 3; ++life) {
        Journal journal = open();
        EXPECT_EQ(journal.torn_bytes(), 0U);
        append(journal, Stable{life});
    }
    const std::vector<TimedEntry> back = read();
    ASSERT_EQ(back.size(), 3U);
    for (std::uint64_t life = 0; life < 3; ++life) EXPECT_EQ(std::get<Stable>(back[life].entry).steps, life);
}

TEST_F(JournalTest, AKilledProcessLosesNothing) {
    constexpr std::uint64_t steps = 100;
    const pid_t child = ::fork();
    if (child == 0) {
        Result<Journal> journal = Journal::open(path);
        bool good = journal.ok();
        for (std::uint64_t step = 0; step < steps; ++step) good = good && journal->append(some_step(step)).ok();
        ::kill(::getpid(), good ? SIGKILL : SIGABRT);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_EQ(read().size(), steps);
}

// A file cut anywhere has the entries that are whole, and goes on behind them.
TEST_F(JournalTest, ATornEndIsCutOff) {
    std::vector<std::size_t> ends;
    {
        Journal journal = open();
        ends.push_back(content().size());
        for (std::uint64_t i = 0; i < 3; ++i) {
            append(journal, Stable{i});
            ends.push_back(content().size());
        }
    }
    const std::string whole = content();
    for (std::size_t size = 0; size <= whole.size(); ++size) {
        SCOPED_TRACE(size);
        const auto next = std::upper_bound(ends.begin(), ends.end(), size);
        const auto entries = static_cast<std::size_t>(next - ends.begin());  // one more than are whole, the mark's too
        const std::size_t kept = next == ends.begin() ? 0 : *(next - 1);
        for (const std::string& tail : {std::string(), std::string(50, '\0')}) {
            if (!tail.empty() && size != kept) continue;
            if (!tail.empty() && size == 0) continue;
            replace(whole.substr(0, size) + tail);
            Journal journal = open();
            EXPECT_EQ(journal.torn_bytes(), size - kept + tail.size());
            append(journal, Left{});
            const std::vector<TimedEntry> back = read();
            ASSERT_EQ(back.size(), entries == 0 ? 1 : entries);
            EXPECT_TRUE(std::holds_alternative<Left>(back.back().entry));
        }
    }
}

TEST_F(JournalTest, ADamagedLastEntryIsCutOffAndAnEarlierOneIsAnError) {
    {
        Journal journal = open();
        append(journal, Stable{1});
        append(journal, Stable{2});
    }
    const std::string whole = content();
    const std::size_t middle = 16 + (whole.size() - 16) / 2;
    std::string bytes = whole;
    bytes.back() ^= 1;
    replace(bytes);
    EXPECT_EQ(read().size(), 1U);
    EXPECT_EQ(open().torn_bytes(), whole.size() - middle);

    for (std::size_t at = 16; at < middle; ++at) {
        bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ 4);
        replace(bytes);
        for (const std::string& message : {read_journal(path).error().message, Journal::open(path).error().message})
            EXPECT_THAT(message, HasSubstr("journal: the entry at byte 16 ")) << at;
        EXPECT_EQ(content(), bytes);  // nothing is thrown away
    }
}

TEST_F(JournalTest, WhatIsNoJournalIsRefused) {
    replace("once upon a time there was a file");
    EXPECT_THAT(Journal::open(path).error().message, HasSubstr("is no journal"));
    replace("once");
    EXPECT_THAT(Journal::open(path).error().message, HasSubstr("is no journal"));
    EXPECT_THAT(read_journal(folder / "nowhere").error().message, HasSubstr("nowhere"));
    EXPECT_THAT(Journal::open(folder / "no" / "folder").error().message, HasSubstr("folder"));
}

TEST_F(JournalTest, AReaderSeesWhatIsThereSoFar) {
    Journal journal = open();
    append(journal, Stable{1});
    EXPECT_EQ(read().size(), 1U);
    append(journal, Stable{2});
    std::uint64_t last = 0;
    const auto end = read_journal(path, [&](TimedEntry entry) -> Result<void> {
        last = std::get<Stable>(entry.entry).steps;
        return {};
    });
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(end->entries, 2U);
    EXPECT_EQ(end->bytes, content().size());
    EXPECT_EQ(last, 2U);
    const auto stopped = read_journal(path, [](const TimedEntry&) -> Result<void> { return Error{"enough"}; });
    EXPECT_EQ(stopped.error().message, "enough");
}

}  // namespace
}  // namespace chaos::elastic
