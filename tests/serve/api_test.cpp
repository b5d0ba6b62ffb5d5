#include "serve/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace chaos::serve;
using nlohmann::json;
using testing::HasSubstr;

const Facts facts{.model = "parrot", .created = 1, .context = 1000, .vocab = 100, .chat = true};

Ask ask_of(Form form, const std::string& body) {
    auto parsed = parse_ask(form, body, facts);
    if (const auto* error = std::get_if<ApiError>(&parsed)) {
        ADD_FAILURE() << body << ": " << error->message;
        return {};
    }
    return std::get<Ask>(std::move(parsed));
}

struct Mistake {
    Form form;
    std::string body;
    unsigned status;
    std::string param;
    std::string code;
    std::string message;  // a part of it
};

// A chat request that would be right, but for these fields.
std::string chat(const std::string& more) {
    return R"({"messages": [{"role": "user", "content": "Hi"}], )" + more + "}";
}
std::string messages(const std::string& list) {
    return R"({"messages": )" + list + "}";
}
std::string text(const std::string& more) {
    return R"({"prompt": "Once", )" + more + "}";
}

// A request that would be right, but for a parameter that nobody knows.
std::string many_names(std::size_t count) {
    std::string names;
    for (std::size_t i = 0; i < count; ++i) names += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
    return text(R"("unknown": {)" + names + "}");
}

// The same with so many arrays in a row.
std::string many_lists(std::size_t count) {
    std::string lists = "[]";
    for (std::size_t i = 1; i < count; ++i) lists += ",[]";
    return text(R"("unknown": [)" + lists + "]");
}

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreNamed) {
    const Mistake& mistake = GetParam();
    const auto parsed = parse_ask(mistake.form, mistake.body, facts);
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << mistake.body;
    const auto& error = std::get<ApiError>(parsed);
    EXPECT_EQ(error.status, mistake.status) << mistake.body;
    EXPECT_EQ(error.param, mistake.param) << mistake.body;
    EXPECT_EQ(error.code, mistake.code) << mistake.body;
    EXPECT_THAT(error.message, HasSubstr(mistake.message)) << mistake.body;
    const json body = json::parse(error_body(error));
    EXPECT_EQ(body["error"]["message"], error.message);
    EXPECT_EQ(body["error"]["type"], "invalid_request_error");
    EXPECT_EQ(body["error"]["param"], error.param.empty() ? json() : json(error.param));
}

