#include "text/regex_syntax.h"

#include "text/document.h"

#include <gtest/gtest.h>
#include <utility>

namespace chaos::text {
namespace {

TEST(RegexSyntax, LeavesAloneWhatMeansTheSame) {
    for (const char* pattern :
         {"", "a|b", R"((?i:'s|'t)|\p{L}+|\p{N}{1,3})", R"([^\r\n\p{L}\p{N}]?+\p{L}++)",
          R"((?<=a)b(?=c)(?!d)(?<!e)(?>f))", R"(\d\D\.\\\[\]\x{4e00}\x41)", "[a-z{}]", "a{2}b{2,}c{2,3}?", "{", "a{x}",
          R"((?<n>a)\k<n>(b)\1)", R"(\A\z\Z)", "[\\\\]\"#$%&'()*+,\\-./]", "[一-龥぀-ゟ゠-ヿ]+", R"(\x{41}+)"}) {
        const auto translated = to_pcre2(pattern);
        ASSERT_TRUE(translated.ok()) << pattern << ": " << translated.error().message;
        EXPECT_EQ(*translated, pattern);
    }
}

TEST(RegexSyntax, RewritesWhatWouldDiffer) {
    const std::string word = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}])";
    const std::pair<const char*, std::string> cases[] = {
        {R"(\s+(?!\S))", R"(\p{White_Space}+(?!\P{White_Space}))"},
        {R"([^\s\w])", R"([^\p{White_Space}\p{Alphabetic}\p{M}\p{Nd}\p{Pc}])"},
        {R"(\w\W)", word + R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}])"},
        {R"(\h\H[\h])", "[0-9A-Fa-f][^0-9A-Fa-f][0-9A-Fa-f]"},
        {R"(\v[\v])", R"(\x0b[\x0b])"},
        {R"(\u4e00)", R"(\x{4e00})"},
        {R"(\b)", "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))"},
        {R"(\B)", "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))"},
        {R"([\b])", R"([\b])"},
        {R"(\\s)", R"(\\s)"},
        {"a{,3}", "a{0,3}"},
        {"(?m:.)(?mi:.)(?i-m:.)", "(?s:.)(?si:.)(?i-s:.)"},
        {"(?i)a|(?:(?i)b)", "(?i)a|(?:(?i)b)"},
        {"[^(a|[.,!])]+", "[^(a|.,!)]+"},
        {"[]a][^]]", R"([\]a][^\]])"},
    };
    for (const auto& [pattern, expected] : cases) {
        const auto translated = to_pcre2(pattern);
        ASSERT_TRUE(translated.ok()) << pattern << ": " << translated.error().message;
        EXPECT_EQ(*translated, expected);
    }
}

TEST(RegexSyntax, RefusesWhatItCannotRewrite) {
    const std::pair<const char*, const char*> cases[] = {
        {"[[:alpha:]]", "a POSIX class like [:alpha:]"},
        {"[a[^b]]", "a negated class inside a class"},
        {"[a&&b]", "an intersection of classes (&&)"},
        {R"([\W])", R"(\W inside a class)"},
        {R"(\R)", R"(\R)"},
        {R"(\K)", R"(\K)"},
        {R"(\g<a>)", R"(\g)"},
        {R"(\u12)", R"(\u)"},
        {R"(\p{L)", "'{' without '}'"},
        {"(*FAIL)", "(*"},
        {"(?~a)", "a group that begins with (?~"},
        {"(?x)a", "a group that begins with (?x"},
        {"a(?i)b|c", "a group that begins with (?i)"},
        {"a{1,3}+", "{1,3}+ (a repetition of a repetition to Oniguruma)"},
        {"a{3}?", "{3}? (a repetition of a repetition to Oniguruma)"},
        {"\\", "\\"},
    };
    for (const auto& [pattern, what] : cases) {
        const std::string message = test::error_of(to_pcre2(pattern));
        EXPECT_TRUE(message.starts_with(std::string("uses ") + what)) << pattern << ": " << message;
        EXPECT_TRUE(message.ends_with(", which is not supported")) << message;
    }
}

}  // namespace
}  // namespace chaos::text
