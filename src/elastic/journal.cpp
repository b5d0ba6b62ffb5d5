// The file's format: docs/journal.md.
#include "elastic/journal.h"

#include "base/hash.h"
#include "cluster/message.h"
#include "elastic/work.h"
#include "proto/journal.pb.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <string_view>

namespace chaos::elastic {
namespace {

using namespace journal;

constexpr std::string_view magic = "chaos journal 1\n";
constexpr std::uint64_t head_bytes = 16;
constexpr std::uint32_t max_entry_bytes = 16U << 20;  // the largest view is smaller

// ---- numbers in the file

template <class T>
void put(std::string& bytes, T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

template <class T>
T get(std::string_view bytes) {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
        value |= static_cast<T>(static_cast<T>(static_cast<std::uint8_t>(bytes[i])) << (8 * i));
    return value;
}

std::uint64_t hash_of(std::string_view payload) {
    return xxh3(std::as_bytes(std::span(payload)));
}

// ---- one entry as a message, and back

void set(journal::wire::NodeId& message, cluster::NodeId node) {
    message.set_high(node.high);
    message.set_low(node.low);
}

void fill(journal::wire::Entry& message, const Begun& begun) {
    journal::wire::Begun& said = *message.mutable_begun();
    set(*said.mutable_node(), begun.member.node);
    said.set_incarnation(begun.member.incarnation);
    said.set_run(to_wire(begun.run));
    said.set_threads(begun.threads);
    said.set_version(begun.version);
}

void fill(journal::wire::Entry& message, const Adopted& adopted) {
    const std::vector<std::uint8_t> view = cluster::encode(*adopted.view);
    message.mutable_adopted()->mutable_view()->assign(view.begin(), view.end());
}

void fill(journal::wire::Entry& message, const Applied& applied) {
    journal::wire::Applied& said = *message.mutable_applied();
    *said.mutable_record() = to_wire(applied.record);
    said.set_lineage(to_wire(applied.lineage));
    said.set_how(static_cast<journal::wire::How>(applied.how));
    said.set_samples_lost(applied.samples_lost);
}

void fill(journal::wire::Entry& message, const StateHash& hash) {
    message.mutable_state_hash()->set_applied(hash.applied);
    message.mutable_state_hash()->set_root(to_wire(hash.root));
}

void fill(journal::wire::Entry& message, const Synced& synced) {
    message.mutable_synced()->set_applied(synced.applied);
    message.mutable_synced()->set_lineage(to_wire(synced.lineage));
    message.mutable_synced()->set_root(to_wire(synced.root));
}

void fill(journal::wire::Entry& message, const Restored& restored) {
    message.mutable_restored()->set_applied(restored.applied);
    message.mutable_restored()->set_lineage(to_wire(restored.lineage));
}

void fill(journal::wire::Entry& message, const Stable& stable) {
    message.mutable_stable()->set_steps(stable.steps);
}

void fill(journal::wire::Entry& message, const Skipped& skipped) {
    journal::wire::Skipped& said = *message.mutable_skipped();
    said.set_step(skipped.step);
    said.set_view(to_wire(skipped.view));
    if (skipped.node) set(*said.mutable_node(), *skipped.node);
    said.set_why(skipped.why);
}

void fill(journal::wire::Entry& message, const Excluded& excluded) {
    message.mutable_excluded()->set_why(excluded.why);
}

void fill(journal::wire::Entry& message, const Left&) {
    message.mutable_left();
}

// Reads names; one of another length is none.
class Names {
public:
    [[nodiscard]] Name operator()(const std::string& bytes) {
        Name name{};
        if (bytes.size() != name.size()) {
            good_ = false;
        } else {
            std::copy_n(bytes.begin(), name.size(), name.begin());
        }
        return name;
    }
    [[nodiscard]] bool good() const { return good_; }

private:
    bool good_ = true;
};

cluster::NodeId node_of(const journal::wire::NodeId& message) {
    return {.high = message.high(), .low = message.low()};
}

Result<Applied> applied_of(const journal::wire::Applied& said, Names& name) {
    if (!journal::wire::How_IsValid(said.how())) return Error{"a step came about in an unknown way"};
    const std::optional<state::StepRecord> record = record_from(said.record());
    if (!record) return Error{"a step's record is none"};
    return Applied{.record = *record,
                   .lineage = name(said.lineage()),
                   .how = static_cast<How>(said.how()),
                   .samples_lost = said.samples_lost()};
}

Result<Adopted> adopted_of(const journal::wire::Adopted& said) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(said.view().data());
    CHAOS_TRY(cluster::ViewPtr view, cluster::decode_view({bytes, said.view().size()}));
    return Adopted{std::move(view)};
}

Result<Entry> entry_of(const journal::wire::Entry& message) {
    Names name;
    std::optional<Entry> entry;
    switch (message.what_case()) {
        case journal::wire::Entry::kBegun:
            entry =
                Begun{.member = {.node = node_of(message.begun().node()), .incarnation = message.begun().incarnation()},
                      .run = name(message.begun().run()),
                      .threads = message.begun().threads(),
                      .version = message.begun().version()};
            break;
        case journal::wire::Entry::kAdopted: {
            CHAOS_TRY(entry, adopted_of(message.adopted()));
            break;
        }
        case journal::wire::Entry::kApplied: {
            CHAOS_TRY(entry, applied_of(message.applied(), name));
            break;
        }
        case journal::wire::Entry::kStateHash:
            entry = StateHash{.applied = message.state_hash().applied(), .root = name(message.state_hash().root())};
            break;
        case journal::wire::Entry::kSynced:
            entry = Synced{.applied = message.synced().applied(),
                           .lineage = name(message.synced().lineage()),
                           .root = name(message.synced().root())};
            break;
        case journal::wire::Entry::kRestored:
            entry = Restored{.applied = message.restored().applied(), .lineage = name(message.restored().lineage())};
            break;
        case journal::wire::Entry::kStable:
            entry = Stable{message.stable().steps()};
            break;
        case journal::wire::Entry::kSkipped:
            entry = Skipped{
                .step = message.skipped().step(),
                .view = name(message.skipped().view()),
                .node = message.skipped().has_node() ? std::optional(node_of(message.skipped().node())) : std::nullopt,
                .why = message.skipped().why()};
            break;
        case journal::wire::Entry::kExcluded:
            entry = Excluded{message.excluded().why()};
            break;
        case journal::wire::Entry::kLeft:
            entry = Left{};
            break;
        case journal::wire::Entry::WHAT_NOT_SET:
            return Error{"it is of a kind that this program does not know"};
    }
    if (!name.good()) return Error{"a name in it has another length than 32 bytes"};
    return std::move(*entry);
}

void put_entry(std::string& bytes, const TimedEntry& timed) {
    journal::wire::Entry message;
    message.set_time_ns(timed.time_ns);
    std::visit([&](const auto& entry) { fill(message, entry); }, timed.entry);
    const std::string payload = message.SerializeAsString();
    CHAOS_ASSERT(payload.size() <= max_entry_bytes);
    const auto length = static_cast<std::uint32_t>(payload.size());
    put(bytes, length);
    put(bytes, ~length);
    put(bytes, hash_of(payload));
    bytes += payload;
}

// ---- reading

class JournalReader {
public:
    static Result<JournalReader> open(const std::filesystem::path& path) {
        std::error_code code;
        const std::uint64_t size = std::filesystem::file_size(path, code);
        if (code) return Error{"cannot read " + path.string() + ": " + code.message()};
        JournalReader reader(path, size);
        if (!reader.file_) return Error{"cannot read " + path.string()};
        std::string begin(std::min<std::uint64_t>(size, magic.size()), '\0');
        if (!reader.file_.read(begin.data(), static_cast<std::streamsize>(begin.size())) || !magic.starts_with(begin))
            return Error{path.string() + " is no journal that this program can read"};
        if (begin == magic) reader.at_ = magic.size();  // else it was torn as it was made
        return reader;
    }

