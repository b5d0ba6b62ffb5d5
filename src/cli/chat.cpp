#include "cli/chat_model.h"
#include "cli/commands.h"

#include <unistd.h>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>

namespace chaos::cli {
namespace {

using serve::Event;
using Json = nlohmann::ordered_json;

// Set by Ctrl-C.
volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
    interrupted = 1;
}

// Ctrl-C ends what is under way: reading a line, or an answer.
class Interrupts {
public:
    Interrupts() {
        struct sigaction action{};
        action.sa_handler = on_interrupt;
        ::sigaction(SIGINT, &action, &before_);
    }
    ~Interrupts() { ::sigaction(SIGINT, &before_, nullptr); }
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;

private:
    struct sigaction before_{};
};

enum class Line { read, given_up, end };

// Byte by byte: what comes behind the line is for the next call, and Ctrl-C is noticed.
Line read_line(std::string& line) {
    line.clear();
    while (true) {
        char letter = 0;
        const ssize_t got = ::read(STDIN_FILENO, &letter, 1);
        if (got < 0 && errno == EINTR && interrupted == 0) continue;
        if (got < 0 && errno == EINTR) return Line::given_up;
        if (got <= 0) return line.empty() ? Line::end : Line::read;
        if (letter == '\n') return Line::read;
        line += letter;
    }
}

// What the generator's thread tells the one that waits.
class Reply {
public:
    void take(Event event) {
        const std::scoped_lock lock(mutex_);
        if (const auto* piece = std::get_if<serve::Piece>(&event)) {
            text_ += piece->text;
            std::fputs(piece->text.c_str(), stdout);
            std::fflush(stdout);
        }
        if (const auto* failed = std::get_if<serve::Failed>(&event)) failure_ = failed->message;
        if (const auto* end = std::get_if<serve::Finished>(&event)) finished_ = *end;
        if (!failure_.empty() || finished_) changed_.notify_all();
    }
    // False: Ctrl-C came first.
    bool wait() {
        std::unique_lock lock(mutex_);
        // A signal wakes nobody here, so that it is looked for.
        while (failure_.empty() && !finished_ && interrupted == 0)
            changed_.wait_for(lock, std::chrono::milliseconds(20));
        return interrupted == 0;
    }
    [[nodiscard]] std::string text() const {
        const std::scoped_lock lock(mutex_);
        return text_;
    }
    [[nodiscard]] std::string failure() const {
        const std::scoped_lock lock(mutex_);
        return failure_;
    }
    [[nodiscard]] bool cut_off() const {
        const std::scoped_lock lock(mutex_);
        return finished_ && finished_->reason == serve::Finished::Reason::length;
    }

private:
    mutable std::mutex mutex_;  // of what the generator's thread writes and the other reads
    std::condition_variable changed_;
    std::string text_;
    std::string failure_;
    std::optional<serve::Finished> finished_;
};

// Says what there is to say, and adds it to the messages.
void answer(serve::Generator& generator, const ChatOptions& options, Json& messages) {
    serve::Task task;
    task.prompt = serve::Conversation{messages};
    task.sampling.temperature = options.temperature;
    task.sampling.seed = options.seed;
    task.max_tokens = options.max_tokens;
    const auto said = std::make_shared<Reply>();  // an event may be under way when this returns
    const auto started = generator.start(std::move(task), [said](Event event) { said->take(std::move(event)); });
    const auto* ticket = std::get_if<serve::Ticket>(&started);
    CHAOS_ASSERT(ticket != nullptr);  // nobody else asks
    if (!said->wait()) generator.cancel(*ticket);
    std::printf("\n\n");
    const std::string failure = said->failure();
    if (!failure.empty()) std::fprintf(stderr, "chaos: %s\n", failure.c_str());
    if (said->cut_off()) std::fprintf(stderr, "(cut off: there is room for no more tokens)\n");
    if (failure.empty())
        messages.push_back({{"role", "assistant"}, {"content", said->text()}});
    else
        messages.erase(messages.size() - 1);  // what cannot be answered would stand in the way of all that follows
}

}  // namespace

Result<void> chat(const ChatOptions& options) {
    CHAOS_TRY(auto file, infer::ModelFile::open(options.model));
    CHAOS_TRY(const auto model, ChatModel::load(std::move(file), options.model, options.compute));
    serve::Generator& generator = model->generator();
    if (const std::string& problem = generator.facts().chat_problem; !problem.empty())
        return Error{"the chat template cannot be used: " + problem + "; `chaos generate` continues texts"};
    if (!generator.facts().chat)
        return Error{options.model.string() + " has no chat template; `chaos generate` continues texts"};
    const bool terminal = ::isatty(STDIN_FILENO) == 1;
    if (terminal)
        std::printf("%s. Ctrl-C stops an answer, /new begins a new conversation, Ctrl-D ends.\n\n",
                    generator.facts().model.c_str());
    Json beginning = Json::array();
    if (!options.system.empty()) beginning.push_back({{"role", "system"}, {"content", options.system}});
    Json messages = beginning;
    const Interrupts interrupts;
    std::string line;
    while (true) {
        interrupted = 0;
        if (terminal) std::printf("> ");
        std::fflush(stdout);
        const Line how = read_line(line);
        if (how == Line::end) break;
        if (how == Line::given_up) {
            std::printf("\n(Ctrl-D ends)\n");
            continue;
        }
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        if (line == "/new") {
            messages = beginning;
            continue;
        }
        messages.push_back({{"role", "user"}, {"content", line}});
        answer(generator, options, messages);
    }
    if (terminal) std::printf("\n");
    return {};
}

}  // namespace chaos::cli
