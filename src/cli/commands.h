// cli/ is the command line: it parses arguments, calls the layers below and shows people what happens. main.cpp knows
// the flags; each command is a function in a file of its own that takes its options as a plain struct.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace chaos::cli {

struct TrainOptions {
    std::filesystem::path run_file;
    std::filesystem::path dir;    // empty: the run file's name without .toml, in the current folder
    std::uint64_t max_steps = 0;  // stop after this many steps of this process; 0: go to the run's end
    bool json = false;
    bool plot = false;
    std::optional<std::string> sample;  // a prompt to continue when training has ended
};
[[nodiscard]] Result<void> train(const TrainOptions& options);

struct NodeOptions {
    std::filesystem::path dir;
    std::vector<std::string> listen;  // empty: loopback, as long as nobody elsewhere is joined
    std::string address;              // where others reach it; empty: where it listens first
    std::vector<std::string> join;    // none: found a cluster, or go on with the one that `dir` knows
    std::string token;                // by which this node is let in
    std::string certificate;          // likewise
    std::string institution;          // of this machine, that vouches for it
    std::uint64_t max_steps = 0;      // leave after so many; 0: stay to the end
    std::uint32_t detect_ms = 1000;
    std::uint32_t links = 3;  // wanted, to other members
    bool strict = false;
    bool json = false;
};
struct UpOptions {
    std::filesystem::path run_file;
    NodeOptions node;  // dir empty: the run file's name without .toml, in the current folder
};
// A node that founds a cluster, or joins one, and trains.
[[nodiscard]] Result<void> up(const UpOptions& options);

struct JoinOptions {
    std::filesystem::path data;  // where data files are looked for
    NodeOptions node;            // dir empty: "node", in the current folder
};
// A node that joins a cluster, which tells it what is trained; or goes back to the one that its folder knows.
[[nodiscard]] Result<void> join(const JoinOptions& options);

struct ReplayOptions {
    std::vector<std::filesystem::path> dirs;  // of nodes; the first one's last state is what is computed again
    std::filesystem::path run_file;           // empty: what the first folder's node trains
    std::filesystem::path from;               // a checkpoint to begin with; empty: the run's beginning
};
// False: something was not the same, which was printed.
[[nodiscard]] Result<bool> replay(const ReplayOptions& options);

struct ExportOptions {
    std::filesystem::path run_folder;
    std::filesystem::path target;
    bool best = false;
};
[[nodiscard]] Result<void> export_model(const ExportOptions& options);

struct SimOptions {
    std::uint64_t seed = 0;
    bool sweep = false;  // seeds first_seed to last_seed - 1 instead
    std::uint64_t first_seed = 0;
    std::uint64_t last_seed = 0;
    std::string scenario = "mixed";
    std::optional<std::uint32_t> nodes;
    std::optional<std::string> policy;
    std::optional<std::uint32_t> seconds;
    bool trace = false;
    bool keep_going = false;
    std::filesystem::path report;
};
// False: an invariant was broken, which was printed.
[[nodiscard]] Result<bool> simulate(const SimOptions& options);

struct CompareOptions {
    bool wanted = false;
    std::uint64_t first_seed = 0;
    std::uint64_t last_seed = 31;    // one past the last
    std::filesystem::path markdown;  // empty: print the summary only
};
// Scale-out by Chaos and by its rivals, simulated on the same links.
[[nodiscard]] Result<void> compare_scale_out(const CompareOptions& options);

// Keys and institutions. They live in $CHAOS_HOME, else in ~/.chaos (node/institutions.h). A node's key lies in its
// folder; without one, beside the institutions.
[[nodiscard]] Result<void> new_key(const std::filesystem::path& dir);
[[nodiscard]] Result<void> show_key(const std::filesystem::path& dir);
[[nodiscard]] Result<void> new_institution(const std::string& name);
[[nodiscard]] Result<void> show_institutions();

struct InviteOptions {
    std::string institution;
    std::string node;        // a node's public key: a certificate for it; empty: a join token for whoever has it
    std::uint32_t days = 0;  // 0: a year for a certificate, a week for a token
};
[[nodiscard]] Result<void> invite(const InviteOptions& options);

struct RevokeOptions {
    std::string key;            // of a node, or of a join token; or a revocation, as another machine printed it
    std::string institution;    // empty: the one of this machine that invited it
    std::filesystem::path dir;  // of a running node that brings it to its cluster; empty: it is printed
};
[[nodiscard]] Result<void> revoke(const RevokeOptions& options);

// Commands to a running node, through its control socket (docs/control.md). An empty `dir`: node_folder.h says which.
struct StatusOptions {
    std::filesystem::path dir;
    bool json = false;
    bool watch = false;
};
[[nodiscard]] Result<void> show_status(const StatusOptions& options);

struct EventsOptions {
    std::filesystem::path dir;
    bool json = false;
    bool follow = false;
    std::optional<std::uint64_t> last;  // absent: all that the node remembers
};
[[nodiscard]] Result<void> show_events(const EventsOptions& options);

struct WhyOptions {
    std::filesystem::path dir;
    bool json = false;
};
[[nodiscard]] Result<void> show_why(const WhyOptions& options);

// Returns when the node has left.
[[nodiscard]] Result<void> leave(const std::filesystem::path& dir);