INSTANTIATE_TEST_SUITE_P(
    Api, Mistakes,
    testing::Values(
        Mistake{Form::chat, "", 400, "", "", "not JSON"}, Mistake{Form::chat, "{", 400, "", "", "not JSON"},
        Mistake{Form::chat, "\xff", 400, "", "", "not JSON"}, Mistake{Form::chat, "[]", 400, "", "", "JSON object"},
        Mistake{Form::chat, messages("\"\xc3\""), 400, "", "", "not JSON"},
        Mistake{Form::chat, std::string(100000, '['), 400, "", "", "nested too deeply"},
        Mistake{Form::text, many_names(100000), 400, "", "", "more than 2048 names"},
        Mistake{Form::text, many_lists(max_body_lists), 400, "", "", "more than 131072 arrays and objects"},
        Mistake{Form::chat, "{}", 400, "messages", "missing_required_parameter", "'messages'"},
        Mistake{Form::chat, messages("null"), 400, "messages", "missing_required_parameter", "'messages'"},
        Mistake{Form::chat, messages("\"Hi\""), 400, "messages", "invalid_type", "got a string"},
        Mistake{Form::chat, messages("[]"), 400, "messages", "invalid_value", "at least one"},
        Mistake{Form::chat, messages("[1]"), 400, "messages[0]", "invalid_type", "expected an object"},
        Mistake{Form::chat, messages("[{}]"), 400, "messages[0].role", "missing_required_parameter", "role"},
        Mistake{Form::chat, messages(R"([{"role": 1}])"), 400, "messages[0].role", "invalid_type", "integer"},
        Mistake{Form::chat, messages(R"([{"role": "king", "content": ""}])"), 400, "messages[0].role", "invalid_value",
                "'king'"},
        Mistake{Form::chat, messages(R"([{"role": "user"}])"), 400, "messages[0].content", "missing_required_parameter",
                "content"},
        Mistake{Form::chat, messages(R"([{"role": "user", "content": 7}])"), 400, "messages[0].content", "invalid_type",
                "got an integer"},
        Mistake{Form::chat, messages(R"([{"role": "user", "content": ["a"]}])"), 400, "messages[0].content[0]",
                "invalid_type", "expected an object"},
        Mistake{Form::chat, messages(R"([{"role": "user", "content": [{}]}])"), 400, "messages[0].content[0]",
                "invalid_value", "'type'"},
        Mistake{Form::chat, messages(R"([{"role": "user", "content": [{"type": "image_url"}]}])"), 400,
                "messages[0].content[0]", "unsupported_parameter", "not image_url"},
        Mistake{Form::chat, messages(R"([{"role": "user", "content": [{"type": "text"}]}])"), 400,
                "messages[0].content[0]", "invalid_value", "'text'"},
        Mistake{Form::chat, messages(R"([{"role": "user", "content": [{"type": "text", "text": 1}]}])"), 400,
                "messages[0].content[0].text", "invalid_type", "string"},
        Mistake{Form::chat, chat(R"("model": "gpt-4o")"), 404, "model", "model_not_found", "'parrot'"},
        Mistake{Form::chat, chat(R"("model": 4)"), 400, "model", "invalid_type", "string"},
        Mistake{Form::chat, chat(R"("chat_template_kwargs": [])"), 400, "chat_template_kwargs", "invalid_type",
                "object"},
        Mistake{Form::chat, chat(R"("temperature": "hot")"), 400, "temperature", "invalid_type", "got a string"},
        Mistake{Form::chat, chat(R"("temperature": 2.5)"), 400, "temperature", "invalid_value", "0.0 to 2.0"},
        Mistake{Form::chat, chat(R"("temperature": -1)"), 400, "temperature", "invalid_value", "-1"},
        Mistake{Form::chat, chat(R"("temperature": 1e400)"), 400, "", "", "not JSON"},
        Mistake{Form::chat, chat(R"("top_p": 1.5)"), 400, "top_p", "invalid_value", "1.5"},
        Mistake{Form::chat, chat(R"("min_p": true)"), 400, "min_p", "invalid_type", "boolean"},
        Mistake{Form::chat, chat(R"("top_k": 1.5)"), 400, "top_k", "invalid_type", "decimal"},
        Mistake{Form::chat, chat(R"("top_k": -2)"), 400, "top_k", "invalid_value", "-2"},
        Mistake{Form::chat, chat(R"("seed": "x")"), 400, "seed", "invalid_type", "integer"},
        Mistake{Form::chat, chat(R"("seed": 18446744073709551615)"), 400, "seed", "invalid_value",
                "18446744073709551615"},
        Mistake{Form::chat, chat(R"("seed": 1e300)"), 400, "seed", "invalid_value", "1e+300"},
        Mistake{Form::chat, chat(R"("presence_penalty": 3)"), 400, "presence_penalty", "invalid_value", "3"},
        Mistake{Form::chat, chat(R"("frequency_penalty": [])"), 400, "frequency_penalty", "invalid_type", "array"},
        Mistake{Form::chat, chat(R"("logit_bias": [])"), 400, "logit_bias", "invalid_type", "object"},
        Mistake{Form::chat, chat(R"("logit_bias": {"100": 1})"), 400, "logit_bias", "invalid_value", "no token"},
        Mistake{Form::chat, chat(R"("logit_bias": {"x": 1})"), 400, "logit_bias", "invalid_value", "no token"},
        Mistake{Form::chat, chat(R"("logit_bias": {" 7": 1})"), 400, "logit_bias", "invalid_value", "no token"},
        Mistake{Form::chat, chat(R"("logit_bias": {"7x": 1})"), 400, "logit_bias", "invalid_value", "no token"},
        Mistake{Form::chat, chat(R"("logit_bias": {"": 1})"), 400, "logit_bias", "invalid_value", "no token"},
        Mistake{Form::chat, chat(R"("logit_bias": {"18446744073709551616": 1})"), 400, "logit_bias", "invalid_value",
                "no token"},
        Mistake{Form::chat, chat(R"("logit_bias": {"7": "x"})"), 400, "logit_bias.7", "invalid_type", "decimal"},
        Mistake{Form::chat, chat(R"("logit_bias": {"7": 101})"), 400, "logit_bias.7", "invalid_value", "100"},
        Mistake{Form::chat, chat(R"("max_tokens": 0)"), 400, "max_tokens", "invalid_value", "from 1"},
        Mistake{Form::chat, chat(R"("max_completion_tokens": "many")"), 400, "max_completion_tokens", "invalid_type",
                "integer"},
        Mistake{Form::chat, chat(R"("stop": 1)"), 400, "stop", "invalid_type", "string or an array"},
        Mistake{Form::chat, chat(R"("stop": "")"), 400, "stop", "invalid_value", "empty"},
        Mistake{Form::chat, chat(R"("stop": ["a", 2])"), 400, "stop[1]", "invalid_type", "integer"},
        Mistake{Form::chat, chat("\"stop\": \"" + std::string(max_stop_bytes + 1, 's') + "\""), 400, "stop",
                "invalid_value", "bytes"},
        Mistake{Form::chat, chat(R"("stop": ["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])"),
                400, "stop", "invalid_value", "16"},
        Mistake{Form::chat, chat(R"("logprobs": 3)"), 400, "logprobs", "invalid_type", "boolean"},
        Mistake{Form::chat, chat(R"("top_logprobs": 3)"), 400, "top_logprobs", "invalid_value", "'logprobs'"},
        Mistake{Form::chat, chat(R"("logprobs": true, "top_logprobs": 21)"), 400, "top_logprobs", "invalid_value",
                "20"},
        Mistake{Form::text, text(R"("logprobs": true)"), 400, "logprobs", "invalid_type", "integer"},
        Mistake{Form::chat, chat(R"("stream": "yes")"), 400, "stream", "invalid_type", "boolean"},
        Mistake{Form::chat, chat(R"("stream_options": {})"), 400, "stream_options", "invalid_value", "'stream'"},
        Mistake{Form::chat, chat(R"("stream": true, "stream_options": 1)"), 400, "stream_options", "invalid_type",
                "object"},
        Mistake{Form::chat, chat(R"("stream": true, "stream_options": {"include_usage": 1})"), 400,
                "stream_options.include_usage", "invalid_type", "boolean"},
        Mistake{Form::chat, chat(R"("n": 2)"), 400, "n", "unsupported_parameter", "one answer"},
        Mistake{Form::chat, chat(R"("n": "2")"), 400, "n", "invalid_type", "integer"},
        Mistake{Form::text, text(R"("best_of": 3)"), 400, "best_of", "unsupported_parameter", "one answer"},
        Mistake{Form::chat, chat(R"("tools": [{}])"), 400, "tools", "unsupported_parameter", "tools"},
        Mistake{Form::chat, chat(R"("tools": "x")"), 400, "tools", "invalid_type", "array"},
        Mistake{Form::chat, chat(R"("response_format": {"type": "json_object"})"), 400, "response_format",
                "unsupported_parameter", "text"},
        Mistake{Form::chat, chat(R"("response_format": "json")"), 400, "response_format", "invalid_type", "'type'"},
        Mistake{Form::text, "{}", 400, "prompt", "missing_required_parameter", "'prompt'"},
        Mistake{Form::text, R"({"prompt": 7})", 400, "prompt", "invalid_type", "string"},
        Mistake{Form::text, R"({"prompt": []})", 400, "prompt", "invalid_value", "empty"},
        Mistake{Form::text, R"({"prompt": ["a", "b"]})", 400, "prompt", "unsupported_parameter", "one prompt"},
        Mistake{Form::text, R"({"prompt": [1, 100]})", 400, "prompt", "invalid_value", "99"},
        Mistake{Form::text, R"({"prompt": [1, "a"]})", 400, "prompt", "invalid_type", "integer"},
        Mistake{Form::text, text(R"("echo": true)"), 400, "echo", "unsupported_parameter", "repeated"},
        Mistake{Form::text, text(R"("suffix": "end")"), 400, "suffix", "unsupported_parameter", "after"}));

