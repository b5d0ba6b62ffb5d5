// A compiled regular expression. Matching is thread-safe: its working memory belongs to the calling thread.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

struct pcre2_real_code_8;

namespace chaos::text {

// Where a match lies, in bytes.
struct Range {
    std::size_t begin;
    std::size_t end;
};

class Regex {
public:
    // `pattern` is in Oniguruma's syntax. The error is the end of a sentence, like that of to_pcre2.
    static Result<Regex> compile(std::string_view pattern);

    // The first match that starts at `from` or later; what precedes `from` is seen by look-behind. `text` must be valid
    // UTF-8. A pattern that needs more steps or memory than the limits allow counts as not matching.
    [[nodiscard]] std::optional<Range> find(std::string_view text, std::size_t from) const;

private:
    struct Free {
        void operator()(pcre2_real_code_8* code) const;
    };
    using Code = std::unique_ptr<pcre2_real_code_8, Free>;
    explicit Regex(Code code) : code_(std::move(code)) {}

    Code code_;
};

}  // namespace chaos::text
