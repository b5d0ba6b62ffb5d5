#include "run/keys.h"
#include "run/run.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace chaos::run {
namespace {

// A field's value in its one canonical spelling; none for paths, which say where a thing lies and not what it is.
struct FieldText {
    using Text = std::optional<std::string>;

    Text operator()(const WholeNumber& field) const { return std::to_string(*field.value); }
    Text operator()(const RealNumber& field) const { return number_text(*field.value); }
    Text operator()(const Seed& field) const { return std::to_string(*field.value); }
    Text operator()(const Flag& field) const { return *field.value ? "true" : "false"; }
    Text operator()(const Word& field) const { return *field.value; }
    Text operator()(const WholeNumbers& field) const {
        std::string text;
        for (const std::int64_t number : *field.value) text += (text.empty() ? "" : ",") + std::to_string(number);
        return text;
    }
    Text operator()(const File&) const { return std::nullopt; }
    Text operator()(const Folder&) const { return std::nullopt; }
    Text operator()(const Files&) const { return std::nullopt; }
};

// Lengths keep ("ab", "c") and ("a", "bc") apart.
void add_with_length(Sha256& sha, std::string_view text) {
    std::array<std::byte, 8> length;
    for (std::size_t i = 0; i < length.size(); ++i) {
        length[i] = static_cast<std::byte>(static_cast<std::uint64_t>(text.size()) >> (8 * i));
    }
    sha.add(length).add(text);
}

// Of the keys that apply to it.
Identity values_of(const Run& run, const auto& wanted) {
    Run copy = run;  // keys() hands out pointers for writing
    Identity identity;
    for (const Key& key : keys(copy)) {
        if (!wanted(key) || (key.refusal != nullptr && !key.refusal(copy).empty())) continue;
        if (auto text = std::visit(FieldText{}, key.field)) identity.emplace(key.name, std::move(*text));
    }
    return identity;
}

}  // namespace

Identity identity(const Run& run) {
    return values_of(run, [](const Key& key) { return key.mathematics; });
}

Identity shared_settings(const Run& run) {
    return values_of(run, [](const Key& key) { return key.shared; });
}

Digest hash(const Identity& identity) {
    Sha256 sha;
    for (const auto& [key, value] : identity) {
        add_with_length(sha, key);
        add_with_length(sha, value);
    }
    return sha.finish();
}

}  // namespace chaos::run
