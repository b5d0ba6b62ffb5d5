// chaos-testbed: the testbed by command, for people and scripts.
#include "base/file.h"
#include "testbed/keeper.h"
#include "testbed/network.h"
#include "testbed/testbed.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace chaos::testbed {
namespace {

struct Arguments {
    std::string name;  // of the testbed
    std::string file;
    std::string a;
    std::string b;
    std::vector<std::string> command;
    double rate_mbit = 0.0;
    bool one_way = false;
    std::optional<pid_t> owner;
};

Result<std::string> chosen_name(const Arguments& arguments) {
    if (!arguments.name.empty()) return arguments.name;
    const std::vector<std::string> names = living_testbeds();
    if (names.size() == 1) return names.front();
    if (names.empty()) return Error{"no testbed is up; start one with: chaos-testbed up FILE"};
    std::string list;
    for (const std::string& name : names) list += " " + name;
    return Error{"several testbeds are up; choose one with --name:" + list};
}

Result<Testbed> chosen(const Arguments& arguments) {
    CHAOS_TRY(const std::string name, chosen_name(arguments));
    return Testbed::attach(name);
}

Result<void> up(const Arguments& arguments) {
    CHAOS_TRY(const std::string text, read_file(arguments.file));
    CHAOS_TRY(Spec spec, parse_spec(text, arguments.file));
    if (!arguments.name.empty()) spec.name = arguments.name;
    CHAOS_CHECK(Testbed::leave(spec));
    for (std::size_t i = 0; i < spec.hosts.size(); ++i) {
        std::printf("%-12s %s %s\n", spec.hosts[i].name.c_str(), address4(i).c_str(), address6(i).c_str());
    }
    return {};
}

Result<void> down(const Arguments& arguments) {
    CHAOS_TRY(const std::string name, chosen_name(arguments));
    CHAOS_TRY(const bool removed, remove_testbed(name));
    if (!removed) return Error{"no testbed called \"" + name + "\" is up"};
    return {};
}

Result<void> execute(const Arguments& arguments) {
    CHAOS_TRY(const Testbed testbed, chosen(arguments));
    return testbed.become(arguments.a, arguments.command);
}

Result<void> cut(const Arguments& arguments) {
    CHAOS_TRY(Testbed testbed, chosen(arguments));
    if (arguments.b.empty()) return testbed.isolate(arguments.a);
    return arguments.one_way ? testbed.cut_one_way(arguments.a, arguments.b) : testbed.cut(arguments.a, arguments.b);
}

Result<void> heal(const Arguments& arguments) {
    CHAOS_TRY(Testbed testbed, chosen(arguments));
    return arguments.b.empty() ? testbed.heal_host(arguments.a) : testbed.heal(arguments.a, arguments.b);
}

Result<void> rate(const Arguments& arguments) {
    CHAOS_TRY(Testbed testbed, chosen(arguments));
    return arguments.one_way ? testbed.set_rate_one_way(arguments.a, arguments.b, arguments.rate_mbit)
                             : testbed.set_rate(arguments.a, arguments.b, arguments.rate_mbit);
}

Result<void> signal_host(const Arguments& arguments, int number) {
    CHAOS_TRY(const Testbed testbed, chosen(arguments));
    return testbed.signal(arguments.a, number);
}

int run(int count, char** words) {
    CLI::App app("A network in a box: hosts and links on one machine, from a small TOML file.", "chaos-testbed");
    app.require_subcommand(1);
    Arguments arguments;
    Result<void> result;
    app.add_option("--name", arguments.name, "which testbed; needed when several are up");
    const auto command = [&](const char* name, const char* help, Result<void> (*act)(const Arguments&)) {
        CLI::App* added = app.add_subcommand(name, help);
        added->fallthrough();
        added->callback([&result, &arguments, act] { result = act(arguments); });
        return added;
    };
    const auto ends = [&](CLI::App* added, bool b_required) {
        added->add_option("A", arguments.a, "a host")->required();
        added->add_option("B", arguments.b, "a host it is linked to")->required(b_required);
    };

    command("up", "build the testbed of FILE; it stays until it is taken down", up)
        ->add_option("FILE", arguments.file)
        ->required();
    command("down", "end everything in the testbed and remove it", down);

    CLI::App* exec = command("exec", "run a command in a host: exec HOST -- COMMAND...", execute);
    exec->add_option("HOST", arguments.a)->required();
    exec->add_option("COMMAND", arguments.command)->required();

    CLI::App* cut_command = command("cut", "drop everything between A and B; without B: isolate A", cut);
    ends(cut_command, false);
    cut_command->add_flag("--one-way", arguments.one_way, "only from A to B");
    ends(command("heal", "undo cuts and changed rates between A and B; without B: on all links of A", heal), false);
    CLI::App* rate_command = command("rate", "change the rate between A and B", rate);
    ends(rate_command, true);
    rate_command->add_option("MBIT", arguments.rate_mbit, "Mbit/s")->required();
    rate_command->add_flag("--one-way", arguments.one_way, "only from A to B");

    command("freeze", "stop every process in a host", [](const Arguments& a) { return signal_host(a, SIGSTOP); })
        ->add_option("HOST", arguments.a)
        ->required();
    command("thaw", "let them go on", [](const Arguments& a) { return signal_host(a, SIGCONT); })
        ->add_option("HOST", arguments.a)
        ->required();
    command("kill", "kill every process in a host", [](const Arguments& a) { return signal_host(a, SIGKILL); })
        ->add_option("HOST", arguments.a)
        ->required();

    // What the library starts: it reads the spec from its standard input.
    int keeper_code = 0;
    CLI::App* keep = app.add_subcommand("keep", "")->group("");
    keep->add_option("--owner", arguments.owner);
    keep->callback([&] {
        const std::string text(std::istreambuf_iterator<char>(std::cin), {});
        const Result<Spec> spec = parse_spec(text, "the testbed");
        if (spec.ok()) keeper_code = keep_testbed(*spec, arguments.owner);
        if (!spec.ok()) result = spec.error();
    });

    try {
        app.parse(count, words);
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    }
    if (result.ok()) return keeper_code;
    std::fprintf(stderr, "chaos-testbed: %s\n", result.error().message.c_str());
    return 1;
}

}  // namespace
}  // namespace chaos::testbed

int main(int count, char** words) {
    try {
        return chaos::testbed::run(count, words);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "chaos-testbed: %s\n", error.what());
        return 1;
    }
}
