// How a model wants a conversation written: its chat template and the special tokens that the template names.
//
// A Hugging Face folder has the template in chat_template.jinja (and others, for certain uses, in
// additional_chat_templates/NAME.jinja), or in `chat_template` of tokenizer_config.json, as one text or as a list of
// named ones. A GGUF file has it in its metadata, as tokenizer.chat_template and tokenizer.chat_template.NAME.
// The one named "tool_use" serves conversations with tools, "default" all others.
#pragma once

#include "base/result.h"
#include "text/template.h"

#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace chaos::text {

struct Conversation {
    nlohmann::ordered_json messages;         // an array of {"role": ..., "content": ...}
    nlohmann::ordered_json tools = nullptr;  // null, or an array of functions as OpenAI's API describes them
    bool add_generation_prompt = true;       // end with the beginning of the assistant's answer
    // More names that templates know, like {"enable_thinking": false}; they come before all others.
    nlohmann::ordered_json variables = nlohmann::ordered_json::object();
};

class ChatFormat {
public:
    // The sources of templates by name, and texts of special tokens by theirs: {"bos_token", "<s>"}. `file` stands for
    // the templates in errors.
    static Result<ChatFormat> parse(const std::map<std::string, std::string>& sources,
                                    std::map<std::string, std::string> special_tokens, const std::string& file);
    // None where the model comes without a template.
    static Result<std::optional<ChatFormat>> read(const std::filesystem::path& folder);

    // What goes through Tokenizer::encode without special tokens added, because the template wrote them.
    [[nodiscard]] Result<std::string> render(const Conversation& conversation, const std::tm& now) const;

private:
    ChatFormat() = default;

    std::string file_;
    std::map<std::string, Template> templates_;
    std::map<std::string, std::string> special_tokens_;
};

// The time here, for templates that tell it.
[[nodiscard]] std::tm local_time();

}  // namespace chaos::text
