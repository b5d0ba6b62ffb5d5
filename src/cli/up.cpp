// chaos up, chaos join: a node that founds a cluster, or joins one, and trains.
#include "base/file.h"
#include "cli/commands.h"
#include "elastic/run_folder.h"
#include "elastic/trainer.h"
#include "net/address.h"
#include "node/description.h"
#include "node/fetch.h"
#include "node/identity.h"
#include "node/node.h"

#include <boost/asio/signal_set.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <set>

namespace chaos::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* default_listen = "127.0.0.1:7440";
constexpr const char* any_loopback = "127.0.0.1:0";

// Shows what happens, for people or programs.
class Teller {
public:
    Teller(bool for_programs, std::uint64_t steps) : json_(for_programs), steps_(steps) {}

    void say(const std::string& text) const {
        if (!json_) print(text);
    }
    void event(const node::Event& event) const {
        if (json_) return print_json(node::to_json(event));
        print(time_text() + "  " + event.text);
    }
    // All of them for programs, one a second for people.
    void step(const elastic::Outcome& outcome, const elastic::StateLabel& state, std::size_t members) {
        if (outcome.record.step >= steps_) return;
        if (json_)
            return print_json(
                {{"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
                 {"kind", "trained"},
                 {"step", state.applied},
                 {"loss", outcome.record.loss},
                 {"norm", outcome.record.norm},
                 {"members", members}});
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < std::chrono::seconds(1) && state.applied != steps_) return;
        last_ = now;
        std::array<char, 120> text{};
        std::snprintf(text.data(), text.size(), "step %llu of %llu   loss %.4f   %zu %s",
                      static_cast<unsigned long long>(state.applied), static_cast<unsigned long long>(steps_),
                      outcome.record.loss, members, members == 1 ? "node" : "nodes");
        print(time_text() + "  " + text.data());
    }

private:
    static void print(const std::string& text) {
        std::printf("%s\n", text.c_str());
        std::fflush(stdout);
    }
    static void print_json(const json& line) { print(line.dump(-1, ' ', false, json::error_handler_t::replace)); }
    static std::string time_text() {
        const std::time_t now = std::time(nullptr);
        std::tm parts{};
        ::localtime_r(&now, &parts);
        std::array<char, 16> text{};
        std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
        return text.data();
    }

    bool json_;
    std::uint64_t steps_;
    std::chrono::steady_clock::time_point last_;
};

bool is_loopback(const std::string& address) {
    return address.starts_with("127.") || address.starts_with("localhost:") || address.starts_with("[::1]") ||
           address.starts_with(":");
}

// Nobody elsewhere can dial a loopback address: who joins others elsewhere, and is not told where to listen, only
// dials.
std::vector<std::string> listen_where(const NodeOptions& options, const fs::path& dir) {
    if (!options.listen.empty()) return options.listen;
    if (const Result<std::string> last = read_file(dir / "address"); last && is_loopback(*last)) return {*last};
    // Who came in by others and has no such file only dials.
    if (options.join.empty())
        return fs::exists(dir / "description") ? std::vector<std::string>{} : std::vector<std::string>{default_listen};
    if (std::ranges::all_of(options.join, is_loopback)) return {any_loopback};
    return {};
}

// Runs a node until it ends, or a signal tells it to leave. A second signal ends it at once.
Result<void> run_node(boost::asio::io_context& loop, node::Node& running, const Teller& teller,
                      const Result<std::string>& why) {
    boost::asio::signal_set signals(loop, SIGINT, SIGTERM);
    std::function<void(boost::system::error_code, int)> on_signal;
    bool asked = false;
    on_signal = [&](boost::system::error_code cancelled, int) {
        if (cancelled) return;
        if (asked) ::_exit(130);
        asked = true;
        teller.say("leaves; again to end at once");
        running.leave();
        signals.async_wait(on_signal);
    };
    signals.async_wait(on_signal);
    loop.run();
    if (!why) return why.error();
    teller.say(*why);
    return {};
}

Result<node::Identity> who_in(const fs::path& dir, const NodeOptions& options, bool may_make_institution) {
    return node::identity_of({.dir = dir,
                              .token = options.token,
                              .certificate = options.certificate,
                              .institution = options.institution,
                              .may_make_institution = may_make_institution,
                              .home = {}});
}

// What is trained, and how newcomers are told: from a file, or in the words in which this node was told.
struct Told {
    fs::path run_file;
    std::string description;
};

