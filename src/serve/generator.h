// serve/ lets programs and people talk to a model over HTTP. It may call base, text, infer and net; cli calls it.
//
//   http.h        HTTP/1.1: connections, limits, streams              (no JSON)
//   api.h         OpenAI's requests and answers as values             (no sockets)
//   service.h     routes, keys, metrics: which request gets which answer
//   generator.h   a model as the API sees it: a task in, events out   (an interface; tests have one that recites)
//   model_generator.h   the one that computes: many tasks in one batch (waiting.h: whose turn it is)
//
//   HTTP loop ──start(task)──► text thread: template, tokens ──► engine thread: batches
//             ◄──────────────────── events: Begun, Piece..., Finished or Failed ◄──┘
#pragma once

#include "text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace chaos::serve {

using text::TokenId;

// How the next token is chosen. Logits are changed by bias and penalties, then divided by the temperature.
struct Sampling {
    double temperature = 1.0;  // 0: always the likeliest
    double top_p = 1.0;        // among the likeliest whose chances add up to this
    std::int64_t top_k = 0;    // among so many of the likeliest; 0: among all
    double min_p = 0.0;        // among those at least so likely, relative to the likeliest
    double presence_penalty = 0.0;
    double frequency_penalty = 0.0;
    std::map<TokenId, double> bias;
    std::optional<std::uint64_t> seed;  // none: any
};

// Messages as OpenAI's API has them, each an object with "role" and "content"; the model's chat template renders them.
struct Conversation {
    nlohmann::ordered_json messages;
    // More names that the template knows, like {"enable_thinking": false}.
    nlohmann::ordered_json variables = nlohmann::ordered_json::object();
};

struct Task {
    std::variant<Conversation, std::string, std::vector<TokenId>> prompt;
    std::optional<std::size_t> max_tokens;  // none: to the end of the context
    Sampling sampling;
    std::vector<std::string> stop;  // texts that end the answer and do not belong to it
    bool logprobs = false;
    std::size_t top_logprobs = 0;
    bool ignore_end = false;  // go on after the model's end of text
    std::string client;       // who asks: all of them get the same share
};

struct TokenChance {
    std::string bytes;  // may be part of a character
    double logprob = 0.0;
};
struct ChosenToken {
    TokenChance chance;
    std::vector<TokenChance> top;  // likeliest first
};

// The prompt has been understood, and the task waits for its turn.
struct Begun {
    std::size_t prompt_tokens = 0;
    std::size_t prompt_characters = 0;  // of a text whose tokens' chances are asked for
};
// Whole characters.
struct Piece {
    std::string text;
    std::vector<ChosenToken> tokens;  // if asked for
};
struct Finished {
    enum class Reason { stop, length };  // length: of max_tokens, or of the context
    Reason reason = Reason::stop;
    std::size_t prompt_tokens = 0;
    std::size_t cached_tokens = 0;  // of the prompt, that an earlier task had computed
    std::size_t completion_tokens = 0;
};
struct Failed {
    enum class Kind { prompt, too_long, engine };  // the prompt cannot be rendered; it leaves no room for an answer
    Kind kind = Kind::engine;
    std::string message;
};
// Begun, pieces, Finished; or Failed at any time. Nothing follows Finished and Failed.
using Event = std::variant<Begun, Piece, Finished, Failed>;
using Sink = std::function<void(Event)>;

struct Facts {
    std::string model;         // its name
    std::int64_t created = 0;  // seconds since 1970
    std::size_t context = 0;   // tokens of prompt and answer
    std::size_t vocab = 0;
    bool chat = false;           // it has a chat template
    std::string chat_problem{};  // why it has none that can be used, where it has one
};

struct Load {
    std::size_t running = 0;
    std::size_t waiting = 0;
    std::uint64_t prompt_tokens = 0;  // computed since the start
    std::uint64_t cached_tokens = 0;  // that need not be computed
    std::uint64_t completion_tokens = 0;
    std::uint64_t batches = 0;
};

using Ticket = std::uint64_t;
struct Busy {
    unsigned retry_after_s = 1;
};

// Everything may be called from any thread and returns soon.
class Generator {
public:
    virtual ~Generator() = default;
    [[nodiscard]] virtual const Facts& facts() const = 0;
    // `sink` is called from threads of the generator, in order, perhaps before start() returns. It returns soon.
    [[nodiscard]] virtual std::variant<Ticket, Busy> start(Task task, Sink sink) = 0;
    // The task's events end; one may be under way. Unknown tickets are those of tasks that have ended.
    virtual void cancel(Ticket ticket) = 0;
    [[nodiscard]] virtual Load load() const = 0;
};

}  // namespace chaos::serve
