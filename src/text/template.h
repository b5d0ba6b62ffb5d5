// Templates as Jinja2 renders them: what turns a conversation into the text a model was trained on.
//
// A template comes with its model (text/chat.h knows where) and is rendered as Hugging Face's transformers do it:
// trim_blocks and lstrip_blocks on, autoescape off, nothing in a value may be changed. Supported is what the templates
// of Llama, Qwen and Mistral models use, and what comes naturally with it:
//
//   statements  {{ }}, {# #}, raw, if/elif/else, for (with if and else), break, continue, set (also blocks and
//               members of a namespace), macro (at the top level), filter, with, generation
//   expressions all operators of Jinja; literals; slices; calls with named arguments; inline if; tests and filters
//   filters     abs capitalize count d default dictsort first float indent int items join last length list lower map
//               max min reject rejectattr replace reverse safe select selectattr sort string sum title tojson trim
//               unique upper
//   tests       boolean callable defined divisibleby eq equalto even false float ge gt in integer iterable le lower lt
//               mapping ne none number odd sameas sequence string true undefined upper and the operators' signs
//   functions   dict namespace raise_exception range strftime_now
//   methods     of strings: capitalize count endswith find isalnum isalpha isdigit isspace join lower lstrip
//               removeprefix removesuffix replace rfind rsplit rstrip split splitlines startswith strip title upper;
//               of mappings: copy get items keys values; of lists: count index; of loop: cycle
//
// Everything else is refused with its name and line: tags when the template is read, filters, tests, functions and
// methods when they are reached, as Jinja does it. Known differences: whole numbers have 64 bits (more is an error),
// letters whose other case is more than one letter keep theirs (but for ß), and inside a loop or a macro a variable
// that was given from outside is seen even where the template sets one of that name further down.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace chaos::text {

inline constexpr std::size_t max_template_bytes = std::size_t{1} << 20;
inline constexpr std::size_t max_rendered_bytes = std::size_t{16} << 20;
inline constexpr std::size_t max_template_steps = 10'000'000;
// Of expressions and statements in one another, when read; of those and calls of macros, when rendered.
inline constexpr int max_template_depth = 100;
inline constexpr int max_rendering_depth = 600;

// Several threads may render one template at once.
class Template {
public:
    // `name` stands for the template in errors: "NAME, line 7: ...".
    static Result<Template> parse(std::string_view source, const std::string& name);

    ~Template();
    Template(Template&&) noexcept;
    Template& operator=(Template&&) noexcept;

    // `variables` is an object. Its members keep their order, and so does every object in it: that is the order in
    // which a model sees the fields of a tool. `now` is what strftime_now tells.
    [[nodiscard]] Result<std::string> render(const nlohmann::ordered_json& variables, const std::tm& now) const;

private:
    struct Parsed;
    explicit Template(std::unique_ptr<const Parsed> parsed);
    std::unique_ptr<const Parsed> parsed_;
};

}  // namespace chaos::text
