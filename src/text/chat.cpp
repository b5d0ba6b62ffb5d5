#include "text/chat.h"

#include "base/file.h"
#include "text/fields.h"

#include <array>

namespace chaos::text {
namespace {

constexpr std::size_t max_config_bytes = std::size_t{64} << 20;
constexpr std::string_view extra_folder = "additional_chat_templates";

// One text, or a list of named ones.
Result<std::map<std::string, std::string>> sources_in(const Field& field) {
    std::map<std::string, std::string> sources;
    if (field.json().is_string()) {
        CHAOS_TRY(sources["default"], field.text());
        return sources;
    }
    CHAOS_TRY(const std::vector<Field> items, field.items());
    for (const Field& item : items) {
        CHAOS_TRY(const Field name_field, item.at("name"));
        CHAOS_TRY(const std::string name, name_field.text());
        CHAOS_TRY(const Field source, item.at("template"));
        CHAOS_TRY(sources[name], source.text());
    }
    return sources;
}

Result<std::map<std::string, std::string>> special_tokens_in(const Field& config) {
    std::map<std::string, std::string> tokens;
    for (const char* name :
         {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
        CHAOS_TRY(const std::optional<Field> field, config.find(name));
        if (!field) continue;
        // A text, or the description of an added token.
        if (field->json().is_object()) {
            CHAOS_TRY(const Field content, field->at("content"));
            CHAOS_TRY(tokens[name], content.text());
        } else {
            CHAOS_TRY(tokens[name], field->text());
        }
    }
    return tokens;
}

Result<std::string> read_limited(const std::filesystem::path& path) {
    std::error_code problem;
    const std::uintmax_t bytes = std::filesystem::file_size(path, problem);
    if (!problem && bytes > max_config_bytes) {
        return Error{path.string() + " is larger than " + std::to_string(max_config_bytes >> 20) + " MiB"};
    }
    return read_file(path);
}

}  // namespace

Result<ChatFormat> ChatFormat::parse(const std::map<std::string, std::string>& sources,
                                     std::map<std::string, std::string> special_tokens, const std::string& file) {
    ChatFormat format;
    format.file_ = file;
    format.special_tokens_ = std::move(special_tokens);
    for (const auto& [name, source] : sources) {
        // Others serve uses that nobody asks for here; what they may contain does not matter.
        if (name != "default" && name != "tool_use") continue;
        const std::string full_name = file + (name == "default" ? "" : " (" + name + ")");
        CHAOS_TRY(Template parsed, Template::parse(source, full_name));
        format.templates_.emplace(name, std::move(parsed));
    }
    if (format.templates_.empty()) return Error{file + " has no chat template named 'default'"};
    return format;
}

Result<std::optional<ChatFormat>> ChatFormat::read(const std::filesystem::path& folder) {
    std::map<std::string, std::string> sources;
    std::map<std::string, std::string> tokens;
    std::filesystem::path file = folder / "tokenizer_config.json";
    if (std::filesystem::exists(file)) {
        CHAOS_TRY(const std::string text, read_limited(file));
        const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
        if (document.is_discarded()) return Error{file.string() + " is not valid JSON"};
        const Field config(document, file.string());
        CHAOS_TRY(tokens, special_tokens_in(config));
        CHAOS_TRY(const std::optional<Field> field, config.find("chat_template"));
        if (field) {
            CHAOS_TRY(sources, sources_in(*field));
        }
    }
    if (std::filesystem::exists(folder / "chat_template.jinja")) {
        file = folder / "chat_template.jinja";
        sources.clear();
        CHAOS_TRY(sources["default"], read_limited(file));
    }
    const std::filesystem::path for_tools = folder / extra_folder / "tool_use.jinja";
    if (std::filesystem::exists(for_tools)) {
        CHAOS_TRY(sources["tool_use"], read_limited(for_tools));
    }
    if (sources.empty()) return std::optional<ChatFormat>();
    CHAOS_TRY(ChatFormat format, parse(sources, std::move(tokens), file.string()));
    return std::optional(std::move(format));
}

Result<std::string> ChatFormat::render(const Conversation& conversation, const std::tm& now) const {
    auto chosen = templates_.end();
    if (!conversation.tools.is_null()) chosen = templates_.find("tool_use");
    if (chosen == templates_.end()) chosen = templates_.find("default");
    if (chosen == templates_.end()) return Error{file_ + " has a chat template for conversations with tools only"};
    nlohmann::ordered_json variables = nlohmann::ordered_json::object();
    for (const auto& [name, token] : special_tokens_) variables[name] = token;
    // Names that nobody gave are none, which is something else than undefined.
    variables["messages"] = conversation.messages;
    variables["tools"] = conversation.tools;
    variables["documents"] = nullptr;
    variables["add_generation_prompt"] = conversation.add_generation_prompt;
    if (!conversation.variables.is_object()) return Error{file_ + ": the variables must be an object"};
    for (const auto& [name, value] : conversation.variables.items()) variables[name] = value;
    return chosen->second.render(variables, now);
}

std::tm local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm result{};
    ::localtime_r(&now, &result);
    return result;
}

}  // namespace chaos::text
