#include "serve/api.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace chaos::serve {
namespace {

using Json = nlohmann::ordered_json;

const char* kind_of(const Json& value) {
    if (value.is_string()) return "a string";
    if (value.is_boolean()) return "a boolean";
    if (value.is_number_integer()) return "an integer";
    if (value.is_number()) return "a decimal";
    if (value.is_array()) return "an array";
    if (value.is_object()) return "an object";
    return "null";
}

ApiError wrong_type(const std::string& param, const char* wanted, const Json& got) {
    return {
        .message = "Invalid type for '" + param + "': expected " + wanted + ", but got " + kind_of(got) + " instead.",
        .param = param,
        .code = "invalid_type"};
}

ApiError wrong_value(const std::string& param, const std::string& why) {
    return {.message = "Invalid '" + param + "': " + why, .param = param, .code = "invalid_value"};
}

ApiError unsupported(const std::string& param, const std::string& why) {
    return {.message = "Unsupported '" + param + "': " + why, .param = param, .code = "unsupported_parameter"};
}

std::string text_of(double number) {
    return Json(number).dump();
}

// Reads the fields of an object; remembers the first mistake, after which all is absent.
class Fields {
public:
    explicit Fields(const Json& object) : object_(object) {}

    [[nodiscard]] const Json* find(const char* name) const {
        if (error_) return nullptr;
        const auto found = object_.find(name);
        return found == object_.end() || found->is_null() ? nullptr : &*found;
    }
    void fail(ApiError error) {
        if (!error_) error_ = std::move(error);
    }
    [[nodiscard]] const std::optional<ApiError>& error() const { return error_; }

