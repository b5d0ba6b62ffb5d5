// OpenAI's API as values: request bodies become tasks, events become answers. No sockets, no clock.
//
// Parameters that are not known are ignored, as compatible servers do; a known one of the wrong type is refused by its
// name; one that would change the answer but is not supported (several answers at once, tools, a response format) is
// refused when it is used. null counts as absent.
#pragma once

#include "serve/generator.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace chaos::serve {

inline constexpr int max_body_depth = 64;
inline constexpr std::size_t max_body_names = 2048;  // in one object
// Arrays and objects, which take many times the memory of their two bytes of text.
inline constexpr std::size_t max_body_lists = std::size_t{1} << 17;
inline constexpr std::size_t max_messages = 16384;
inline constexpr std::size_t max_stops = 16;
inline constexpr std::size_t max_stop_bytes = 1024;
inline constexpr std::size_t max_biased_tokens = 1024;
inline constexpr std::size_t max_top_logprobs = 20;

struct ApiError {
    unsigned status = 400;
    std::string message;
    std::string param;  // empty: none
    std::string code;   // likewise
    std::string type = "invalid_request_error";
};
// {"error": {"message", "type", "param", "code"}}
[[nodiscard]] std::string error_body(const ApiError& error);

enum class Form { chat, text };  // /v1/chat/completions, /v1/completions

[[nodiscard]] ApiError api_error(Form form, const Failed& failed);

struct Ask {
    Task task;
    bool stream = false;
    bool include_usage = false;  // at the end of the stream
};
[[nodiscard]] std::variant<Ask, ApiError> parse_ask(Form form, std::string_view body, const Facts& facts);

[[nodiscard]] std::string models_body(const Facts& facts);
[[nodiscard]] std::string model_body(const Facts& facts);
[[nodiscard]] ApiError no_such_model(const std::string& name, const Facts& facts);

// Writes one answer: as a whole, or as a stream of server-sent events.
class AnswerWriter {
public:
    // `id` distinguishes answers; `created` is in seconds since 1970.
    AnswerWriter(Form form, const Ask& ask, const Facts& facts, const std::string& id, std::int64_t created);

    // Where texts say at which character each token begins, they count from the prompt's first.
    void begin(const Begun& begun) { offset_ = begun.prompt_characters; }

    [[nodiscard]] std::string whole(const std::vector<Piece>& pieces, const Finished& finished);

    [[nodiscard]] std::string first_event() const;
    [[nodiscard]] std::string event(const Piece& piece);
    [[nodiscard]] std::string last_events(const Finished& finished) const;  // with [DONE]
    [[nodiscard]] static std::string error_event(const ApiError& error);

private:
    [[nodiscard]] nlohmann::json heading() const;
    [[nodiscard]] nlohmann::json logprobs(const std::vector<ChosenToken>& tokens);
    [[nodiscard]] std::string chunk(nlohmann::json choice) const;

    Form form_;
    bool logprobs_;
    bool stream_;
    bool include_usage_;
    std::string id_;
    std::string model_;
    std::int64_t created_;
    std::size_t offset_ = 0;  // of the next token in prompt and text, in characters
};

}  // namespace chaos::serve
