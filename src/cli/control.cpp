// Commands to a running node: each asks through its control socket and shows the answer.
#include "cli/commands.h"
#include "cli/node_folder.h"
#include "cli/show_status.h"
#include "node/ask.h"

#include <nlohmann/json.hpp>

#include <sys/ioctl.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace chaos::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// For answers that a node has at hand. A busy loop or a busy machine may take seconds.
constexpr std::chrono::milliseconds patience{10'000};
// For what others have to agree on, of which the node hears within half a minute (cluster/joining.cpp).
constexpr std::chrono::milliseconds link_patience{60'000};

Result<void> print(const std::string& text) {
    if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return {};
    return Error{std::string("cannot write to the standard output: ") + std::strerror(errno)};
}

Result<void> print_json(const json& line) {
    return print(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

// `waits`: the answer comes when something has happened, however long that takes.
Result<void> ask_node(const fs::path& dir, const json& request, bool waits, const node::OnLine& on_line,
                      std::chrono::milliseconds limit = patience) {
    // When nobody reads the output any more (| head), this command ends like any other.
    std::signal(SIGPIPE, SIG_DFL);
    const char* preset = std::getenv("CHAOS_DIR");
    CHAOS_TRY(const fs::path folder, node_folder(dir, preset != nullptr ? preset : ""));
    return node::ask(folder, request, on_line, waits ? std::nullopt : std::optional(limit));
}

std::string redrawn_here(const std::string& text) {
    winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    return redrawn(text, known ? size.ws_row : 24, known ? size.ws_col : 80);
}

}  // namespace

Result<void> show_status(const StatusOptions& options) {
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    bool first = true;
    const auto show = [&](const json& status) -> Result<void> {
        if (options.json) return print_json(status);
        const bool begins = std::exchange(first, false);
        if (options.watch && terminal) return print((begins ? "\033[2J" : "") + redrawn_here(status_text(status)));
        return print((begins ? "" : "\n") + status_text(status));
    };
    return ask_node(options.dir, {{"command", "status"}, {"watch", options.watch}}, options.watch, show);
}

Result<void> show_events(const EventsOptions& options) {
    json request = {{"command", "events"}, {"follow", options.follow}};
    if (options.last) request["last"] = *options.last;
    const auto show = [&options](const json& event) {
        return options.json ? print_json(event) : print(event_text(event));
    };
    return ask_node(options.dir, request, options.follow, show);
}

Result<void> show_why(const WhyOptions& options) {
    const auto show = [&options](const json& why) { return options.json ? print_json(why) : print(why_text(why)); };
    return ask_node(options.dir, {{"command", "why"}}, false, show);
}

Result<void> leave(const std::filesystem::path& dir) {
    return ask_node(dir, {{"command", "leave"}}, true, [](const json& line) { return print(text_line(line)); });
}

Result<void> recover(const RecoverOptions& options) {
    return ask_node(options.dir, {{"command", "recover"}, {"force", options.force}}, options.force,
                    [](const json& line) { return print(text_line(line)); });
}

Result<void> change_institution(const InstitutionOptions& options) {
    const json request = {
        {"command", "institution"}, {"change", options.admit ? "admit" : "remove"}, {"root", options.root}};
    return ask_node(options.dir, request, true, [](const json& line) { return print(text_line(line)); });
}

Result<void> bring_revocation(const std::filesystem::path& dir, const std::string& word) {
    const json request = {{"command", "institution"}, {"change", "revoke"}, {"revocation", word}};
    return ask_node(dir, request, true, [](const json& line) { return print(text_line(line)); });
}

Result<void> change_link(const LinkOptions& options) {
    const json request = {
        {"command", "link"}, {"change", options.add ? "add" : "remove"}, {"a", options.a}, {"b", options.b}};
    return ask_node(
        options.dir, request, false, [](const json& line) { return print(text_line(line)); }, link_patience);
}

}  // namespace chaos::cli