    void read(const char* name, bool& value) {
        const Json* found = find(name);
        if (found == nullptr) return;
        if (!found->is_boolean()) return fail(wrong_type(name, "a boolean", *found));
        value = found->get<bool>();
    }
    void read(const char* name, double& value, double least, double most) {
        const Json* found = find(name);
        if (found == nullptr) return;
        if (!found->is_number()) return fail(wrong_type(name, "a decimal", *found));
        const double number = found->get<double>();
        if (!(number >= least && number <= most))
            return fail(wrong_value(name, "expected a value from " + text_of(least) + " to " + text_of(most) +
                                              ", but got " + text_of(number) + "."));
        value = number;
    }
    [[nodiscard]] std::optional<std::int64_t> integer(const char* name, std::int64_t least, std::int64_t most) {
        const Json* found = find(name);
        if (found == nullptr) return {};
        return integer(name, *found, least, most);
    }
    // Programs that know decimals only say 16.0.
    [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name, const Json& value, std::int64_t least,
                                                      std::int64_t most) {
        const double number = value.is_number() ? value.get<double>() : 0.5;
        if (number != std::floor(number)) {
            fail(wrong_type(name, "an integer", value));
            return {};
        }
        // Beyond 2^63 a JSON integer is unsigned, and a decimal no integer of ours.
        const bool small = value.is_number_float() ? std::abs(number) < 0x1p63
                                                   : !value.is_number_unsigned() ||
                                                         value.get<std::uint64_t>() <=
                                                             std::uint64_t{std::numeric_limits<std::int64_t>::max()};
        const std::int64_t exact = small ? value.get<std::int64_t>() : std::numeric_limits<std::int64_t>::max();
        if (!small || exact < least || exact > most) {
            fail(wrong_value(name, "expected an integer from " + std::to_string(least) + " to " + std::to_string(most) +
                                       ", but got " + value.dump() + "."));
            return {};
        }
        return exact;
    }

private:
    const Json& object_;
    std::optional<ApiError> error_;
};

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

void read_sampling(Fields& fields, const Facts& facts, Sampling& sampling) {
    fields.read("temperature", sampling.temperature, 0.0, 2.0);
    fields.read("top_p", sampling.top_p, 0.0, 1.0);
    fields.read("min_p", sampling.min_p, 0.0, 1.0);
    fields.read("presence_penalty", sampling.presence_penalty, -2.0, 2.0);
    fields.read("frequency_penalty", sampling.frequency_penalty, -2.0, 2.0);
    // Some programs say -1 for all.
    if (const auto top_k = fields.integer("top_k", -1, largest)) sampling.top_k = std::max<std::int64_t>(0, *top_k);
    if (const auto seed = fields.integer("seed", std::numeric_limits<std::int64_t>::min(), largest))
        sampling.seed = static_cast<std::uint64_t>(*seed);

    const Json* bias = fields.find("logit_bias");
    if (bias == nullptr) return;
    if (!bias->is_object()) return fields.fail(wrong_type("logit_bias", "an object", *bias));
    if (bias->size() > max_biased_tokens)
        return fields.fail(
            wrong_value("logit_bias", "more than " + std::to_string(max_biased_tokens) + " tokens are too many."));
    for (const auto& [name, value] : bias->items()) {
        std::uint64_t token = 0;
        const char* name_end = name.data() + name.size();
        const auto [end, failed] = std::from_chars(name.data(), name_end, token);
        if (failed != std::errc() || end != name_end || token >= facts.vocab)
            return fields.fail(wrong_value("logit_bias", "\"" + name + "\" is no token of this model."));
        if (!value.is_number()) return fields.fail(wrong_type("logit_bias." + name, "a decimal", value));
        const double amount = value.get<double>();
        if (!(amount >= -100.0 && amount <= 100.0))
            return fields.fail(wrong_value("logit_bias." + name, "expected a value from -100 to 100."));
        sampling.bias[static_cast<TokenId>(token)] = amount;
    }
}

void add_stop(Fields& fields, const Json& text, const std::string& name, std::vector<std::string>& stops) {
    if (!text.is_string()) return fields.fail(wrong_type(name, "a string", text));
    auto stop = text.get<std::string>();
    if (stop.empty()) return fields.fail(wrong_value(name, "a stop text is empty."));
    if (stop.size() > max_stop_bytes)
        return fields.fail(
            wrong_value(name, "a stop text has more than " + std::to_string(max_stop_bytes) + " bytes."));
    stops.push_back(std::move(stop));
}

void read_stops(Fields& fields, std::vector<std::string>& stops) {
    const Json* stop = fields.find("stop");
    if (stop == nullptr) return;
    if (stop->is_string()) return add_stop(fields, *stop, "stop", stops);
    if (!stop->is_array()) return fields.fail(wrong_type("stop", "a string or an array of strings", *stop));
    if (stop->size() > max_stops)
        return fields.fail(wrong_value("stop", "more than " + std::to_string(max_stops) + " stop texts."));
    for (std::size_t i = 0; i < stop->size(); ++i)
        add_stop(fields, (*stop)[i], "stop[" + std::to_string(i) + "]", stops);
}

void read_length(Fields& fields, Form form, std::optional<std::size_t>& max_tokens) {
    constexpr std::size_t text_default = 16;  // OpenAI's
    std::optional<std::int64_t> length;
    if (form == Form::chat) length = fields.integer("max_completion_tokens", 1, largest);
    if (!length) length = fields.integer("max_tokens", 1, largest);
    if (length) max_tokens = static_cast<std::size_t>(*length);
    if (!length && form == Form::text) max_tokens = text_default;
}

void read_logprobs(Fields& fields, Form form, Task& task) {
    const auto most = static_cast<std::int64_t>(max_top_logprobs);
    if (form == Form::text) {
        const auto count = fields.integer("logprobs", 0, most);
        task.logprobs = count.has_value();
        task.top_logprobs = static_cast<std::size_t>(count.value_or(0));
        return;
    }
    fields.read("logprobs", task.logprobs);
    const auto count = fields.integer("top_logprobs", 0, most);
    if (count && !task.logprobs) return fields.fail(wrong_value("top_logprobs", "needs 'logprobs' to be true."));
    task.top_logprobs = static_cast<std::size_t>(count.value_or(0));
}

void read_stream(Fields& fields, Ask& ask) {
    fields.read("stream", ask.stream);
    const Json* options = fields.find("stream_options");
    if (options == nullptr) return;
    if (!options->is_object()) return fields.fail(wrong_type("stream_options", "an object", *options));
    if (!ask.stream) return fields.fail(wrong_value("stream_options", "is for streams ('stream': true) only."));
    Fields inner(*options);
    inner.read("include_usage", ask.include_usage);
    if (inner.error()) {
        ApiError error = *inner.error();
        error.param = "stream_options.include_usage";
        fields.fail(std::move(error));
    }
}

// What would change the answer, had we got it.
void refuse_unsupported(Fields& fields, Form form) {
    for (const char* name : {"n", "best_of"}) {
        const auto count = fields.integer(name, 1, 128);
        if (count && *count > 1)
            fields.fail(unsupported(name, "one answer per request; ask several times, at once if you like."));
    }
    if (form == Form::text) {
        bool echo = false;
        fields.read("echo", echo);
        if (echo) fields.fail(unsupported("echo", "the prompt is not repeated."));
        const Json* suffix = fields.find("suffix");
        if (suffix != nullptr && !(suffix->is_string() && suffix->get_ref<const std::string&>().empty()))
            fields.fail(unsupported("suffix", "text is written after the prompt, not into it."));
        return;
    }
    for (const char* name : {"tools", "functions"}) {
        const Json* tools = fields.find(name);
        if (tools == nullptr) continue;
        if (!tools->is_array()) return fields.fail(wrong_type(name, "an array", *tools));
        if (!tools->empty()) fields.fail(unsupported(name, "this server calls no tools."));
    }
    if (const Json* format = fields.find("response_format")) {
        const Json* type = format->is_object() && format->contains("type") ? &(*format)["type"] : nullptr;
        if (type == nullptr || !type->is_string())
            return fields.fail(wrong_type("response_format", "an object with a 'type'", *format));
        if (*type != "text") fields.fail(unsupported("response_format", "answers are text."));
    }
}

void read_model(Fields& fields, const Facts& facts) {
    const Json* model = fields.find("model");
    if (model == nullptr) return;
    if (!model->is_string()) return fields.fail(wrong_type("model", "a string", *model));
    const auto& name = model->get_ref<const std::string&>();
    if (name == facts.model) return;
    fields.fail(no_such_model(name, facts));
}

// A message's content: text, or parts that are all text.
void read_content(Fields& fields, const std::string& name, Json& content) {
    if (content.is_string() || content.is_null()) return;
    if (!content.is_array()) return fields.fail(wrong_type(name, "a string or an array of parts", content));
    std::string text;
    for (std::size_t i = 0; i < content.size(); ++i) {
        const std::string part_name = name + "[" + std::to_string(i) + "]";
        const Json& part = content[i];
        if (!part.is_object()) return fields.fail(wrong_type(part_name, "an object", part));
        const auto type = part.find("type");
        if (type == part.end() || !type->is_string())
            return fields.fail(wrong_value(part_name, "a part has a 'type'."));
        if (*type != "text")
            return fields.fail(unsupported(part_name, "this server reads text, not " + type->get<std::string>() + "."));
        const auto said = part.find("text");
        if (said == part.end()) return fields.fail(wrong_value(part_name, "a part of type text has a 'text'."));
        if (!said->is_string()) return fields.fail(wrong_type(part_name + ".text", "a string", *said));
        text += said->get_ref<const std::string&>();
    }
    content = std::move(text);
}

void read_message(Fields& fields, const std::string& name, Json& message) {
    if (!message.is_object()) return fields.fail(wrong_type(name, "an object", message));
    const auto role = message.find("role");
    if (role == message.end())
        return fields.fail({.message = "Missing required parameter: '" + name + ".role'.",
                            .param = name + ".role",
                            .code = "missing_required_parameter"});
    if (!role->is_string()) return fields.fail(wrong_type(name + ".role", "a string", *role));
    auto& who = role->get_ref<std::string&>();
    if (who == "developer") who = "system";
    if (who != "system" && who != "user" && who != "assistant" && who != "tool")
        return fields.fail(wrong_value(name + ".role",
                                       "expected one of 'system', 'developer', 'user', 'assistant' and 'tool', but got "
                                       "'" +
                                           who + "'."));
    const auto content = message.find("content");
    if (content == message.end() || content->is_null()) {
        if (who == "assistant") return;  // it called tools instead
        return fields.fail({.message = "Missing required parameter: '" + name + ".content'.",
                            .param = name + ".content",
                            .code = "missing_required_parameter"});
    }
    read_content(fields, name + ".content", *content);
}

void read_messages(Fields& fields, const Facts& facts, Json& body, Task& task) {
    if (fields.error()) return;
    if (fields.find("messages") == nullptr)
        return fields.fail({.message = "Missing required parameter: 'messages'.",
                            .param = "messages",
                            .code = "missing_required_parameter"});
    Json& messages = body["messages"];
    if (!messages.is_array()) return fields.fail(wrong_type("messages", "an array of objects", messages));
    if (messages.empty()) return fields.fail(wrong_value("messages", "at least one message is needed."));
    if (messages.size() > max_messages)
        return fields.fail(wrong_value("messages", "more than " + std::to_string(max_messages) + " messages."));
    for (std::size_t i = 0; i < messages.size(); ++i)
        read_message(fields, "messages[" + std::to_string(i) + "]", messages[i]);
    if (!facts.chat)
        return fields.fail({.message = "The model '" + facts.model + "' " +
                                       (facts.chat_problem.empty()
                                            ? "has no chat template"
                                            : "has a chat template that cannot be used (" + facts.chat_problem + ")") +
                                       "; use /v1/completions instead.",
                            .param = "messages",
                            .code = "unsupported_parameter"});
    Conversation conversation;
    if (const Json* variables = fields.find("chat_template_kwargs")) {
        if (!variables->is_object()) return fields.fail(wrong_type("chat_template_kwargs", "an object", *variables));
        conversation.variables = *variables;
    }
    conversation.messages = std::move(messages);
    if (!fields.error()) task.prompt = std::move(conversation);
}

void read_tokens(Fields& fields, const Facts& facts, const Json& ids, Task& task) {
    std::vector<TokenId> tokens;
    tokens.reserve(ids.size());
    for (const Json& id : ids) {
        const auto token = fields.integer("prompt", id, 0, static_cast<std::int64_t>(facts.vocab) - 1);
        if (!token) return;
        tokens.push_back(static_cast<TokenId>(*token));
    }
    task.prompt = std::move(tokens);
}

// Text, or tokens, or a list of one of these.
void read_prompt(Fields& fields, const Facts& facts, Task& task) {
    if (fields.error()) return;
    const Json* prompt = fields.find("prompt");
    if (prompt == nullptr)
        return fields.fail({.message = "Missing required parameter: 'prompt'.",
                            .param = "prompt",
                            .code = "missing_required_parameter"});
    const bool list = prompt->is_array() && !prompt->empty() && ((*prompt)[0].is_string() || (*prompt)[0].is_array());
    if (list) {
        if (prompt->size() > 1)
            return fields.fail(
                unsupported("prompt", "one prompt per request; ask several times, at once if you like."));
        prompt = &(*prompt)[0];
    }
    if (prompt->is_string()) {
        task.prompt = prompt->get<std::string>();
    } else if (prompt->is_array()) {
        if (prompt->empty()) return fields.fail(wrong_value("prompt", "it is empty."));
        read_tokens(fields, facts, *prompt, task);
    } else {
        fields.fail(wrong_type("prompt", "a string or an array of tokens", *prompt));
    }
}

// Looks at a body before anything is made of it. Code that walks through a value calls itself at every level, and
// objects that keep the order of their names compare a new one with all others.
class BodyCheck : public nlohmann::json_sax<Json> {
public:
    [[nodiscard]] const std::string& mistake() const { return mistake_; }

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override { return enter(); }
    bool end_object() override { return leave(); }
    bool start_array(std::size_t) override { return enter(); }
    bool end_array() override { return leave(); }
    bool key(string_t&) override {
        if (++names_.back() <= max_body_names) return true;
        return fail("An object of the body has more than " + std::to_string(max_body_names) + " names.");
    }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
        return fail("The body is not JSON.");
    }

private:
    bool enter() {
        names_.push_back(0);
        if (names_.size() > max_body_depth) return fail("The body is nested too deeply.");
        if (++lists_ <= max_body_lists) return true;
        return fail("The body has more than " + std::to_string(max_body_lists) + " arrays and objects.");
    }
    bool leave() {
        names_.pop_back();
        return true;
    }
    bool fail(std::string mistake) {
        mistake_ = std::move(mistake);
        return false;
    }