    // The next whole payload; nullopt: there is none any more.
    [[nodiscard]] Result<std::optional<std::string>> next() {
        const std::uint64_t left = size_ - at_;
        if (at_ == 0 || left < head_bytes) return std::optional<std::string>();
        std::string head(head_bytes, '\0');
        CHAOS_CHECK(read(head));
        const auto length = get<std::uint32_t>(head);
        if (get<std::uint32_t>(std::string_view(head).substr(4)) != ~length || length > max_entry_bytes) {
            CHAOS_TRY(const bool blank, only_zeros_follow());
            if (blank) return std::optional<std::string>();
            return wrong("has no length");
        }
        if (left - head_bytes < length) return std::optional<std::string>();
        std::string payload(length, '\0');
        CHAOS_CHECK(read(payload));
        if (hash_of(payload) != get<std::uint64_t>(std::string_view(head).substr(8))) {
            if (left - head_bytes == length) return std::optional<std::string>();
            return wrong("is damaged");
        }
        before_ = at_;
        at_ += head_bytes + length;
        return std::optional(std::move(payload));
    }

    // Where the whole entries end.
    [[nodiscard]] std::uint64_t whole() const { return at_; }
    [[nodiscard]] std::uint64_t torn() const { return size_ - at_; }
    // About the entry read last.
    [[nodiscard]] Error about_last(const std::string& what) const { return about(before_, what); }

private:
    JournalReader(const std::filesystem::path& path, std::uint64_t size)
        : path_(path), file_(path, std::ios::binary), size_(size) {}

