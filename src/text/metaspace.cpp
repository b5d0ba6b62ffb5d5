#include "text/metaspace.h"

#include "text/utf8.h"

#include <array>

namespace chaos::text {
namespace {

Result<Metaspace::Prepend> parse_scheme(const Field& field) {
    CHAOS_TRY(const std::string name, field.text());
    if (name == "first") return Metaspace::Prepend::first;
    if (name == "always") return Metaspace::Prepend::always;
    if (name == "never") return Metaspace::Prepend::never;
    constexpr std::array<std::string_view, 3> supported = {"first", "always", "never"};
    return field.unsupported(name, supported);
}

}  // namespace

Result<Metaspace> Metaspace::parse(const Field& field) {
    Metaspace metaspace;
    CHAOS_TRY(const Field replacement, field.at("replacement"));
    CHAOS_TRY(const char32_t code, replacement.character());
    append_character(metaspace.replacement, code);
    CHAOS_TRY(metaspace.split, field.flag_at("split", true));

    CHAOS_TRY(const bool add_prefix_space, field.flag_at("add_prefix_space", true));
    if (!add_prefix_space) metaspace.prepend = Prepend::never;
    CHAOS_TRY(const std::optional<Field> scheme, field.find("prepend_scheme"));
    if (scheme) {
        CHAOS_TRY(metaspace.prepend, parse_scheme(*scheme));
        if (!add_prefix_space && metaspace.prepend != Prepend::never) {
            return scheme->error("contradicts 'add_prefix_space', which is false");
        }
    }
    return metaspace;
}

}  // namespace chaos::text