TEST(Api, ReadsEveryParameter) {
    const Ask ask = ask_of(Form::chat, R"({
        "model": "parrot", "messages": [{"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": null}, {"role": "user", "content": ""}],
        "temperature": 0, "top_p": 0.5, "top_k": -1, "min_p": 0.1, "seed": -1, "max_completion_tokens": 7.0,
        "presence_penalty": 1, "frequency_penalty": -1, "logit_bias": {"7": -100},
        "stop": ["x", "y"], "logprobs": true, "top_logprobs": 2, "stream": true, "stream_options": {"include_usage": true},
        "n": 1, "tools": [], "response_format": {"type": "text"}, "user": "somebody", "made_up": {"a": [1]},
        "ignore_eos": true, "chat_template_kwargs": {"enable_thinking": false}})");
    const auto& said = std::get<Conversation>(ask.task.prompt).messages;
    EXPECT_EQ(std::get<Conversation>(ask.task.prompt).variables.dump(), R"({"enable_thinking":false})");
    EXPECT_EQ(said.dump(), R"([{"role":"system","content":"Be brief."},{"role":"user","name":"Ann","content":"ab"},)"
                           R"({"role":"assistant","content":null},{"role":"user","content":""}])");
    EXPECT_EQ(ask.task.sampling.temperature, 0.0);
    EXPECT_EQ(ask.task.sampling.top_p, 0.5);
    EXPECT_EQ(ask.task.sampling.top_k, 0);
    EXPECT_EQ(ask.task.sampling.min_p, 0.1);
    EXPECT_EQ(ask.task.sampling.seed, ~std::uint64_t{0});
    EXPECT_EQ(ask.task.sampling.presence_penalty, 1.0);
    EXPECT_EQ(ask.task.sampling.frequency_penalty, -1.0);
    EXPECT_EQ(ask.task.sampling.bias, (std::map<TokenId, double>{{7, -100.0}}));
    EXPECT_EQ(ask.task.max_tokens, 7U);
    EXPECT_EQ(ask.task.stop, (std::vector<std::string>{"x", "y"}));
    EXPECT_TRUE(ask.task.logprobs);
    EXPECT_EQ(ask.task.top_logprobs, 2U);
    EXPECT_TRUE(ask.task.ignore_end);
    EXPECT_TRUE(ask.stream);
    EXPECT_TRUE(ask.include_usage);
}

