#include "text/chat.h"

#include "base/file.h"
#include "shared.h"
#include "temporary_folder.h"
#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using nlohmann::ordered_json;
using test::error_of;

Conversation hello() {
    Conversation conversation;
    conversation.messages = ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
    return conversation;
}

Result<std::string> render_from(const std::filesystem::path& folder, const Conversation& conversation) {
    CHAOS_TRY(const std::optional<ChatFormat> format, ChatFormat::read(folder));
    if (!format) return Error{"no template"};
    return format->render(conversation, local_time());
}

TEST(Chat, ModelsWithoutATemplate) {
    const test::TemporaryFolder folder;
    EXPECT_EQ(error_of(render_from(folder.path(), hello())), "no template");
    folder.write("tokenizer_config.json", R"({"bos_token": "<s>"})");
    EXPECT_EQ(error_of(render_from(folder.path(), hello())), "no template");
}

TEST(Chat, TheTemplateOfTheTokenizersConfiguration) {
    const test::TemporaryFolder folder;
    folder.write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null,
        "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}{{ tools }}"})");
    EXPECT_EQ(*render_from(folder.path(), hello()), "<s>hi</s>FalseNone");
}

TEST(Chat, AFileOfItsOwnGoesFirst) {
    const test::TemporaryFolder folder;
    folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": "old"})");
    folder.write("chat_template.jinja", "new {{ bos_token }}{{ add_generation_prompt }}{{ enable_thinking }}");
    Conversation conversation = hello();
    EXPECT_EQ(*render_from(folder.path(), conversation), "new <s>True");
    conversation.add_generation_prompt = false;
    conversation.variables["enable_thinking"] = false;
    EXPECT_EQ(*render_from(folder.path(), conversation), "new <s>FalseFalse");
}

TEST(Chat, ATemplateForTools) {
    const test::TemporaryFolder folder;
    folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "plain"},
        {"name": "tool_use", "template": "tools: {{ tools | tojson }}"}, {"name": "rag", "template": "{% nonsense"}]})");
    Conversation conversation = hello();
    EXPECT_EQ(*render_from(folder.path(), conversation), "plain");
    conversation.tools = ordered_json::parse(R"([{"type": "function"}])");
    EXPECT_EQ(*render_from(folder.path(), conversation), R"(tools: [{"type": "function"}])");
    folder.write("additional_chat_templates/tool_use.jinja", "more tools");
    EXPECT_EQ(*render_from(folder.path(), conversation), "more tools");
}

TEST(Chat, Refusals) {
    const test::TemporaryFolder folder;
    const auto refusal = [&](const std::string& config) {
        folder.write("tokenizer_config.json", config);
        const std::string error = error_of(render_from(folder.path(), hello()));
        const std::string name = (folder / "tokenizer_config.json").string();
        return error.starts_with(name) ? error.substr(name.size()) : error;
    };
    EXPECT_EQ(refusal("{"), " is not valid JSON");
    EXPECT_EQ(refusal("[]"), " must be an object");
    EXPECT_EQ(refusal(R"({"chat_template": 1})"), ": chat_template must be an array");
    EXPECT_EQ(refusal(R"({"chat_template": [{"name": "x"}]})"), ": chat_template[0] has no 'template'");
    EXPECT_EQ(refusal(R"({"chat_template": [{"name": "x", "template": ""}]})"),
              " has no chat template named 'default'");
    EXPECT_EQ(refusal(R"({"chat_template": [{"name": "tool_use", "template": ""}]})"),
              " has a chat template for conversations with tools only");
    EXPECT_EQ(refusal(R"({"chat_template": "a\n{% do x %}"})"), ", line 2: the tag 'do' is not supported");
    EXPECT_EQ(refusal(R"({"chat_template": "{{ raise_exception('System role not supported') }}"})"),
              ", line 1: the template refuses this: System role not supported");
    EXPECT_EQ(refusal(R"({"bos_token": 7})"), ": bos_token must be a string");
}

class ChatReference : public testing::TestWithParam<const char*> {};

TEST_P(ChatReference, PromptsOfTheReferenceModels) {
    CHAOS_NEED_SHARED("models");
    const auto folder = test::shared("models") / GetParam();
    const ordered_json expected = ordered_json::parse(read_file(folder / "expected.json").value())["chat"];
    Conversation conversation;
    conversation.messages = expected["messages"];
    EXPECT_EQ(*render_from(folder, conversation), expected["prompt"].get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Shared, ChatReference,
                         testing::Values("llama3-shakespeare", "llama2-tiny", "qwen2-tiny", "qwen3-tiny"),
                         [](const auto& tested) {
                             std::string name = tested.param;
                             std::ranges::replace(name, '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace chaos::text