struct RecoverOptions {
    std::filesystem::path dir;
    bool force = false;  // false: only say what it would do
};
// Policy strict: goes on without a quorum that is lost for good.
[[nodiscard]] Result<void> recover(const RecoverOptions& options);

struct InstitutionOptions {
    std::filesystem::path dir;
    bool admit = true;  // false: remove
    std::string root;   // its public root key
};
// Asks the cluster in the name of this node's institution. Returns when it is agreed.
[[nodiscard]] Result<void> change_institution(const InstitutionOptions& options);
// The same for a revocation, in one word.
[[nodiscard]] Result<void> bring_revocation(const std::filesystem::path& dir, const std::string& word);

struct LinkOptions {
    std::filesystem::path dir;
    bool add = true;  // false: remove
    std::string a;    // node ids, or beginnings of them that only one node has
    std::string b;
};
[[nodiscard]] Result<void> change_link(const LinkOptions& options);

// Journals of a cluster's nodes: their folders. False: an invariant was broken, which was printed.
[[nodiscard]] Result<bool> check_journals(const std::vector<std::filesystem::path>& dirs);

struct ShowJournalOptions {
    std::filesystem::path dir;
    bool json = false;
};
[[nodiscard]] Result<void> show_journal(const ShowJournalOptions& options);

// How much of a model may be in memory, and where weights lie packed that must be streamed.
struct MemoryOptions {
    std::string budget;           // for everything, "2GB"; empty: what the machine has
    std::filesystem::path cache;  // empty: chaos in the user's folder of caches
    std::string cache_limit;      // of all that lies there, "100GB"; empty: infer::PackedFolder's
};

// Commands on a trained model: a Hugging Face folder or a GGUF file. `threads` 0: one per core. `kv`: how keys and
// values are kept, "f16" or "f32".
struct GenerateOptions {
    std::filesystem::path model;
    std::string prompt;
    std::string ids;  // instead of the prompt
    std::size_t max_tokens = 256;
    double temperature = 0.0;
    std::int64_t top_k = 0;
    double top_p = 1.0;
    double min_p = 0.0;
    std::uint64_t seed = 0;
    std::vector<std::string> stop;
    bool ignore_eos = false;
    bool no_speculation = false;
    std::size_t threads = 0;
    std::string kv = "f16";
    MemoryOptions memory;
    bool json = false;
};
[[nodiscard]] Result<void> generate(const GenerateOptions& options);

struct EvalOptions {
    std::filesystem::path model;
    std::string ids;
    std::filesystem::path text_file;  // instead of ids
    std::size_t context = 0;          // 0: the model's
    std::size_t threads = 0;
    std::string kv = "f32";
    MemoryOptions memory;
    bool json = false;
};
[[nodiscard]] Result<void> evaluate(const EvalOptions& options);

struct QuantizeOptions {
    std::filesystem::path model;
    std::filesystem::path target;
    std::string type;  // q4_0, q8_0 or f16
};
[[nodiscard]] Result<void> quantize(const QuantizeOptions& options);

// Tokens of a conversation where nobody says how many: as many as most take, because each of those at once may need
// room for all of them.
inline constexpr std::size_t usual_context_tokens = 8192;

// What models that answer compute with.
struct ComputeOptions {
    std::size_t threads = 0;
    std::size_t context = 0;   // tokens of a conversation; 0: the model's, but no more than the usual
    std::size_t parallel = 1;  // conversations at once
    MemoryOptions memory{};
};

struct ServeOptions {
    std::filesystem::path model;  // none: with `join`, as the others have it
    std::string listen = "127.0.0.1:8080";
    std::vector<std::string> api_keys;
    std::filesystem::path api_key_file;
    ComputeOptions compute{.threads = 0, .context = 0, .parallel = 4};
    // With others: any of these.
    std::filesystem::path dir;      // this node's folder
    std::vector<std::string> join;  // where a member of the cluster answers
    std::size_t local = 0;          // so many processes on this machine, this one included
    std::string address;            // where others reach it; empty: where it listens
    std::string token;              // by which this node is let in
    std::string certificate;        // likewise
    std::string institution;        // of this machine, that vouches for it
    std::uint32_t detect_ms = 1000;
    bool everyone = false;  // all compute, even where fewer were faster

    [[nodiscard]] bool with_others() const { return !dir.empty() || !join.empty() || local > 0; }
};
// Answers over HTTP until a signal ends it.
[[nodiscard]] Result<void> serve(const ServeOptions& options);

struct PlanOptions {
    std::filesystem::path model;         // weights need not be there: config.json is enough, with a type
    std::filesystem::path devices;       // devices_file.h
    std::size_t context = 0;             // tokens of a conversation; 0: the model's, but no more than the usual
    std::size_t parallel = 4;            // conversations at once
    std::string type;                    // how weights would be kept; empty: as they are
    std::vector<std::string> exchanges;  // those to choose from; none: what `serve` can do
    bool json = false;
};
// How devices would serve a model together: what each would have, how long a token would take.
[[nodiscard]] Result<void> plan_serving(const PlanOptions& options);

struct ChatOptions {
    std::filesystem::path model;
    std::string system;  // instructions
    double temperature = 0.7;
    std::optional<std::uint64_t> seed;
    std::optional<std::size_t> max_tokens;
    ComputeOptions compute;
};
[[nodiscard]] Result<void> chat(const ChatOptions& options);

}  // namespace chaos::cli
