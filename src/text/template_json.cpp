#include "text/template_json.h"

#include "text/utf8.h"

#include <algorithm>
#include <cmath>

namespace chaos::text {
namespace {

class Writer {
public:
    Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

    Result<void> write(const Value& value) {
        CHAOS_CHECK(budget_.spend(1));
        if (out.size() > max_rendered_bytes) return budget_.spend_bytes(out.size());
        if (const std::string* text = value.as_text()) {
            CHAOS_CHECK(budget_.spend_bytes(text->size()));
            write_string(*text);
        } else if (value.is_none()) {
            out += "null";
        } else if (const auto* flag = value.as<bool>()) {
            out += *flag ? "true" : "false";
        } else if (const auto* whole = value.as<std::int64_t>()) {
            out += std::to_string(*whole);
        } else if (const auto* real = value.as<double>()) {
            out += text_of_number(*real);
        } else if (const Sequence* sequence = value.as_sequence();
                   sequence != nullptr &&
                   (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple)) {
            return write_items(*sequence);
        } else if (const Mapping* mapping = value.as_mapping()) {
            return write_entries(*mapping);
        } else {
            return Error{"a value of the type " + std::string(type_of(value)) + " cannot be written as JSON"};
        }
        return {};
    }

    std::string out;

private:
    static std::string text_of_number(double number) {
        if (std::isnan(number)) return "NaN";
        if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
        return repr_of(number);
    }

    Result<void> write_items(const Sequence& sequence) {
        if (sequence.items.empty()) {
            out += "[]";
            return {};
        }
        out += '[';
        ++level_;
        bool is_first = true;
        for (const Value& item : sequence.items) {
            begin_item(is_first);
            is_first = false;
            CHAOS_CHECK(write(item));
        }
        --level_;
        break_line();
        out += ']';
        return {};
    }

    Result<void> write_entries(const Mapping& mapping) {
        if (mapping.entries.empty()) {
            out += "{}";
            return {};
        }
        std::vector<const std::pair<Value, Value>*> entries;
        entries.reserve(mapping.entries.size());
        for (const auto& entry : mapping.entries) entries.push_back(&entry);
        if (style_.sort_keys) {
            for (const auto* entry : entries)
                if (entry->first.as_text() == nullptr) return Error{"only texts as keys can be sorted"};
            std::ranges::sort(entries,
                              [](const auto* a, const auto* b) { return *a->first.as_text() < *b->first.as_text(); });
        }
        out += '{';
        ++level_;
        bool is_first = true;
        for (const auto* entry : entries) {
            begin_item(is_first);
            is_first = false;
            CHAOS_CHECK(write_key(entry->first));
            out += style_.key_separator;
            CHAOS_CHECK(write(entry->second));
        }
        --level_;
        break_line();
        out += '}';
        return {};
    }

    Result<void> write_key(const Value& key) {
        if (key.as_text() != nullptr) return write(key);
        out += '"';
        CHAOS_CHECK(write(key));
        out += '"';
        return {};
    }

    void begin_item(bool is_first) {
        if (!is_first) out += style_.item_separator;
        break_line();
    }

    void break_line() {
        if (!style_.indent) return;
        out += '\n';
        for (int level = 0; level < level_; ++level) out += *style_.indent;
    }

    void write_string(std::string_view text) {
        out += '"';
        for (std::size_t at = 0; at < text.size();) {
            const Character character = character_at(text, at);
            write_character(character.code, text.substr(at, character.bytes));
            at += character.bytes;
        }
        out += '"';
    }

    void write_character(char32_t code, std::string_view bytes) {
        constexpr std::string_view special = "\"\\\n\r\t\f\b";
        constexpr std::string_view names = "\"\\nrtfb";
        const std::size_t index = code < 0x80 ? special.find(static_cast<char>(code)) : std::string_view::npos;
        if (index != std::string_view::npos) {
            out += '\\';
            out += names[index];
        } else if (code < 0x20 || (style_.ensure_ascii && code > 0x7E && code < 0x10000)) {
            if (code == 0x7F) {
                out += '\x7F';
            } else {
                write_unit(code);
            }
        } else if (style_.ensure_ascii && code >= 0x10000) {
            write_unit(0xD800 + ((code - 0x10000) >> 10));
            write_unit(0xDC00 + ((code - 0x10000) & 0x3FFU));
        } else {
            out += bytes;
        }
    }

    void write_unit(char32_t unit) {
        out += "\\u";
        for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[unit >> shift & 15U];
    }

    const JsonStyle& style_;
    Budget& budget_;
    int level_ = 0;
};

}  // namespace

Result<std::string> to_json(const Value& value, const JsonStyle& style, Budget& budget) {
    Writer writer(style, budget);
    CHAOS_CHECK(writer.write(value));
    CHAOS_CHECK(budget.spend_bytes(writer.out.size()));
    return std::move(writer.out);
}

}  // namespace chaos::text
