// Random templates of what text/template.h supports, for comparison with Jinja2. Many are wrong in one way or another;
// then both must refuse them.
#pragma once

#include "base/random.h"

#include <cstdint>
#include <string>
#include <vector>

namespace chaos::test {

class TemplateWriter {
public:
    TemplateWriter(std::uint64_t seed, std::uint64_t number) : seed_(seed), number_(number) {}

    std::string body(int depth) {
        std::string result;
        const std::uint64_t count = 1 + pick(3);
        for (std::uint64_t index = 0; index < count; ++index) result += statement(depth);
        return result;
    }

private:
    std::uint64_t pick(std::uint64_t count) { return random_bits(seed_, number_, ++drawn_) % count; }
    std::string one(const std::vector<std::string>& choices) { return choices[pick(choices.size())]; }

    std::string block(const std::string& inside) {
        return one({"{% ", "{%- ", "{% ", "{%+ "}) + inside + one({" %}", " -%}", " %}", " +%}"});
    }

    std::string statement(int depth) {
        switch (depth <= 0 ? pick(3) : pick(10)) {
            case 0:
                return one({"text", "\n", " \n  ", "a b\n", "\n\n", "  ", "{ x }", "é\t", "}}", "\n {# c #}\n"});
            case 1:
            case 2:
            case 3:
                return one({"{{ ", "{{- "}) + expression(depth) + one({" }}", " -}}"});
            case 4:
                return block("if " + expression(depth - 1)) + body(depth - 1) +
                       (pick(2) == 0 ? block("elif " + expression(depth - 1)) + body(depth - 1) : "") +
                       (pick(2) == 0 ? block("else") + body(depth - 1) : "") + block("endif");
            case 5:
                return block("for x in " + iterable(depth - 1) + (pick(4) == 0 ? " if x" : "")) + body(depth - 1) +
                       one({"", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.previtem }}", "{{ loop.length }}",
                            "{% if loop.index > 2 %}{% break %}{% endif %}"}) +
                       (pick(4) == 0 ? block("else") + body(depth - 1) : "") + block("endfor");
            case 6:
                return block("set " + one({"y", "z"}) + " = " + expression(depth - 1));
            case 7:
                return block("set q") + body(depth - 1) + block("endset") + "{{ q }}";
            case 8:
                return block("set ns = namespace(a=" + expression(0) + ")") + block("set ns.a = " + expression(1)) +
                       "{{ ns.a }}";
            default:
                return block("for k, v in d.items()") + one({"{{ k }}", "{{ v }}", "{{ k ~ v }}"}) + block("endfor");
        }
    }

    std::string iterable(int depth) {
        return one({"l", "m", "s", "d", "e", "range(4)", "l[1:]", "m[::-1]", "missing", "(" + expression(depth) + ")",
                    "l|sort", "d|dictsort", "m|map(attribute='role')", "[" + expression(depth) + ", 2]"});
    }

    std::string expression(int depth) {
        if (depth <= 0) {
            return one({"s",       "n",           "f",        "l",         "d",
                        "e",       "t",           "u",        "w",         "missing",
                        "1",       "0",           "-3",       "2.5",       "''",
                        "'abc'",   "\"a\\nb\"",   "none",     "true",      "false",
                        "x",       "y",           "z",        "m[0].role", "m[1]['content']",
                        "d.a",     "d['b']",      "l[0]",     "l[-1]",     "s[1:4]",
                        "u[::-1]", "loop.index0", "l|length", "n % 3"});
        }
        const auto inner = [&] { return expression(depth - 1); };
        switch (pick(12)) {
            case 0:
                return inner() + " " + one({"+", "-", "*", "~", "//", "/"}) + " " + inner();
            case 1:
                return inner() + " " + one({"==", "!=", "<", "<=", ">", ">=", "in", "not in"}) + " " + inner();
            case 2:
                return inner() + " " + one({"and", "or"}) + " " + inner();
            case 3:
                return "not " + inner();
            case 4:
                return "(" + inner() + " if " + inner() + (pick(4) == 0 ? "" : " else " + inner()) + ")";
            case 5:
                return "(" + inner() + ")|" +
                       one({"trim",
                            "upper",
                            "lower",
                            "length",
                            "string",
                            "list",
                            "first",
                            "last",
                            "join",
                            "join('-')",
                            "default('d')",
                            "default(7, true)",
                            "tojson",
                            "tojson(indent=2)",
                            "replace('a', 'é')",
                            "int",
                            "float",
                            "capitalize",
                            "title",
                            "reverse|list",
                            "sort",
                            "unique|list",
                            "min",
                            "max",
                            "map('string')|join(',')",
                            "select|list",
                            "reject('none')|list",
                            "indent(2)",
                            "abs",
                            "selectattr('role')|list",
                            "count",
                            "items|list",
                            "dictsort",
                            "sum"});
            case 6:
                return "(" + inner() + ") is " + one({"", "", "not "}) +
                       one({"defined", "undefined", "none",  "string", "mapping", "iterable",     "sequence",
                            "number",  "boolean",   "true",  "false",  "integer", "float",        "odd",
                            "even",    "lower",     "upper", "eq 3",   "in l",    "divisibleby 2"});
            case 7:
                return "(" + inner() + ")." + one({"strip()",       "split(',')",
                                                   "split()",       "upper()",
                                                   "lower()",       "startswith('a')",
                                                   "endswith('d')", "replace('l', '')",
                                                   "rstrip('d')",   "find('o')",
                                                   "title()",       "get('a')",
                                                   "get('q', 3)",   "keys()|list",
                                                   "values()|list", "items()|list",
                                                   "role",          "0",
                                                   "count('a')",    "splitlines()",
                                                   "lstrip()"});
            case 8:
                // Of a name: Jinja slices constants when it compiles, and swallows what is wrong with that.
                return one({"s", "l", "u", "m", "n", "w", "x", "y", "d", "missing"}) + "[" +
                       one({"0", "-1", "1:", ":-1", "::-1", "'a'", "1:3", "::2", "9"}) + "]";
            case 9:
                return "[" + inner() + ", " + inner() + "]";
            case 10:
                return "{'k': " + inner() + ", 'j': " + inner() + "}";
            default:
                return inner();
        }
    }

    std::uint64_t seed_;
    std::uint64_t number_;
    std::uint64_t drawn_ = 0;
};

inline std::string random_template(std::uint64_t seed, std::uint64_t number) {
    return TemplateWriter(seed, number).body(3);
}

}  // namespace chaos::test