node::NodeOptions options_of(const NodeOptions& options, const fs::path& dir, const Told& told) {
    node::NodeOptions node;
    node.dir = dir;
    node.run_file = told.run_file;
    node.description = told.description;
    node.join = options.join;
    node.strict = options.strict;
    node.max_steps = options.max_steps;
    node.version = CHAOS_VERSION;
    node.live.listen = listen_where(options, dir);
    node.live.address = options.address;
    node.live.core.detect = options.detect_ms * cluster::millisecond;
    node.live.core.heartbeat = node.live.core.detect / 4;
    node.live.core.links_wanted = options.links;
    return node;
}

Result<void> check_addresses(const NodeOptions& options) {
    for (const std::string& address : options.join) CHAOS_CHECK(net::address_from_text(address));
    if (!options.address.empty()) CHAOS_CHECK(net::address_from_text(options.address));
    return {};
}

// What the members of the cluster that a newcomer asks for have alike. None: nobody answers yet.
std::optional<run::Identity> what_cluster_agreed(const NodeOptions& options, const node::Identity& identity) {
    boost::asio::io_context loop{1};
    node::FetchOptions fetch;
    fetch.addresses = options.join;
    fetch.limit = std::chrono::seconds(2);
    Result<run::Identity> agreed = node::fetch_agreed(loop, identity.key, identity.credential, fetch);
    return agreed ? std::optional(std::move(*agreed)) : std::nullopt;
}

// Whether it trains the same run. Where nobody answers yet, the newcomer will hear when it joins.
Result<void> check_cluster(const NodeOptions& options, const node::Identity& identity, const run::Identity& ours) {
    const std::optional<run::Identity> clusters = what_cluster_agreed(options, identity);
    return clusters ? node::check_same_run(ours, *clusters) : Result<void>{};
}

// What a node of this machine, in whatever folder it is started, has to say to join.
std::string how_to_join(const std::string& address, const Told& told, const run::Run& run) {
    std::string command = "chaos join " + address + " --dir OTHER";
    std::set<fs::path> folders;
    for (const std::vector<fs::path>& files : {run.data.files, run.data.labels})
        for (const fs::path& file : files) folders.insert(fs::absolute(file).lexically_normal().parent_path());
    if (folders.empty()) return command;
    // Data files are found by their names in their folder; those of several, where the run file says.
    const fs::path folder = folders.size() == 1 ? *folders.begin() : fs::absolute(told.run_file).parent_path();
    return command + " --data " + folder.string();
}

// From here on both commands are one. The folder is locked.
Result<void> train_together(const NodeOptions& options, const fs::path& dir, const Told& told,
                            const node::Identity& identity, elastic::Trainer& trainer) {
    Teller teller(options.json, static_cast<std::uint64_t>(trainer.run().train.steps));
    node::NodeOptions node_options = options_of(options, dir, told);
    boost::asio::io_context loop{1};
    Result<std::string> why = Error{"the node ended without a reason"};
    std::unique_ptr<node::Node> running;
    const node::Node::Callbacks callbacks{.event = [&](const node::Event& event) { teller.event(event); },
                                          .step =
                                              [&](const elastic::Outcome& outcome, const elastic::StateLabel& state) {
                                                  const cluster::ViewPtr view =
                                                      running->participant().member().core().view();
                                                  teller.step(outcome, state, view ? view->active_count() : 0);
                                              },
                                          .ended =
                                              [&](const Result<std::string>& reason) {
                                                  why = reason;
                                                  loop.stop();
                                              }};
    const auto open = [&]() -> Result<void> {
        running.reset();
        CHAOS_TRY(running, node::Node::open(loop, identity.key, identity.credential, node_options, trainer, callbacks));
        return running->start();
    };
    // Where nobody chose the port, the last one is best, because others know it; else any that is free will do: several
    // nodes on one machine are easy.
    Result<void> opened = open();
    if (!opened && options.listen.empty() && !node_options.live.listen.empty()) {
        node_options.live.listen = {any_loopback};
        opened = open();
    }
    if (!opened) return opened;
    if (options.listen.empty() && !node_options.live.listen.empty())
        CHAOS_CHECK(write_file_atomically(dir / "address", running->participant().member().address()));

    const live::Member& member = running->participant().member();
    if (identity.made_institution)
        teller.say("made the institution \"" + identity.institution_name +
                   "\", which vouches for this machine's nodes");
    teller.say("node " + cluster::brief(member.id()) + " in " + dir.string() +
               (member.address().empty() ? ", which only dials" : ", listens at " + member.address()));
    for (const std::string& text : {trainer.advice(), trainer.caution()})
        if (!text.empty()) teller.say(text);
    if (!member.address().empty() && options.join.empty())
        teller.say("others of this machine join with: " + how_to_join(member.address(), told, trainer.run()));
    return run_node(loop, *running, teller, why);
}

}  // namespace