    std::size_t lists_ = 0;
    std::vector<std::size_t> names_;  // of every object around this place; arrays have none
    std::string mistake_;
};

std::variant<Json, ApiError> parse_body(std::string_view body) {
    BodyCheck check;
    if (!Json::sax_parse(body, &check)) return ApiError{.message = check.mistake(), .param = "", .code = ""};
    Json value = Json::parse(body, nullptr, false);
    if (!value.is_object()) return ApiError{.message = "The body is not a JSON object.", .param = "", .code = ""};
    return value;
}

}  // namespace

ApiError no_such_model(const std::string& name, const Facts& facts) {
    return {.status = 404,
            .message = "The model '" + name + "' does not exist here; this server has '" + facts.model + "'.",
            .param = "model",
            .code = "model_not_found"};
}

std::variant<Ask, ApiError> parse_ask(Form form, std::string_view body, const Facts& facts) {
    std::variant<Json, ApiError> parsed = parse_body(body);
    if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
    Json& object = std::get<Json>(parsed);

    Ask ask;
    Fields fields(object);
    read_model(fields, facts);
    read_sampling(fields, facts, ask.task.sampling);
    read_stops(fields, ask.task.stop);
    read_length(fields, form, ask.task.max_tokens);
    read_logprobs(fields, form, ask.task);
    read_stream(fields, ask);
    fields.read("ignore_eos", ask.task.ignore_end);
    refuse_unsupported(fields, form);
    if (form == Form::chat)
        read_messages(fields, facts, object, ask.task);
    else
        read_prompt(fields, facts, ask.task);
    if (fields.error()) return *fields.error();
    return ask;
}

}  // namespace chaos::serve
