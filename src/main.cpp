#include "base/words.h"
#include "cli/commands.h"
#include "model_commands.h"

#include <CLI/CLI.hpp>

#include <unistd.h>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string_view>
#include <vector>

namespace {

using chaos::Job;
using chaos::Result;

// What the user did or the world did: one sentence on stderr, and this exit code.
constexpr int exit_error = 2;

void add_train(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::TrainOptions>();
    CLI::App* command = program.add_subcommand("train", "Train what a run file describes, on this machine");
    command->add_option("run", options->run_file, "The run file (TOML); docs/run-file.md lists its keys")
        ->required()
        ->type_name("RUN.toml");
    command->add_option("--dir", options->dir, "Folder for checkpoints (default: the run file's name, here)")
        ->type_name("DIR");
    command->add_option("--max-steps", options->max_steps, "Stop after this many steps; a later start goes on")
        ->check(CLI::PositiveNumber)
        ->type_name("N");
    command->add_option("--sample", options->sample, "When done, continue this text with the trained model")
        ->type_name("TEXT");
    command->add_flag("--json", options->json, "Print one JSON object per event, for programs");
    command->add_flag("--plot", options->plot, "When done, draw the loss curve");
    command->footer(
        "Started again with the same run file and folder, training goes on where it stopped, bit for bit\n"
        "(with the same number of threads).\n"
        "Ctrl-C finishes the step, saves and ends; a second Ctrl-C ends at once.\n\n"
        "Examples:\n"
        "  chaos train examples/shakespeare.toml --plot\n"
        "  chaos train run.toml --dir runs/a --max-steps 100 --json\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::train(*options); }; });
}

// What `up` and `join` have in common.
void add_node_options(CLI::App& command, chaos::cli::NodeOptions& options) {
    command.add_option("--listen", options.listen, "Where others reach it (default: 127.0.0.1, for this machine only)")
        ->type_name("ADDR");
    command
        .add_option("--address", options.address,
                    "What others are told to dial (default: where it listens, by this machine's own address; behind "
                    "NAT, say it)")
        ->type_name("ADDR");
    command.add_option("--token", options.token, "A join token, by which this node is let in")->type_name("WORD");
    command.add_option("--certificate", options.certificate, "A certificate of this node's key, likewise")
        ->type_name("WORD");
    command.add_option("--institution", options.institution, "Which institution of this machine vouches for it")
        ->type_name("NAME");
    command.add_option("--max-steps", options.max_steps, "Leave after this many steps")
        ->check(CLI::PositiveNumber)
        ->type_name("N");
    command.add_option("--detect-ms", options.detect_ms, "Silence that fails a link (default: 1000)")
        ->check(CLI::Range(50, 600'000))
        ->type_name("MS");
    command.add_option("--links", options.links, "How many links to other members it looks for (default: 3)")
        ->check(CLI::Range(1, 256))
        ->type_name("N");
    command.add_flag("--json", options.json, "Print one JSON object per event and step, for programs");
}

void add_up(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::UpOptions>();
    CLI::App* command = program.add_subcommand("up", "Train with others: found a cluster, or join one");
    command->add_option("run", options->run_file, "The run file (TOML); docs/run-file.md lists its keys")
        ->required()
        ->type_name("RUN.toml");
    command->add_option("--dir", options->node.dir, "The node's folder (default: the run file's name, here)")
        ->type_name("DIR");
    command->add_option("--join", options->node.join, "Join the cluster of the node at this address; may be repeated")
        ->type_name("ADDR");
    add_node_options(*command, options->node);
    command->add_flag("--strict", options->node.strict, "When founding: after a partition only a majority goes on");
    command->footer(
        "Every node needs the data that the run file names; the state comes from the others. Started again with the\n"
        "same folder, a node goes back to its cluster. Ctrl-C lets it leave; a second Ctrl-C ends it at once.\n\n"
        "Examples:\n"
        "  chaos up run.toml --dir a                                  # founds a cluster\n"
        "  chaos up run.toml --dir b --join 127.0.0.1:7440            # another node, on the same machine\n"
        "  chaos up run.toml --listen 0.0.0.0:7440 --address lab7.example.org:7440\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::up(*options); }; });
}

void add_join(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::JoinOptions>();
    CLI::App* command =
        program.add_subcommand("join", "Train with others: join a cluster, which tells what is trained");
    command
        ->add_option("addresses", options->node.join,
                     "Where nodes of the cluster listen; one is enough, none where DIR was in it before")
        ->type_name("ADDR");
    command->add_option("--dir", options->node.dir, "The node's folder (default: node)")->type_name("DIR");
    command->add_option("--data", options->data, "Where the run's data files are looked for")->type_name("FOLDER");
    add_node_options(*command, options->node);
    command->footer(
        "The run file comes from the cluster; data files it names have to be here (with --data, below DIR or below "
        "the\n"
        "current folder). Started again with the same folder, a node goes back to its cluster, and needs nobody who\n"
        "tells it what is trained.\n\n"
        "Examples:\n"
        "  chaos join 127.0.0.1:7440 --dir b                          # another node, on the same machine\n"
        "  chaos join lab7.example.org:7440 --token WORD --data ~/texts\n"
        "  chaos join --dir b                                         # again\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::join(*options); }; });
}

void add_replay(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::ReplayOptions>();
    CLI::App* command = program.add_subcommand("replay", "Compute a cluster's run again, alone, and compare the bits");
    command->add_option("dirs", options->dirs, "A node's folder; further ones close gaps in its journal")
        ->required()
        ->type_name("DIR");
    command->add_option("--run", options->run_file, "The run file (default: that of the first folder's node)")
        ->type_name("RUN.toml");
    command->add_option("--from", options->from, "Begin with this checkpoint of the run (default: with its first step)")
        ->type_name("CHECKPOINT");
    command->footer(
        "Every committed step is computed again with the shares and the order of sums of its view: a sample that was\n"
        "dropped or taken twice shows. Exit code 1: something was not the same.\n\n"
        "Examples:\n"
        "  chaos replay a b c --run run.toml\n"
        "  chaos replay b a --from b/checkpoints/step-000000000500.safetensors    # b joined later\n");
    command->callback([&job, options] {
        job = [options]() -> Result<void> {
            const auto same = chaos::cli::replay(*options);
            if (!same) return chaos::Error{same.error().message};
            if (!*same) std::exit(1);
            return {};
        };
    });
}

void add_export(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::ExportOptions>();
    CLI::App* command = program.add_subcommand("export", "Write a trained llama as a Hugging Face folder");
    command->add_option("run", options->run_folder, "The run's folder (--dir of train)")->required()->type_name("RUN");
    command->add_option("target", options->target, "The folder to write; must be new or empty")
        ->required()
        ->type_name("DIR");
    command->add_flag("--best", options->best, "The checkpoint with the smallest held-out loss, not the newest");
    command->footer("Example:\n  chaos export shakespeare model-dir --best\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::export_model(*options); }; });
}

// "A..B", the seeds A to B - 1.
bool read_seeds(const std::string& text, chaos::cli::SimOptions& options) {
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) return false;
    const char* end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), text.data() + dots, options.first_seed);
    const auto last = std::from_chars(text.data() + dots + 2, end, options.last_seed);
    options.sweep =
        first.ec == std::errc() && first.ptr == text.data() + dots && last.ec == std::errc() && last.ptr == end;
    return options.sweep;
}

void add_sim(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::SimOptions>();
    CLI::App* command = program.add_subcommand("sim", "Try to break the cluster's protocol in a simulation");
    command->add_option("--seed", options->seed, "The run of this seed; the same on every machine")->type_name("N");
    auto seeds = std::make_shared<std::string>();
    command->add_option("--seeds", *seeds, "All runs of the seeds A to B - 1, on all cores")->type_name("A..B");
    command->add_option("--nodes", options->nodes, "Nodes at the start (default: the seed decides, 2 to 40)")
        ->type_name("N");
    command
        ->add_option("--scenario", options->scenario,
                     "churn, partition, flashcrowd, wan, liar, blackout, freeze, links, institutions, lossy, single,\n"
                     "calm, scale, or mixed (default): the seed decides")
        ->type_name("NAME");
    command->add_option("--policy", options->policy, "strict or continue: what a side without a quorum does")
        ->type_name("NAME");
    command->add_option("--seconds", options->seconds, "For how long things go wrong, in virtual seconds")
        ->type_name("S");
    command->add_option("--report", options->report, "Draw what happened in the run of --seed")->type_name("OUT.html");
    command->add_flag("--trace", options->trace, "Print what each node does");
    command->add_flag("--keep-going", options->keep_going, "With --seeds: print every failure, not only the first");
    auto compare = std::make_shared<chaos::cli::CompareOptions>();
    command->add_flag("--compare", compare->wanted,
                      "Instead: how long scale-out takes by Chaos and its rivals, on the same links");
    command->add_option("--markdown", compare->markdown, "With --compare: write all its tables as a page")
        ->type_name("OUT.md");
    command->footer(
        "Exit code 1: an invariant was broken; what is printed replays it.\n\n"
        "Examples:\n"
        "  chaos sim --seed 7 --trace\n"
        "  chaos sim --seeds 0..2000\n"
        "  chaos sim --seed 3 --scenario partition --policy continue --nodes 12 --report out.html\n"
        "  chaos sim --compare --markdown docs/scale-out.md\n");
    command->callback([&job, command, options, seeds, compare] {
        if (!seeds->empty() && !read_seeds(*seeds, *options))
            throw CLI::ValidationError("--seeds", "takes A..B, e.g. 0..2000");
        if (!compare->wanted && !compare->markdown.empty())
            throw CLI::ValidationError("--markdown", "is the page that --compare makes");
        if (compare->wanted) {
            for (const CLI::Option* option : command->get_options())
                if (const std::string& name = option->get_name();
                    option->count() > 0 && name != "--compare" && name != "--seeds" && name != "--markdown")
                    throw CLI::ValidationError(name, "means nothing with --compare");
            if (options->sweep) {
                compare->first_seed = options->first_seed;
                compare->last_seed = options->last_seed;
            }
            job = [compare] { return chaos::cli::compare_scale_out(*compare); };
            return;
        }
        job = [options]() -> Result<void> {
            const auto held = chaos::cli::simulate(*options);
            if (!held) return chaos::Error{held.error().message};
            if (!*held) std::exit(1);
            return {};
        };
    });
}

void add_key(CLI::App& program, Job& job) {
    CLI::App* command = program.add_subcommand("key", "This node's key, which its id comes from");
    command->require_subcommand(1);
    auto dir = std::make_shared<std::filesystem::path>();
    CLI::App* make = command->add_subcommand("new", "Make it; never replaces one");
    make->callback([&job, dir] { job = [dir] { return chaos::cli::new_key(*dir); }; });
    CLI::App* show = command->add_subcommand("show", "Show its public half");
    show->callback([&job, dir] { job = [dir] { return chaos::cli::show_key(*dir); }; });
    for (CLI::App* one : {make, show})
        one->add_option("--dir", *dir, "The node's folder (default: $CHAOS_HOME, else ~/.chaos)")->type_name("DIR");
    command->footer(
        "A node makes its key when it first starts. Make it before that to have an institution vouch for it: the key\n"
        "lies in the node's folder, readable by you alone.\n\n"
        "Example:\n"
        "  chaos key new --dir runs/a                        # then: chaos institution invite NAME --node KEY\n");
}

constexpr const char* dir_help = "The node's folder (default: $CHAOS_DIR, else here or the only one below)";

void add_institution(CLI::App& program, Job& job) {
    CLI::App* command = program.add_subcommand("institution", "Whom your institution vouches for");
    command->require_subcommand(1);
    auto name = std::make_shared<std::string>();
    CLI::App* make = command->add_subcommand("new", "Make an institution's root key, on its own machine");
    make->add_option("name", *name, "Its name, e.g. charite")->required()->type_name("NAME");
    make->callback([&job, name] { job = [name] { return chaos::cli::new_institution(*name); }; });
    command->add_subcommand("show", "List the institutions whose root keys are here, and what they have issued")
        ->callback([&job] { job = chaos::cli::show_institutions; });
    auto options = std::make_shared<chaos::cli::InviteOptions>();
    CLI::App* invite =
        command->add_subcommand("invite", "Let a node in: print a one-time join token, or a certificate");
    invite->add_option("name", options->institution, "The institution")->required()->type_name("NAME");
    invite->add_option("--node", options->node, "A certificate for the node with this key (chaos key show)")
        ->type_name("KEY");
    invite->add_option("--days", options->days, "For how long (default: a token 7, a certificate 365)")
        ->check(CLI::PositiveNumber)
        ->type_name("N");
    invite->callback([&job, options] { job = [options] { return chaos::cli::invite(*options); }; });
    for (const bool admit : {true, false}) {
        auto changing = std::make_shared<chaos::cli::InstitutionOptions>();
        changing->admit = admit;
        CLI::App* change = command->add_subcommand(
            admit ? "admit" : "remove", admit ? "Let an institution's nodes into the cluster of a running node"
                                              : "Take an institution out of it, with its nodes");
        change->add_option("root", changing->root, "Its public root key (chaos institution show, on its machine)")
            ->required()
            ->type_name("ROOT");
        change->add_option("--dir", changing->dir, dir_help)->type_name("DIR");
        change->callback([&job, changing] { job = [changing] { return chaos::cli::change_institution(*changing); }; });
    }
    auto revoking = std::make_shared<chaos::cli::RevokeOptions>();
    CLI::App* revoke =
        command->add_subcommand("revoke", "Withdraw a node, or a token with whoever came in by it, for good");
    revoke
        ->add_option("key", revoking->key,
                     "The node's or the token's key (chaos institution show), or the word that this printed")
        ->required()
        ->type_name("KEY|WORD");
    revoke->add_option("--name", revoking->institution, "The institution (default: the one that invited it)")
        ->type_name("NAME");
    revoke->add_option("--dir", revoking->dir, "A running node's folder: the node brings it to its cluster")
        ->type_name("DIR");
    revoke->callback([&job, revoking] { job = [revoking] { return chaos::cli::revoke(*revoking); }; });
    command->footer(
        "Root keys are kept in $CHAOS_HOME/institutions, else in ~/.chaos/institutions, readable by you alone.\n"
        "A join token is a secret: hand it to one node only. A revocation is none: it is one word, signed with the "
        "root\n"
        "key, that any member may bring to the cluster. It cannot be taken back.\n"
        "An institution comes in, or goes, when a majority of the others asks for it, each through a node of its own;\n"
        "each may take itself out.\n\n"
        "Examples:\n"
        "  chaos institution new charite\n"
        "  chaos institution invite charite                          # a token for whoever is to join\n"
        "  chaos institution invite charite --node KEY --days 90     # a certificate for that node\n"
        "  chaos institution show                                    # whom it has invited\n"
        "  chaos institution revoke KEY --dir runs/a                 # that node or token is no longer yours\n"
        "  chaos institution admit ROOT --dir runs/a                 # another institution's nodes may join\n");
}

void add_status(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::StatusOptions>();
    CLI::App* command = program.add_subcommand("status", "Show what a running node does, and with whom");
    command->add_option("--dir", options->dir, dir_help)->type_name("DIR");
    command->add_flag("--json", options->json, "Print JSON, one object per line; docs/control.md lists its fields");
    command->add_flag("--watch", options->watch, "Go on showing it, as it changes");
    command->footer(
        "A * marks the node itself, and its links.\n\n"
        "Examples:\n"
        "  chaos status --watch\n"
        "  chaos status --dir runs/a --json | jq .step\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::show_status(*options); }; });
}

void add_events(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::EventsOptions>();
    CLI::App* command = program.add_subcommand("events", "List what a running node has seen happen");
    command->add_option("--dir", options->dir, dir_help)->type_name("DIR");
    command->add_option("--last", options->last, "Only the last N (default: all that it remembers)")->type_name("N");
    command->add_flag("--follow", options->follow, "Go on with what happens from now on");
    command->add_flag("--json", options->json, "Print JSON, one object per event; docs/control.md lists its fields");
    command->footer(
        "Each line has the time, the view it happened in, and what happened.\n\n"
        "Examples:\n"
        "  chaos events --last 20\n"
        "  chaos events --dir runs/a --follow --json\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::show_events(*options); }; });
}

void add_why(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::WhyOptions>();
    CLI::App* command = program.add_subcommand("why", "Let a running node say what it waits for, or what it refused");
    command->add_option("--dir", options->dir, dir_help)->type_name("DIR");
    command->add_flag("--json", options->json, "Print a JSON object");
    command->footer("Example:\n  chaos why --dir runs/a\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::show_why(*options); }; });
}

void add_leave(CLI::App& program, Job& job) {
    auto dir = std::make_shared<std::filesystem::path>();
    CLI::App* command = program.add_subcommand("leave", "Take a running node out of its cluster; training goes on");
    command->add_option("--dir", *dir, dir_help)->type_name("DIR");
    command->footer(
        "Returns when the node has left and its process is about to end. Interrupted with Ctrl-C, the node leaves all\n"
        "the same.\n\n"
        "Example:\n  chaos leave --dir runs/a\n");
    command->callback([&job, dir] { job = [dir] { return chaos::cli::leave(*dir); }; });
}

void add_recover(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::RecoverOptions>();
    CLI::App* command =
        program.add_subcommand("recover", "Let a --strict cluster go on when most of its members are lost for good");
    command->add_option("--dir", options->dir, dir_help)->type_name("DIR");
    command->add_flag("--force", options->force, "Do it; without this, only say what would be lost");
    command->footer(
        "Under the policy strict, members that do not reach a quorum wait for the others, because those might go on\n"
        "elsewhere. Where you know that they do not, and never will, one node that is told so is enough: all that it\n"
        "reaches go on with it. Where all were down and too few came back, they begin from their newest checkpoint.\n\n"
        "Examples:\n"
        "  chaos recover --dir runs/a                                 # who is missing, and what would be lost\n"
        "  chaos recover --dir runs/a --force\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::recover(*options); }; });
}

void add_link(CLI::App& program, Job& job) {
    CLI::App* command = program.add_subcommand("link", "Connect a running node with another, or disconnect them");
    command->require_subcommand(1);
    for (const bool add : {true, false}) {
        auto options = std::make_shared<chaos::cli::LinkOptions>();
        options->add = add;
        CLI::App* change = command->add_subcommand(
            add ? "add" : "remove", add ? "Agree on a link with another node" : "Give up a link with another node");
        change->add_option("a", options->a, "One end: a node's id, or the beginning of it")->required()->type_name("A");
        change->add_option("b", options->b, "The other end; one of both is the running node")
            ->required()
            ->type_name("B");
        change->add_option("--dir", options->dir, dir_help)->type_name("DIR");
        change->callback([&job, options] { job = [options] { return chaos::cli::change_link(*options); }; });
    }
    command->footer(
        "Examples:\n"
        "  chaos link add 4711ab01 93aa0177\n"
        "  chaos link remove 4711 93aa --dir runs/a\n");
}

void add_journal(CLI::App& program, Job& job) {
    CLI::App* command = program.add_subcommand("journal", "What nodes wrote down of a run");
    command->require_subcommand(1);
    auto dirs = std::make_shared<std::vector<std::filesystem::path>>();
    CLI::App* check = command->add_subcommand("check", "Whether what must always be true was true");
    check->add_option("dirs", *dirs, "Folders of nodes of one cluster (--dir of up)")->required()->type_name("DIR");
    check->callback([&job, dirs] {
        job = [dirs]() -> Result<void> {
            const auto sound = chaos::cli::check_journals(*dirs);
            if (!sound) return chaos::Error{sound.error().message};
            if (!*sound) std::exit(1);
            return {};
        };
    });
    auto options = std::make_shared<chaos::cli::ShowJournalOptions>();
    CLI::App* show = command->add_subcommand("show", "Print a journal, entry by entry");
    show->add_option("dir", options->dir, "A node's folder")->required()->type_name("DIR");
    show->add_flag("--json", options->json, "One JSON object per entry, for programs");
    show->callback([&job, options] { job = [options] { return chaos::cli::show_journal(*options); }; });
    command->footer(
        "Exit code 1 of check: an invariant was broken. docs/journal.md says what is checked.\n\n"
        "Examples:\n"
        "  chaos journal check nodes/*\n"
        "  chaos journal show nodes/1 --json\n");
}

// OpenMP's threads spin for milliseconds when they wait. On a machine that others use too, that halves the speed of
// training or worse; spinning for some microseconds and then sleeping costs nothing. The runtime reads this when the
// process starts, so a process that is going to train starts once more. A user's own setting stands.
void restart_with_short_spins(char** argv) {
    if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
    ::setenv("GOMP_SPINCOUNT", "20000", 1);
    ::execv("/proc/self/exe", argv);  // where this fails, training is only slower
}

// CLI11 only says that a word was not expected; a mistyped command deserves better.
bool explain_unknown_command(const CLI::App& program, std::string_view word) {
    std::vector<std::string> names;
    for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
    const std::vector<std::string_view> views(names.begin(), names.end());
    for (const std::string_view name : views)
        if (name == word) return false;
    const std::string nearest = chaos::nearest_word(word, views);
    std::fprintf(stderr, "chaos: there is no command \"%.*s\"; %s\n", static_cast<int>(word.size()), word.data(),
                 nearest.empty() ? ("the commands are " + chaos::one_of(views)).c_str()
                                 : ("did you mean \"" + nearest + "\"?").c_str());
    return true;
}

int run(int argc, char** argv) {
    CLI::App program("Chaos trains models on machines that come and go, with nobody in charge.", "chaos");
    program.set_version_flag("--version", "chaos " CHAOS_VERSION);
    program.require_subcommand(1);
    program.footer(
        "Examples:\n"
        "  chaos train examples/shakespeare.toml --plot\n"
        "  chaos export shakespeare model-dir\n"
        "  chaos generate model-dir --prompt \"Once \"\n"
        "  chaos serve model-dir\n"
        "  chaos sim --seeds 0..2000\n\n"
        "chaos COMMAND --help explains a command.");
    Job job;
    add_train(program, job);
    add_up(program, job);
    add_join(program, job);
    add_replay(program, job);
    add_export(program, job);
    chaos::add_model_commands(program, job);
    add_sim(program, job);
    add_key(program, job);
    add_institution(program, job);
    add_status(program, job);
    add_events(program, job);
    add_why(program, job);
    add_leave(program, job);
    add_link(program, job);
    add_recover(program, job);
    add_journal(program, job);

    if (argc > 1 && argv[1][0] != '-' && explain_unknown_command(program, argv[1])) return exit_error;
    if (argc == 1) {
        std::fputs(program.help().c_str(), stdout);
        return 0;
    }
    const std::string_view named = argc > 1 ? argv[1] : "";
    if (named == "train" || named == "up" || named == "join" || named == "replay") restart_with_short_spins(argv);
    try {
        program.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return program.exit(error) == 0 ? 0 : exit_error;
    }
    if (const Result<void> done = job(); !done) {
        std::fprintf(stderr, "chaos: %s\n", done.error().message.c_str());
        return exit_error;
    }
    return 0;
}

// Where a mapped file became shorter there is nothing to go on with; but whoever did that shall know why this ended.
void say_what_was_cut(int) {
    constexpr std::string_view words =
        "chaos: a file was cut while it was in use, or its disk fails; put it back and start again\n";
    (void)!::write(STDERR_FILENO, words.data(), words.size());
    std::signal(SIGBUS, SIG_DFL);  // the same access ends the process now
}

}  // namespace

int main(int argc, char** argv) {
    // A write beyond the allowed file size is an error to report, like a full disk, not a reason to die.
    std::signal(SIGXFSZ, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGBUS, say_what_was_cut);
    try {
        return run(argc, argv);
    } catch (const std::bad_alloc&) {
        std::fputs("chaos: this machine does not have enough memory for that\n", stderr);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "chaos: %s\n", error.what());
    }
    return exit_error;
}
