#include "text/decoder.h"

#include "text/byte_alphabet.h"
#include "text/utf8.h"

#include <array>
#include <charconv>
#include <limits>
#include <string_view>

namespace chaos::text {
namespace {

constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

// The byte that a token like "<0x0A>" stands for.
std::optional<char> byte_of_token(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    unsigned byte = 0;
    const char* end = token.data() + 5;
    const auto parsed = std::from_chars(token.data() + 3, end, byte, 16);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
    return static_cast<char>(byte);
}

std::string joined(const std::vector<std::string>& tokens, std::string_view separator) {
    std::string text;
    for (const std::string& token : tokens) {
        if (&token != &tokens.front()) text += separator;
        text += token;
    }
    return text;
}

}  // namespace

Result<Decoder> Decoder::parse(const std::optional<Field>& field) {
    Decoder decoder;
    if (!field) return decoder;
    decoder.separator_.clear();
    CHAOS_TRY(const std::vector<Field> steps, steps_of(*field, "decoders"));
    for (const Field& step : steps) {
        CHAOS_TRY(Step parsed, parse_step(step));
        decoder.steps_.push_back(std::move(parsed));
    }
    return decoder;
}

Result<Decoder::Step> Decoder::parse_step(const Field& field) {
    CHAOS_TRY(const Field type, field.at("type"));
    CHAOS_TRY(const std::string name, type.text());
    if (name == "ByteLevel") return Step(ByteLevel{});
    if (name == "ByteFallback") return Step(ByteFallback{});
    if (name == "Fuse") return Step(Fuse{});
    if (name == "Replace") {
        CHAOS_TRY(const Field pattern_field, field.at("pattern"));
        CHAOS_TRY(Pattern pattern, Pattern::parse(pattern_field));
        CHAOS_TRY(const Field content, field.at("content"));
        CHAOS_TRY(std::string text, content.text());
        return Step(Replace{std::move(pattern), std::move(text)});
    }
    if (name == "Strip") {
        constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
        CHAOS_TRY(const Field content, field.at("content"));
        CHAOS_TRY(const char32_t code, content.character());
        CHAOS_TRY(const Field start_field, field.at("start"));
        CHAOS_TRY(const std::int64_t start, start_field.integer(0, most));
        CHAOS_TRY(const Field stop_field, field.at("stop"));
        CHAOS_TRY(const std::int64_t stop, stop_field.integer(0, most));
        Strip strip{"", static_cast<std::size_t>(start), static_cast<std::size_t>(stop)};
        append_character(strip.content, code);
        return Step(std::move(strip));
    }
    if (name == "Metaspace") {
        CHAOS_TRY(Metaspace metaspace, Metaspace::parse(field));
        return Step(std::move(metaspace));
    }
    constexpr std::array<std::string_view, 7> supported = {"ByteLevel", "Replace",   "ByteFallback", "Fuse",
                                                           "Strip",     "Metaspace", "Sequence"};
    return type.unsupported(name, supported);
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
    for (const Step& step : steps_) {
        tokens = std::visit([&](const auto& kind) { return apply(kind, std::move(tokens)); }, step);
    }
    return joined(tokens, separator_);
}

std::string Decoder::bytes_of(std::string token) const {
    bool fused = false;
    for (const Step& step : steps_) {
        if (std::holds_alternative<Fuse>(step)) fused = true;
        // What strips the whole text leaves its middle alone.
        if (fused && std::holds_alternative<Strip>(step)) continue;
        if (std::holds_alternative<ByteLevel>(step)) {
            std::string bytes;
            append_bytes(bytes, token);
            token = std::move(bytes);
        } else if (const auto byte = byte_of_token(token); byte && std::holds_alternative<ByteFallback>(step)) {
            token = std::string(1, *byte);
        } else {
            const auto behind_another = [&](const auto& kind) { return apply(kind, Tokens{"", token}).back(); };
            token = std::visit(behind_another, step);
        }
        if (valid_utf8_bytes(token) != token.size()) return token;  // steps that follow change whole characters
    }
    return separator_ + token;
}

void Decoder::append_bytes(std::string& bytes, const std::string& token) {
    const std::size_t start = bytes.size();
    for (std::size_t at = 0; at < token.size();) {
        const Character character = character_at(token, at);
        const std::optional<std::uint8_t> byte = byte_of(character.code);
        if (!byte) {
            // A token that was added later may use any character; it stands for itself.
            bytes.resize(start);
            bytes += token;
            return;
        }
        bytes.push_back(static_cast<char>(*byte));
        at += character.bytes;
    }
}

bool Decoder::is_byte(const std::string& token) {
    return byte_of_token(token).has_value();
}

Decoder::Tokens Decoder::apply(const ByteLevel&, const Tokens& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) append_bytes(bytes, token);
    return {replace_invalid_utf8(bytes)};
}

Decoder::Tokens Decoder::apply(const Replace& step, Tokens tokens) {
    for (std::string& token : tokens) {
        std::string replaced;
        step.pattern.for_each(token, [&](Range range, bool is_match) {
            replaced += is_match ? std::string_view(step.content)
                                 : std::string_view(token).substr(range.begin, range.end - range.begin);
        });
        token = std::move(replaced);
    }
    return tokens;
}

Decoder::Tokens Decoder::apply(const ByteFallback&, Tokens tokens) {
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
        if (valid_utf8_bytes(bytes) == bytes.size()) {
            if (!bytes.empty()) result.push_back(bytes);
        } else {
            result.insert(result.end(), bytes.size(), std::string(replacement_character));
        }
        bytes.clear();
    };
    for (std::string& token : tokens) {
        if (const std::optional<char> byte = byte_of_token(token)) {
            bytes.push_back(*byte);
        } else {
            flush();
            result.push_back(std::move(token));
        }
    }
    flush();
    return result;
}

Decoder::Tokens Decoder::apply(const Fuse&, const Tokens& tokens) {
    return {joined(tokens, "")};
}

Decoder::Tokens Decoder::apply(const Strip& step, Tokens tokens) {
    for (std::string& token : tokens) {
        std::string_view rest = token;
        for (std::size_t count = 0; count < step.start && rest.starts_with(step.content); ++count) {
            rest.remove_prefix(step.content.size());
        }
        for (std::size_t count = 0; count < step.stop && rest.ends_with(step.content); ++count) {
            rest.remove_suffix(step.content.size());
        }
        token = std::string(rest);
    }
    return tokens;
}

Decoder::Tokens Decoder::apply(const Metaspace& step, Tokens tokens) {
    bool is_first = true;
    for (std::string& token : tokens) {
        const bool drops = is_first && step.prepend != Metaspace::Prepend::never;
        is_first = false;
        std::string replaced;
        for (std::size_t at = 0; at < token.size();) {
            const std::size_t space = std::min(token.find(step.replacement, at), token.size());
            replaced.append(token, at, space - at);
            if (space < token.size() && !drops) replaced += ' ';
            at = space + step.replacement.size();
        }
        token = std::move(replaced);
    }
    return tokens;
}

}  // namespace chaos::text
