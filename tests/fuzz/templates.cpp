// A chat template of a stranger's model, and what a stranger says to it: SOURCE, a zero byte, and JSON variables.
#include "fuzz/seeds.h"
#include "text/template.h"
#include "text/utf8.h"

#include "base/assert.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace {

using namespace chaos;
using nlohmann::ordered_json;

constexpr std::string_view conversation = R"({"messages": [{"role": "system", "content": " Be brief.\n"},
    {"role": "user", "content": "Hé 🤖"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi",
    "type": "function", "function": {"name": "f", "arguments": {"x": 1.5, "y": [1, null, true]}}}]},
    {"role": "tool", "content": "<answer>"}], "tools": [{"type": "function", "function": {"name": "f",
    "parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}}], "add_generation_prompt": true,
    "bos_token": "<s>", "eos_token": "</s>", "s": "a,b", "n": 7, "l": [3, 1, 2], "d": {"b": 1, "a": [1]}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t border = std::min(input.find('\0'), input.size());
    const Result<text::Template> parsed = text::Template::parse(input.substr(0, border), "t");
    if (!parsed) {
        CHAOS_ASSERT(parsed.error().message.starts_with("t"));
        return 0;
    }
    ordered_json variables = ordered_json::parse(input.substr(std::min(border + 1, size)), nullptr, false);
    if (!variables.is_object()) variables = ordered_json::parse(conversation);
    const Result<std::string> rendered = parsed->render(variables, {});
    if (rendered) {
        CHAOS_ASSERT(rendered->size() <= text::max_rendered_bytes);
        CHAOS_ASSERT(text::valid_utf8_bytes(*rendered) == rendered->size());
    } else {
        CHAOS_ASSERT(rendered.error().message.starts_with("t"));
    }
    return 0;
}

std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    const auto add = [&](std::string_view text) { seeds.emplace_back(text.begin(), text.end()); };
    add("{%- for m in messages -%}<|{{ m['role'] }}|>{{ m.content | trim }}{% if not loop.last %}\n{% endif %}{% "
        "endfor %}");
    add("{% set ns = namespace(a=0) %}{% for x in l if x > 1 %}{% set ns.a = ns.a + x %}{% else %}{% endfor %}{{ ns.a "
        "}}");
    add("{% macro f(a, b=2) %}{{ a ~ b }}{% endmacro %}{{ f(1)|upper }}{{ tools | tojson(indent=2) }}");
    add("{{ messages[::-1] | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | join(', ') }}");
    add("{{ s.split(',')[-1].strip() }}{{ d.items() | list }}{{ n // 2 ** 3 % 5 if n is defined else none }}{# c #}");
    add("{% if n > 3 and s in d or not l %}a{% elif d == {'a': [1]} %}b{% else %}{{ raise_exception('x') }}{% endif "
        "%}");
    add("{% set x | indent(2) %}a\nb{% endset %}{{ x[1:-1:2] }}{% raw %}{{ }}{% endraw %}{{ "
        "'\\u00e9'|title|replace('a','b') }}");
    add("{% filter upper %}{% with a = 1.5e3, b = (1,) %}{{ a * b|length }}{% endwith %}{% endfilter %}{{ l|sort|first "
        "}}");
    add("{% generation %}{{ d | dictsort }}{% break %}{% endgeneration %}{{ strftime_now('%d %b %Y') }}{{ range(3)|sum "
        "}}");
    add(std::string_view("{{ a }}{{ b.c }}\0{\"a\": 1, \"b\": {\"c\": [null]}}", 42));
    return seeds;
}