TEST(Api, TakesNullForAbsent) {
    const Ask ask = ask_of(Form::chat, chat(R"("temperature": null, "stop": null, "max_tokens": null, "stream": null,
        "stream_options": null, "tools": null, "response_format": null, "logprobs": null, "top_logprobs": null,
        "seed": null, "n": null, "model": null, "logit_bias": null)"));
    EXPECT_EQ(ask.task.sampling.temperature, 1.0);
    EXPECT_FALSE(ask.task.sampling.seed);
    EXPECT_FALSE(ask.task.max_tokens);
    EXPECT_FALSE(ask.stream);
}

TEST(Api, TakesTextOrTokensAsAPrompt) {
    using Tokens = std::vector<TokenId>;
    EXPECT_EQ(std::get<std::string>(ask_of(Form::text, R"({"prompt": "Once"})").task.prompt), "Once");
    EXPECT_EQ(std::get<std::string>(ask_of(Form::text, R"({"prompt": ["Once"]})").task.prompt), "Once");
    EXPECT_EQ(std::get<Tokens>(ask_of(Form::text, R"({"prompt": [1, 99]})").task.prompt), (Tokens{1, 99}));
    EXPECT_EQ(std::get<Tokens>(ask_of(Form::text, R"({"prompt": [[3]]})").task.prompt), (Tokens{3}));
    EXPECT_EQ(ask_of(Form::text, R"({"prompt": ""})").task.max_tokens, 16U);
    EXPECT_EQ(ask_of(Form::text, text(R"("suffix": "", "logprobs": 0, "stop": "end")")).task.stop,
              (std::vector<std::string>{"end"}));
}

TEST(Api, ModelsWithoutATemplateDoNotChat) {
    Facts plain = facts;
    plain.chat = false;
    const auto parsed = parse_ask(Form::chat, chat(R"("n": 1)"), plain);
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed));
    EXPECT_THAT(std::get<ApiError>(parsed).message, HasSubstr("/v1/completions"));
    plain.chat_problem = "template.jinja:1: {% call %} is not supported";
    const auto why = parse_ask(Form::chat, chat(R"("n": 1)"), plain);
    ASSERT_TRUE(std::holds_alternative<ApiError>(why));
    EXPECT_THAT(std::get<ApiError>(why).message, HasSubstr(plain.chat_problem));
}

