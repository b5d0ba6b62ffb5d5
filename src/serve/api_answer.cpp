#include "serve/api.h"

#include "text/utf8.h"

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

namespace chaos::serve {
namespace {

using nlohmann::json;

std::string text_of(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string event_of(const json& value) {
    return "data: " + text_of(value) + "\n\n";
}

json null_or(const std::string& text) {
    return text.empty() ? json() : json(text);
}

json error_json(const ApiError& error) {
    return {{"error",
             {{"message", error.message},
              {"type", error.type},
              {"param", null_or(error.param)},
              {"code", null_or(error.code)}}}};
}

const char* name_of(Finished::Reason reason) {
    return reason == Finished::Reason::stop ? "stop" : "length";
}

json usage_of(const Finished& finished) {
    return {{"prompt_tokens", finished.prompt_tokens},
            {"completion_tokens", finished.completion_tokens},
            {"total_tokens", finished.prompt_tokens + finished.completion_tokens},
            {"prompt_tokens_details", {{"cached_tokens", finished.cached_tokens}}}};
}

// A token need not be whole characters: OpenAI's API writes the bytes of others as \\xe2, and texts say so before.
std::string name_of(const std::string& bytes, Form form) {
    std::string name;
    std::string_view rest = bytes;
    while (true) {
        const std::size_t valid = text::valid_utf8_bytes(rest);
        name += rest.substr(0, valid);
        if (valid == rest.size()) break;
        std::array<char, 8> escaped{};
        std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(rest[valid]));
        name += escaped.data();
        rest.remove_prefix(valid + 1);
    }
    const bool whole = name == bytes;
    return form == Form::text && !whole ? "bytes:" + name : name;
}

json chance_of(const TokenChance& chance) {
    json bytes = json::array();
    for (const char byte : chance.bytes) bytes.push_back(static_cast<unsigned char>(byte));
    return {{"token", name_of(chance.bytes, Form::chat)}, {"logprob", chance.logprob}, {"bytes", std::move(bytes)}};
}

json chat_logprobs(const std::vector<ChosenToken>& tokens) {
    json content = json::array();
    for (const ChosenToken& token : tokens) {
        json entry = chance_of(token.chance);
        entry["top_logprobs"] = json::array();
        for (const TokenChance& chance : token.top) entry["top_logprobs"].push_back(chance_of(chance));
        content.push_back(std::move(entry));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json text_logprobs(const std::vector<ChosenToken>& tokens, std::size_t& offset) {
    json names = json::array();
    json logprobs = json::array();
    json tops = json::array();
    json offsets = json::array();
    for (const ChosenToken& token : tokens) {
        const std::string& bytes = token.chance.bytes;
        names.push_back(name_of(bytes, Form::text));
        logprobs.push_back(token.chance.logprob);
        json top = json::object();
        for (const TokenChance& chance : token.top) top[name_of(chance.bytes, Form::text)] = chance.logprob;
        tops.push_back(std::move(top));
        // What goes on with a character is where that is.
        const bool goes_on = !bytes.empty() && text::continues_character(bytes[0]) && offset > 0;
        offsets.push_back(goes_on ? offset - 1 : offset);
        offset += text::count_characters(bytes);
    }
    return {{"tokens", std::move(names)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", std::move(offsets)}};
}

json model_json(const Facts& facts) {
    return {{"id", facts.model},
            {"object", "model"},
            {"created", facts.created},
            {"owned_by", "chaos"},
            {"max_model_len", facts.context}};
}

}  // namespace

std::string error_body(const ApiError& error) {
    return text_of(error_json(error));
}

ApiError api_error(Form form, const Failed& failed) {
    const char* prompt = form == Form::chat ? "messages" : "prompt";
    switch (failed.kind) {
        case Failed::Kind::prompt:
            return {.message = failed.message, .param = prompt, .code = "invalid_prompt"};
        case Failed::Kind::too_long:
            return {.message = failed.message, .param = prompt, .code = "context_length_exceeded"};
        case Failed::Kind::engine:
            break;
    }
    return {.status = 500, .message = failed.message, .param = "", .code = "", .type = "server_error"};
}

std::string models_body(const Facts& facts) {
    return text_of({{"object", "list"}, {"data", json::array({model_json(facts)})}});
}

std::string model_body(const Facts& facts) {
    return text_of(model_json(facts));
}

AnswerWriter::AnswerWriter(Form form, const Ask& ask, const Facts& facts, const std::string& id, std::int64_t created)
    : form_(form),
      logprobs_(ask.task.logprobs),
      stream_(ask.stream),
      include_usage_(ask.include_usage),
      id_((form == Form::chat ? "chatcmpl-" : "cmpl-") + id),
      model_(facts.model),
      created_(created) {}

json AnswerWriter::heading() const {
    const char* object = form_ == Form::text ? "text_completion"
                         : stream_           ? "chat.completion.chunk"
                                             : "chat.completion";
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

json AnswerWriter::logprobs(const std::vector<ChosenToken>& tokens) {
    if (!logprobs_) return nullptr;
    return form_ == Form::chat ? chat_logprobs(tokens) : text_logprobs(tokens, offset_);
}

std::string AnswerWriter::chunk(json choice) const {
    choice["index"] = 0;
    json body = heading();
    body["choices"] = json::array({std::move(choice)});
    if (include_usage_) body["usage"] = nullptr;
    return event_of(body);
}

std::string AnswerWriter::whole(const std::vector<Piece>& pieces, const Finished& finished) {
    std::string text;
    std::vector<ChosenToken> tokens;
    for (const Piece& piece : pieces) {
        text += piece.text;
        tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    }
    json choice = {{"index", 0}, {"finish_reason", name_of(finished.reason)}, {"logprobs", logprobs(tokens)}};
    if (form_ == Form::chat)
        choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
    else
        choice["text"] = text;
    json body = heading();
    body["choices"] = json::array({std::move(choice)});
    body["usage"] = usage_of(finished);
    return text_of(body);
}

std::string AnswerWriter::first_event() const {
    if (form_ == Form::text) return {};
    return chunk(
        {{"delta", {{"role", "assistant"}, {"content", ""}}}, {"logprobs", nullptr}, {"finish_reason", nullptr}});
}

std::string AnswerWriter::event(const Piece& piece) {
    json choice = {{"logprobs", logprobs(piece.tokens)}, {"finish_reason", nullptr}};
    if (form_ == Form::chat)
        choice["delta"] = {{"content", piece.text}};
    else
        choice["text"] = piece.text;
    return chunk(std::move(choice));
}

std::string AnswerWriter::last_events(const Finished& finished) const {
    json choice = {{"logprobs", nullptr}, {"finish_reason", name_of(finished.reason)}};
    if (form_ == Form::chat)
        choice["delta"] = json::object();
    else
        choice["text"] = "";
    std::string events = chunk(std::move(choice));
    if (include_usage_) {
        json body = heading();
        body["choices"] = json::array();
        body["usage"] = usage_of(finished);
        events += event_of(body);
    }
    return events + "data: [DONE]\n\n";
}

std::string AnswerWriter::error_event(const ApiError& error) {
    return event_of(error_json(error));
}

}  // namespace chaos::serve
