// Metaspace writes spaces as a visible character, usually "▁". As a pre-tokenizer it puts them in, as a decoder it
// takes them out.
#pragma once

#include "base/result.h"
#include "text/fields.h"

#include <string>

namespace chaos::text {

struct Metaspace {
    // Which pieces of a text get a space before them when they have none.
    enum class Prepend { first, always, never };

    // Newer files say `prepend_scheme`, older ones `add_prefix_space`.
    static Result<Metaspace> parse(const Field& field);

    std::string replacement;
    Prepend prepend = Prepend::always;
    bool split = true;
};

}  // namespace chaos::text
