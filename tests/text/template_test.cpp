#include "text/template.h"

#include "base/file.h"
#include "text/document.h"
#include "text/jinja.h"
#include "text/seed.h"
#include "text/template_random.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace chaos::text {
namespace {

using nlohmann::ordered_json;
using test::error_of;

// The moment that jinja_reference.py tells, too.
std::tm now() {
    std::tm time{};
    time.tm_year = 2026 - 1900;
    time.tm_mon = 6;
    time.tm_mday = 4;
    time.tm_hour = 5;
    time.tm_min = 6;
    time.tm_sec = 7;
    time.tm_wday = 6;
    time.tm_yday = 184;
    return time;
}

Result<std::string> render(const std::string& source, const ordered_json& variables = ordered_json::object()) {
    CHAOS_TRY(const Template parsed, Template::parse(source, "t"));
    return parsed.render(variables, now());
}

ordered_json read_json(const std::string& name) {
    return ordered_json::parse(read_file(std::string(CHAOS_SOURCE "/tests/text/") + name).value());
}

// Each of the cases is a template with what Jinja2 3.1 makes of it.
TEST(Template, Texts) {
    const ordered_json cases = read_json("template_cases.json");
    for (const ordered_json& one : cases["texts"]) {
        const auto source = one["template"].get<std::string>();
        const auto text = render(source, cases["variables"]);
        ASSERT_TRUE(text.ok()) << source << "\n" << error_of(text);
        EXPECT_EQ(*text, one["text"].get<std::string>()) << source;
    }
}

TEST(Template, Errors) {
    const ordered_json cases = read_json("template_cases.json");
    for (const ordered_json& one : cases["errors"]) {
        const auto source = one["template"].get<std::string>();
        EXPECT_EQ(error_of(render(source, cases["variables"])), one["error"].get<std::string>()) << source;
    }
}

TEST(Template, JinjaAgreesOnTheCases) {
    CHAOS_NEED_JINJA(command);
    const ordered_json file = read_json("template_cases.json");
    std::vector<ordered_json> cases;
    for (const char* kind : {"texts", "errors"}) {
        for (const ordered_json& one : file[kind]) {
            cases.push_back({{"template", one["template"]}, {"variables", file["variables"]}, {"expected", one}});
        }
    }
    const auto answers = test::render_with_jinja(*command, cases);
    ASSERT_EQ(answers.size(), cases.size());
    for (std::size_t index = 0; index < cases.size(); ++index) {
        const ordered_json& expected = cases[index]["expected"];
        EXPECT_EQ(answers[index].contains("text"), expected.contains("text")) << expected << answers[index];
        if (!expected.contains("text")) continue;
        EXPECT_EQ(answers[index]["text"], expected["text"]) << expected["template"];
    }
}

ordered_json conversations() {
    return read_json("conversations.json");
}

ordered_json with_defaults(const ordered_json& conversation) {
    ordered_json variables = {{"messages", ordered_json::array()}, {"tools", nullptr},   {"documents", nullptr},
                              {"add_generation_prompt", true},     {"bos_token", "<s>"}, {"eos_token", "</s>"}};
    for (const auto& [name, value] : conversation.items()) variables[name] = value;
    return variables;
}

// Templates in the manner of those that models bring along.
class ModelTemplate : public testing::TestWithParam<const char*> {};

TEST_P(ModelTemplate, RendersAsJinjaDoes) {
    CHAOS_NEED_JINJA(command);
    const std::string source =
        read_file(std::string(CHAOS_SOURCE "/tests/text/templates/") + GetParam() + ".jinja").value();
    std::vector<ordered_json> cases;
    for (const ordered_json& one : conversations()) {
        cases.push_back({{"template", source}, {"variables", with_defaults(one)}});
    }
    const auto answers = test::render_with_jinja(*command, cases);
    ASSERT_EQ(answers.size(), cases.size());
    std::size_t rendered = 0;
    for (std::size_t index = 0; index < cases.size(); ++index) {
        const auto text = render(source, cases[index]["variables"]);
        EXPECT_EQ(text.ok(), answers[index].contains("text")) << answers[index] << error_of(text);
        if (!text.ok() || !answers[index].contains("text")) continue;
        EXPECT_EQ(*text, answers[index]["text"].get<std::string>());
        ++rendered;
    }
    EXPECT_GE(rendered, 5U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ModelTemplate, testing::Values("llama2", "llama3", "qwen3", "mistral"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(Template, RandomOnesAsJinjaRendersThem) {
    CHAOS_NEED_JINJA(command);
    const std::uint64_t seed = test::random_seed();
    const ordered_json variables = read_json("template_cases.json")["variables"];
    std::vector<ordered_json> cases;
    for (std::uint64_t number = 0; number < 300; ++number) {
        cases.push_back({{"template", test::random_template(seed, number)}, {"variables", variables}});
    }
    const auto answers = test::render_with_jinja(*command, cases);
    ASSERT_EQ(answers.size(), cases.size());
    std::size_t rendered = 0;
    for (std::size_t index = 0; index < cases.size(); ++index) {
        const auto source = cases[index]["template"].get<std::string>();
        const auto text = render(source, variables);
        ASSERT_EQ(text.ok(), answers[index].contains("text")) << "template " << index << ":\n"
                                                              << source << "\n"
                                                              << answers[index] << "\n"
                                                              << error_of(text);
        if (!text.ok()) continue;
        ASSERT_EQ(*text, answers[index]["text"].get<std::string>()) << "template " << index << ":\n" << source;
        ++rendered;
    }
    EXPECT_GE(rendered, cases.size() / 4);
}

TEST(Template, ErrorsTellTheLine) {
    EXPECT_EQ(error_of(render("a\n{{ x.y }}")), "t, line 2: 'x' is undefined");
    EXPECT_EQ(error_of(render("a\r\n\r\n{% if true %}\n{% include 'x' %}{% endif %}")),
              "t, line 4: the tag 'include' is not supported");
    EXPECT_EQ(error_of(render("\n{%- set x -%}\n\n{{ 1 | groupby }}{% endset %}")),
              "t, line 4: the filter 'groupby' is not supported");
    EXPECT_EQ(error_of(render("{% for x in [1] %}\n{% macro f() %}{% endmacro %}{% endfor %}")),
              "t, line 2: a macro inside a loop or a block is not supported");
}

// A template may not use more than its share of the machine, whatever it does.
TEST(Template, Limits) {
    const auto fails = [](const std::string& source, const std::string& why) {
        const std::string error = error_of(render(source));
        EXPECT_NE(error.find(why), std::string::npos) << source.substr(0, 200) << "\n" << error;
    };
    const std::string loops = "{% set r = range(100000) %}{% for a in r %}{% for b in r %}";
    const std::string ends = "{% endfor %}{% endfor %}";
    fails(loops + ends, "takes more than 10000000 steps");
    fails(loops + "x" + ends, "takes more than 10000000 steps");
    fails("{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
          "longer than 16 MiB");
    fails("{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
          "longer than 16 MiB");
    fails("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "steps");
    fails("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
          "longer than 16 MiB");
    fails("{% set ns = namespace(x=[1]) %}{% for i in range(101) %}{% set ns.x = [ns.x] %}{% endfor %}",
          "nested more than 100 deep");
    fails(
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "steps");
    fails("{{ 'a' * 99999999999 }}", "longer than 16 MiB");
    fails("{{ [1] * 99999999999 }}", "steps");
    fails("{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaa'.replace('a', 'b' * 9999999) }}", "longer than 16 MiB");
    fails("{% for i in range(9999) %}{{ 'a' * 99999 }}{% endfor %}", "longer than 16 MiB");
    fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested more than 600 deep");
    fails("{{ 9223372036854775807 + 1 }}", "more than 64 bits");
    fails("{{ 9223372036854775808 }}", "is not supported");
    fails("{{ 10 ** 99 }}", "more than 64 bits");
    fails("{{ " + std::string(200, '(') + "1" + std::string(200, ')') + " }}", "nested too deeply");
    fails("{{ " + std::string(200, '-') + "1 }}", "nested too deeply");
    fails("{{ 1" + std::string(200, '|') + " }}", "is missing");
    std::string sum = "{{ 1";
    for (int index = 0; index < 200; ++index) sum += "+1";
    fails(sum + " }}", "nested more than 100 deep");
    std::string ifs;
    for (int index = 0; index < 200; ++index) ifs += "{% if 1 %}";
    fails(ifs, "nested more than 100 deep");
    fails(std::string(max_template_bytes + 1, 'x'), "longer than 1 MiB");
}

TEST(Template, DeepVariablesAreRefused) {
    ordered_json deep = 1;
    for (int level = 0; level < 200; ++level) deep = ordered_json::array({deep});
    EXPECT_EQ(error_of(render("x", {{"deep", deep}})), "t: the variable 'deep': values are nested more than 100 deep");
    EXPECT_EQ(error_of(render("x", {{"large", 18446744073709551615U}})),
              "t: the variable 'large': the number 18446744073709551615 is too large");
}

TEST(Template, ObjectsKeepTheirOrder) {
    const auto variables = ordered_json::parse(R"({"tool": {"type": "function", "function": {"name": "f", "a": 1}}})");
    EXPECT_EQ(*render("{{ tool | tojson }}", variables), R"({"type": "function", "function": {"name": "f", "a": 1}})");
}

}  // namespace
}  // namespace chaos::text