const std::vector<Piece> pieces{{"Hello", {{{"Hel", -0.5}, {{"Hel", -0.5}, {"\xe2\x82", -2.0}}}, {{"lo", -1.0}, {}}}},
                                {" you", {{{" you", -0.25}, {}}}}};
const Finished finished{Finished::Reason::length, 7, 3, 2};

TEST(Api, WritesWholeAnswers) {
    Ask ask = ask_of(Form::chat, chat(R"("logprobs": true, "top_logprobs": 2)"));
    AnswerWriter writer(Form::chat, ask, facts, "abc", 1700000000);
    const json body = json::parse(writer.whole(pieces, finished));
    EXPECT_EQ(body["id"], "chatcmpl-abc");
    EXPECT_EQ(body["object"], "chat.completion");
    EXPECT_EQ(body["created"], 1700000000);
    EXPECT_EQ(body["model"], "parrot");
    const json& choice = body["choices"][0];
    EXPECT_EQ(choice["index"], 0);
    EXPECT_EQ(choice["message"]["role"], "assistant");
    EXPECT_EQ(choice["message"]["content"], "Hello you");
    EXPECT_EQ(choice["finish_reason"], "length");
    const json& first = choice["logprobs"]["content"][0];
    EXPECT_EQ(first["token"], "Hel");
    EXPECT_EQ(first["logprob"], -0.5);
    EXPECT_EQ(first["bytes"], (json{72, 101, 108}));
    EXPECT_EQ(first["top_logprobs"][1]["bytes"], (json{0xe2, 0x82}));
    EXPECT_EQ(first["top_logprobs"][1]["token"], "\\xe2\\x82");
    EXPECT_EQ(choice["logprobs"]["content"].size(), 3U);
    EXPECT_EQ(body["usage"]["prompt_tokens"], 7);
    EXPECT_EQ(body["usage"]["completion_tokens"], 2);
    EXPECT_EQ(body["usage"]["total_tokens"], 9);
    EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
}

TEST(Api, WritesWholeTexts) {
    Ask ask = ask_of(Form::text, text(R"("logprobs": 1)"));
    AnswerWriter writer(Form::text, ask, facts, "abc", 1);
    const json body = json::parse(writer.whole(pieces, {Finished::Reason::stop, 1, 0, 2}));
    EXPECT_EQ(body["id"], "cmpl-abc");
    EXPECT_EQ(body["object"], "text_completion");
    const json& choice = body["choices"][0];
    EXPECT_EQ(choice["text"], "Hello you");
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(choice["logprobs"]["tokens"], (json{"Hel", "lo", " you"}));
    EXPECT_EQ(choice["logprobs"]["token_logprobs"], (json{-0.5, -1.0, -0.25}));
    EXPECT_EQ(choice["logprobs"]["text_offset"], (json{0, 3, 5}));
    EXPECT_EQ(choice["logprobs"]["top_logprobs"][0]["Hel"], -0.5);
    EXPECT_EQ(choice["logprobs"]["top_logprobs"][0]["bytes:\\xe2\\x82"], -2.0);
}

