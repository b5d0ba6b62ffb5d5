// A member's journal: what this node did, entry by entry, in a file that only grows (DIR/journal). It says enough to
// check that the invariants held (journal_check.h) and to compute the run again, bit for bit (replay.h).
// docs/journal.md is its format.
//
// Every entry is with the operating system when append() returns: killing the process loses none. When the machine
// dies, the end may be lost or torn; a torn last entry is cut off when the file is opened again. Whatever else is
// wrong in the file is an error that says where.
#pragma once

#include "base/file.h"
#include "base/result.h"
#include "cluster/view.h"
#include "state/record.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace chaos::elastic {

namespace journal {

using cluster::Name;

// A process began. Where its state comes from, a Restored or a Synced says.
struct Begun {
    cluster::MemberId member;
    Name run{};
    std::uint64_t threads = 0;  // that compute: results depend on it
    std::string version;        // of the program
    bool operator==(const Begun&) const = default;
};
// A view, before the first entry that names it: those that this node adopts, and those that steps it applies name.
struct Adopted {
    cluster::ViewPtr view;
};
enum class How : std::uint8_t {
    exchanged,  // this node took part in the all-reduce
    taken,      // R(s) came from a member that had it
    followed,   // as a joiner
};
struct Applied {
    state::StepRecord record;
    Name lineage{};  // after it
    How how = How::exchanged;
    std::uint64_t samples_lost = 0;  // of the batch that did not go into R(s)
};
struct StateHash {
    std::uint64_t applied = 0;
    Name root{};  // of the state then: what a joiner compares, too
    bool operator==(const StateHash&) const = default;
};
// A joiner has the whole state, and its root is the donors'.
struct Synced {
    std::uint64_t applied = 0;
    Name lineage{};
    Name root{};
    bool operator==(const Synced&) const = default;
};
// The state is that of a checkpoint, or of the run's beginning.
struct Restored {
    std::uint64_t applied = 0;
    Name lineage{};
    bool operator==(const Restored&) const = default;
};
struct Stable {
    std::uint64_t steps = 0;
    bool operator==(const Stable&) const = default;
};
// The common rule left a step's update out: what was contributed is of no use.
struct Skipped {
    std::uint64_t step = 0;
    Name view{};
    std::optional<cluster::NodeId> node;  // by whose contribution, where one stands out
    std::string why;
    bool operator==(const Skipped&) const = default;
};
struct Excluded {
    std::string why;
    bool operator==(const Excluded&) const = default;
};
struct Left {
    bool operator==(const Left&) const = default;
};

using Entry = std::variant<Begun, Adopted, Applied, StateHash, Synced, Restored, Stable, Skipped, Excluded, Left>;

struct TimedEntry {
    std::int64_t time_ns = 0;  // since 1970, by this machine's clock
    Entry entry;
};

}  // namespace journal

class Journal {
public:
    // Makes the file, or goes on in it. One process at a time: the node's folder is locked.
    static Result<Journal> open(const std::filesystem::path& path);

    [[nodiscard]] Result<void> append(const journal::Entry& entry);
    // At once: all of them or none.
    [[nodiscard]] Result<void> append(std::span<const journal::TimedEntry> entries);

    // What was cut off at the end when it was opened: usually nothing.
    [[nodiscard]] std::uint64_t torn_bytes() const { return torn_bytes_; }

private:
    Journal(AppendFile file, std::uint64_t torn_bytes) : file_(std::move(file)), torn_bytes_(torn_bytes) {}
    AppendFile file_;
    std::uint64_t torn_bytes_ = 0;
};

struct JournalEnd {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;       // of what is whole
    std::uint64_t torn_bytes = 0;  // behind it: a process that writes just now, or a machine that died
};

// Hands over entry by entry, in order; an error of `each` ends it.
[[nodiscard]] Result<JournalEnd> read_journal(const std::filesystem::path& path,
                                              const std::function<Result<void>(journal::TimedEntry)>& each);
[[nodiscard]] Result<std::vector<journal::TimedEntry>> read_journal(const std::filesystem::path& path);

}  // namespace chaos::elastic