Result<void> up(const UpOptions& options) {
    CHAOS_TRY(const run::Run run, run::read_run(options.run_file));
    const fs::path dir = options.node.dir.empty() ? options.run_file.stem() : options.node.dir;
    if (fs::exists(dir) && fs::equivalent(dir, options.run_file))
        return Error{options.node.dir.empty() ? "--dir is needed: the default folder would be the run file itself"
                                              : "--dir is the run file; it must be a folder"};
    CHAOS_CHECK(check_addresses(options.node));
    CHAOS_TRY(auto folder, elastic::RunFolder::open(dir));
    CHAOS_TRY(const node::Identity identity, who_in(dir, options.node, options.node.join.empty()));
    CHAOS_TRY(auto trainer, elastic::Trainer::open(run));
    CHAOS_CHECK(folder.describe(options.run_file, trainer));
    CHAOS_CHECK(node::keep_place(options.run_file, dir));
    const bool was_in = fs::exists(dir / "vote");
    if (!was_in && !options.node.join.empty()) CHAOS_CHECK(check_cluster(options.node, identity, trainer.agreed()));
    return train_together(options.node, dir, {.run_file = options.run_file, .description = {}}, identity, trainer);
}

namespace {

// As it was told when this node was let in; else by the cluster that it asks to be let in.
Result<node::Description> description_for(const NodeOptions& options, const fs::path& dir,
                                          const node::Identity& identity) {
    if (fs::exists(dir / "vote")) {
        CHAOS_TRY(std::optional<node::Description> kept, node::installed(dir));
        if (kept) {
            if (options.join.empty()) return std::move(*kept);
            const std::optional<run::Identity> clusters = what_cluster_agreed(options, identity);
            if (!clusters) return std::move(*kept);
            CHAOS_TRY(const run::Identity ours, node::settings_of(*kept, dir));
            if (node::check_same_run(ours, *clusters)) return std::move(*kept);
            // The others may have been started with other settings since.
            run::Identity theirs = kept->identity;
            for (const auto& [key, value] : ours) {
                const auto at = clusters->find(key);
                theirs.emplace(key, at == clusters->end() ? value : at->second);
            }
            if (const Result<void> same = node::check_same_run(theirs, *clusters); !same)
                return Error{same.error().message + "; to join it, choose another folder with --dir"};
        }
    }
    if (options.join.empty())
        return Error{
            dir.string() +
            " is not the folder of a node that joined a cluster before; say by whom it joins: " + "chaos join ADDR"};
    const Teller teller(options.json, 0);
    boost::asio::io_context loop{1};
    node::FetchOptions fetch;
    fetch.addresses = options.join;
    fetch.note = [&](const std::string& text) { teller.say(text); };
    return node::fetch_description(loop, identity.key, identity.credential, fetch);
}

}  // namespace

Result<void> join(const JoinOptions& options) {
    const fs::path dir = options.node.dir.empty() ? "node" : options.node.dir;
    CHAOS_CHECK(check_addresses(options.node));
    CHAOS_TRY(auto folder, elastic::RunFolder::open(dir));
    CHAOS_TRY(const node::Identity identity, who_in(dir, options.node, false));
    CHAOS_TRY(const node::Description description, description_for(options.node, dir, identity));
    CHAOS_TRY(const run::Run run, node::install(description, dir, options.data));
    CHAOS_TRY(auto trainer, elastic::Trainer::open(run));
    CHAOS_CHECK(node::check_same_run(trainer.identity(), description.identity));
    CHAOS_CHECK(folder.describe(dir / "run.toml", trainer));
    CHAOS_TRY(const std::string encoded, node::encode(description));
    return train_together(options.node, dir, {.run_file = dir / "run.toml", .description = encoded}, identity, trainer);
}

}  // namespace chaos::cli