TEST(Api, CountsCharactersNotBytes) {
    Ask ask = ask_of(Form::text, text(R"("logprobs": 0)"));
    AnswerWriter writer(Form::text, ask, facts, "abc", 1);
    writer.begin({.prompt_tokens = 2, .prompt_characters = 7});
    // An e with an accent, a robot in three tokens, the last of which goes on with a letter.
    const std::vector<Piece> robot{{"\xc3\xa9\xf0\x9f\xa4\x96!x",
                                    {{{"\xc3\xa9", 0.0}, {}},
                                     {{"\xf0\x9f", 0.0}, {}},
                                     {{"\xa4", 0.0}, {}},
                                     {{"\x96!", 0.0}, {}},
                                     {{"x", 0.0}, {}}}}};
    const json logprobs = json::parse(writer.whole(robot, finished))["choices"][0]["logprobs"];
    EXPECT_EQ(logprobs["text_offset"], (json{7, 8, 8, 8, 10}));
    EXPECT_EQ(logprobs["tokens"], (json{"\xc3\xa9", "bytes:\\xf0\\x9f", "bytes:\\xa4", "bytes:\\x96!", "x"}));
}

// The JSON of every event but the last, which is [DONE].
std::vector<json> events_of(std::string text) {
    std::vector<json> events;
    while (!text.starts_with("data: [DONE]\n\n")) {
        const std::size_t end = text.find("\n\n");
        if (!text.starts_with("data: ") || end == std::string::npos) {
            ADD_FAILURE() << text;
            return events;
        }
        events.push_back(json::parse(text.substr(6, end - 6)));
        text.erase(0, end + 2);
    }
    EXPECT_EQ(text, "data: [DONE]\n\n");
    return events;
}

TEST(Api, WritesStreams) {
    Ask ask =
        ask_of(Form::chat, chat(R"("stream": true, "stream_options": {"include_usage": true}, "logprobs": true)"));
    AnswerWriter writer(Form::chat, ask, facts, "abc", 1);
    std::string text = writer.first_event();
    for (const Piece& piece : pieces) text += writer.event(piece);
    text += writer.last_events(finished);
    const auto events = events_of(text);
    ASSERT_EQ(events.size(), 5U);
    EXPECT_EQ(events[0]["choices"][0]["delta"], (json{{"role", "assistant"}, {"content", ""}}));
    EXPECT_EQ(events[1]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], "Hello");
    EXPECT_EQ(events[1]["choices"][0]["finish_reason"], json());
    EXPECT_EQ(events[1]["choices"][0]["logprobs"]["content"].size(), 2U);
    EXPECT_EQ(events[2]["usage"], json());
    EXPECT_EQ(events[3]["choices"][0]["delta"], json::object());
    EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(events[4]["choices"], json::array());
    EXPECT_EQ(events[4]["usage"]["total_tokens"], 9);
}

TEST(Api, WritesStreamsOfText) {
    Ask ask = ask_of(Form::text, text(R"("stream": true, "logprobs": 0)"));
    AnswerWriter writer(Form::text, ask, facts, "abc", 1);
    std::string text = writer.first_event();
    for (const Piece& piece : pieces) text += writer.event(piece);
    text += writer.last_events(finished);
    const auto events = events_of(text);
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events[0]["choices"][0]["text"], "Hello");
    EXPECT_EQ(events[1]["choices"][0]["logprobs"]["text_offset"], json{5});
    EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
    EXPECT_FALSE(events[2].contains("usage"));
}

TEST(Api, ListsTheModel) {
    const json body = json::parse(models_body(facts));
    EXPECT_EQ(body["object"], "list");
    EXPECT_EQ(body["data"][0]["id"], "parrot");
    EXPECT_EQ(body["data"][0]["object"], "model");
}

TEST(Api, FailuresHaveTheirStatus) {
    EXPECT_EQ(api_error(Form::chat, {Failed::Kind::too_long, "long"}).code, "context_length_exceeded");
    EXPECT_EQ(api_error(Form::text, {Failed::Kind::prompt, "bad"}).param, "prompt");
    const ApiError engine = api_error(Form::chat, {Failed::Kind::engine, "broken"});
    EXPECT_EQ(engine.status, 500U);
    EXPECT_EQ(engine.type, "server_error");
    EXPECT_EQ(AnswerWriter::error_event(engine).substr(0, 17), "data: {\"error\":{\"");
}

}  // namespace
