#include "text/normalizer.h"

#include "text/utf8.h"

#include <utf8proc.h>
#include <array>

namespace chaos::text {
namespace {

// A character may become that many bytes and no more.
constexpr std::size_t max_content_bytes = 256;

Result<std::string> parse_content(const Field& step, std::string_view key) {
    CHAOS_TRY(const Field field, step.at(key));
    CHAOS_TRY(std::string content, field.text());
    if (content.size() > max_content_bytes) {
        return field.error("is longer than " + std::to_string(max_content_bytes) + " bytes");
    }
    return content;
}

bool is_ascii(char byte) {
    return static_cast<unsigned char>(byte) < 0x80;
}

// Appends the normal form of `text`, reusing `codes` as working memory.
void append_normal_form(std::string_view text, utf8proc_option_t options, std::vector<utf8proc_int32_t>& codes,
                        std::string& result) {
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const auto size = static_cast<utf8proc_ssize_t>(text.size());
    const auto decompose = [&] {
        return utf8proc_decompose(bytes, size, codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
    };
    // utf8proc_reencode writes a terminator, and its bytes over the codes: one more element holds both.
    utf8proc_ssize_t count = decompose();
    CHAOS_ASSERT(count >= 0);
    if (codes.size() <= static_cast<std::size_t>(count)) {
        codes.resize(2 * static_cast<std::size_t>(count) + 1);
        count = decompose();
    }
    const utf8proc_ssize_t written = utf8proc_reencode(codes.data(), count, options);
    CHAOS_ASSERT(written >= 0);
    result.append(reinterpret_cast<const char*>(codes.data()), static_cast<std::size_t>(written));
}

}  // namespace

Result<Normalizer> Normalizer::parse(const std::optional<Field>& field) {
    Normalizer normalizer;
    if (!field) return normalizer;
    CHAOS_TRY(const std::vector<Field> steps, steps_of(*field, "normalizers"));
    for (const Field& step : steps) {
        CHAOS_TRY(Step parsed, parse_step(step));
        normalizer.steps_.push_back(std::move(parsed));
    }
    return normalizer;
}

Result<Normalizer::Step> Normalizer::parse_step(const Field& field) {
    CHAOS_TRY(const Field type, field.at("type"));
    CHAOS_TRY(const std::string name, type.text());
    if (name == "NFC") return Step(Form::nfc);
    if (name == "NFD") return Step(Form::nfd);
    if (name == "NFKC") return Step(Form::nfkc);
    if (name == "NFKD") return Step(Form::nfkd);
    if (name == "Prepend") {
        CHAOS_TRY(std::string content, parse_content(field, "prepend"));
        return Step(Prepend{std::move(content)});
    }
    if (name == "Replace") {
        CHAOS_TRY(const Field pattern_field, field.at("pattern"));
        CHAOS_TRY(Pattern pattern, Pattern::parse(pattern_field));
        CHAOS_TRY(std::string content, parse_content(field, "content"));
        return Step(Replace{std::move(pattern), std::move(content)});
    }
    constexpr std::array<std::string_view, 7> supported = {"NFC",     "NFD",     "NFKC",    "NFKD",
                                                           "Prepend", "Replace", "Sequence"};
    return type.unsupported(name, supported);
}

Piece Normalizer::normalize(Piece piece, std::string& buffer) const {
    std::string next;
    for (const Step& step : steps_) {
        next.clear();
        piece.at_start = std::visit([&](const auto& kind) { return apply(kind, piece, next); }, step);
        buffer.swap(next);
        piece.text = buffer;
    }
    return piece;
}

bool Normalizer::apply(Form form, Piece piece, std::string& result) {
    const bool composed = form == Form::nfc || form == Form::nfkc;
    const bool compatible = form == Form::nfkc || form == Form::nfkd;
    unsigned flags = UTF8PROC_STABLE;
    flags |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    if (compatible) flags |= UTF8PROC_COMPAT;
    // The library's options are the bits of an enumeration.
    const auto options = static_cast<utf8proc_option_t>(flags);  // NOLINT(clang-analyzer-optin.core.EnumCastOutOfRange)

    // An ASCII character never changes and never joins what precedes it, so only the runs of others matter, each with
    // the ASCII character before it, which their first mark may join.
    const std::string_view text = piece.text;
    std::vector<utf8proc_int32_t> codes;
    result.reserve(text.size());
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t other = at;
        while (other < text.size() && is_ascii(text[other])) ++other;
        if (other == text.size()) break;
        const std::size_t begin = other == at ? other : other - 1;
        std::size_t end = other;
        while (end < text.size() && !is_ascii(text[end])) ++end;
        result.append(text.substr(at, begin - at));
        append_normal_form(text.substr(begin, end - begin), options, codes, result);
        at = end;
    }
    result.append(text.substr(at));
    return piece.at_start;
}

bool Normalizer::apply(const Prepend& prepend, Piece piece, std::string& result) {
    if (!piece.text.empty()) result.append(prepend.content).append(piece.text);
    return piece.at_start;
}

bool Normalizer::apply(const Replace& replace, Piece piece, std::string& result) {
    bool at_start = piece.at_start;
    result.reserve(piece.text.size());
    replace.pattern.for_each(piece.text, [&](Range range, bool is_match) {
        const std::string_view stretch = piece.text.substr(range.begin, range.end - range.begin);
        if (!is_match) {
            result.append(stretch);
            return;
        }
        result.append(replace.content);
        // New text stands where the last character that it replaces stood.
        if (range.begin == 0 && !stretch.empty()) {
            const bool moved = replace.content.empty() || character_at(stretch, 0).bytes != stretch.size();
            at_start = at_start && !moved;
        }
    });
    return at_start;
}

}  // namespace chaos::text
