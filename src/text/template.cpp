#include "text/template.h"

#include "text/template_machine.h"
#include "text/template_parser.h"

#include <nlohmann/json.hpp>

namespace chaos::text {

struct Template::Parsed {
    std::string name;
    Body body;
};

Template::Template(std::unique_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Result<Template> Template::parse(std::string_view source, const std::string& name) {
    if (source.size() > max_template_bytes) {
        return Error{name + " is longer than " + std::to_string(max_template_bytes >> 20) + " MiB"};
    }
    Result<Body> body = parse_template(source);
    if (!body) return Error{name + ", " + body.error().message};
    return Template(std::make_unique<const Parsed>(Parsed{name, std::move(*body)}));
}

Result<std::string> Template::render(const nlohmann::ordered_json& variables, const std::tm& now) const {
    TemplateMachine machine(now);
    // The machine looks at names that stay where they are: those of `variables`.
    for (const auto& [name, json] : variables.get_ref<const nlohmann::ordered_json::object_t&>()) {
        Result<Value> value = value_of(json);
        if (!value) return Error{parsed_->name + ": the variable '" + name + "': " + value.error().message};
        machine.set(name, std::move(*value));
    }
    Result<std::string> text = machine.run(parsed_->body);
    if (!text) return Error{parsed_->name + ", " + text.error().message};
    return text;
}

}  // namespace chaos::text