    [[nodiscard]] Error about(std::uint64_t where, const std::string& what) const {
        return Error{path_.string() + ": the entry at byte " + std::to_string(where) + " " + what};
    }
    [[nodiscard]] Error wrong(const std::string& what) const { return about(at_, what); }

    Result<void> read(std::string& into) {
        if (!file_.read(into.data(), static_cast<std::streamsize>(into.size()))) return wrong("cannot be read");
        return {};
    }

    // File systems may leave zeros where data had not been written when the machine died.
    Result<bool> only_zeros_follow() {
        file_.seekg(static_cast<std::streamoff>(at_));
        std::string part;
        for (std::uint64_t left = size_ - at_; left > 0; left -= part.size()) {
            part.resize(std::min<std::uint64_t>(left, 64U << 10));
            CHAOS_CHECK(read(part));
            if (part.find_first_not_of('\0') != std::string::npos) return false;
        }
        return true;
    }

    std::filesystem::path path_;
    std::ifstream file_;
    std::uint64_t size_ = 0;
    std::uint64_t at_ = 0;
    std::uint64_t before_ = 0;
};

}  // namespace

Result<Journal> Journal::open(const std::filesystem::path& path) {
    CHAOS_TRY(AppendFile file, AppendFile::open(path));
    const auto unusable = [](const Error& why) { return Error{why.message + " (move it away to begin another one)"}; };
    Result<JournalReader> opened = JournalReader::open(path);
    if (!opened) return unusable(opened.error());
    JournalReader reader = std::move(*opened);
    while (true) {
        const Result<std::optional<std::string>> payload = reader.next();
        if (!payload) return unusable(payload.error());
        if (!*payload) break;
    }
    const std::uint64_t torn = reader.torn();
    if (torn > 0) CHAOS_CHECK(file.cut(reader.whole()));
    if (file.size() == 0) CHAOS_CHECK(file.append(std::as_bytes(std::span(magic))));
    return Journal(std::move(file), torn);
}

Result<void> Journal::append(const Entry& entry) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const TimedEntry timed{.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                           .entry = entry};
    return append({&timed, 1});
}

Result<void> Journal::append(std::span<const TimedEntry> entries) {
    std::string bytes;
    for (const TimedEntry& entry : entries) put_entry(bytes, entry);
    return file_.append(std::as_bytes(std::span(bytes)));
}

Result<JournalEnd> read_journal(const std::filesystem::path& path,
                                const std::function<Result<void>(TimedEntry)>& each) {
    CHAOS_TRY(JournalReader reader, JournalReader::open(path));
    JournalEnd end;
    while (true) {
        CHAOS_TRY(const std::optional<std::string> payload, reader.next());
        if (!payload) break;
        journal::wire::Entry message;
        if (!message.ParseFromString(*payload)) return reader.about_last("is none of a journal");
        Result<Entry> entry = entry_of(message);
        if (!entry) return reader.about_last("makes no sense: " + entry.error().message);
        CHAOS_CHECK(each({.time_ns = message.time_ns(), .entry = std::move(*entry)}));
        ++end.entries;
    }
    end.bytes = reader.whole();
    end.torn_bytes = reader.torn();
    return end;
}

Result<std::vector<TimedEntry>> read_journal(const std::filesystem::path& path) {
    std::vector<TimedEntry> entries;
    const auto keep = [&](TimedEntry entry) -> Result<void> {
        entries.push_back(std::move(entry));
        return {};
    };
    CHAOS_CHECK(read_journal(path, keep));
    return entries;
}

}  // namespace chaos::elastic
