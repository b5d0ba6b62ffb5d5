#include "text/pre_tokenizer.h"

#include "text/byte_alphabet.h"
#include "text/characters.h"
#include "text/utf8.h"

#include <algorithm>
#include <array>

namespace chaos::text {
namespace {

constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

// One text on its way through the steps. Words go depth first, so that only one text per step is in memory.
class PreTokenizer::Run {
public:
    Run(const std::vector<Step>& steps, const Sink& sink) : steps_(steps), sink_(sink), buffers_(steps.size()) {}

    void pass(std::size_t index, Piece piece) {
        if (piece.text.empty()) return;
        if (index == steps_.size()) {
            sink_(piece.text);
            return;
        }
        std::visit([&](const auto& step) { apply(step, index, piece); }, steps_[index]);
    }

private:
    struct Buffers {
        std::string text;
        std::string word;
    };

    // Collects the stretches of `piece`, matches and what lies between them, and passes on the words they make.
    template <class Emit>
    class Joiner {
    public:
        Joiner(Behavior behavior, const Emit& emit) : behavior_(behavior), emit_(emit) {}

        void add(Range range, bool is_match) {
            if (behavior_ == Behavior::removed && is_match) {
                flush();
            } else if (pending_ && joins(is_match)) {
                pending_->end = range.end;
            } else {
                flush();
                pending_ = range;
            }
            previous_is_match_ = is_match;
        }

        // To be called once more after the last stretch.
        void flush() {
            if (pending_) emit_(*pending_);
            pending_.reset();
        }

    private:
        [[nodiscard]] bool joins(bool is_match) const {
            switch (behavior_) {
                case Behavior::merged_with_previous:
                    return is_match && !previous_is_match_;
                case Behavior::merged_with_next:
                    return !is_match && previous_is_match_;
                case Behavior::contiguous:
                    return is_match == previous_is_match_;
                case Behavior::removed:
                case Behavior::isolated:
                    return false;
            }
            return false;
        }

        Behavior behavior_;
        const Emit& emit_;
        std::optional<Range> pending_;
        bool previous_is_match_ = false;
    };

    static Piece part(Piece piece, Range range) {
        return {piece.text.substr(range.begin, range.end - range.begin), piece.at_start && range.begin == 0};
    }

    void apply(const Split& split, std::size_t index, Piece piece) {
        const auto emit = [&](Range range) { pass(index + 1, part(piece, range)); };
        Joiner joiner(split.behavior, emit);
        split.pattern.for_each(piece.text,
                               [&](Range range, bool is_match) { joiner.add(range, is_match != split.invert); });
        joiner.flush();
    }

    void apply(const ByteLevel& byte_level, std::size_t index, Piece piece) {
        std::string& text = buffers_[index].text;
        std::string& word = buffers_[index].word;
        if (byte_level.add_prefix_space && !piece.text.starts_with(' ')) {
            text.assign(" ").append(piece.text);
            piece.text = text;
        }
        const auto emit = [&](Range range) {
            const Piece bytes = part(piece, range);
            word.clear();
            append_as_alphabet(word, bytes.text);
            pass(index + 1, {word, bytes.at_start});
        };
        if (byte_level.pattern) {
            byte_level.pattern->for_each(piece.text, [&](Range range, bool) { emit(range); });
        } else {
            emit({0, piece.text.size()});
        }
    }

    void apply(const Metaspace& metaspace, std::size_t index, Piece piece) {
        std::string& text = buffers_[index].text;
        const std::string& replacement = metaspace.replacement;
        text.clear();
        text.reserve(piece.text.size());
        const bool starts_with_space = piece.text.starts_with(' ') || piece.text.starts_with(replacement);
        const bool may_prepend = metaspace.prepend == Metaspace::Prepend::always ||
                                 (metaspace.prepend == Metaspace::Prepend::first && piece.at_start);
        if (may_prepend && !starts_with_space) text += replacement;
        for (std::size_t at = 0; at < piece.text.size();) {
            const std::size_t space = std::min(piece.text.find(' ', at), piece.text.size());
            text.append(piece.text.substr(at, space - at));
            if (space < piece.text.size()) text += replacement;
            at = space + 1;
        }
        piece.text = text;
        if (!metaspace.split) {
            pass(index + 1, piece);
            return;
        }
        // Every space begins a word.
        std::size_t begin = 0;
        while (begin < text.size()) {
            const std::size_t end = std::min(text.find(replacement, begin + 1), text.size());
            pass(index + 1, part(piece, {begin, end}));
            begin = end;
        }
    }

    void apply(const Digits& digits, std::size_t index, Piece piece) {
        const auto emit = [&](Range range) { pass(index + 1, part(piece, range)); };
        Joiner joiner(digits.individual ? Behavior::isolated : Behavior::contiguous, emit);
        std::size_t covered = 0;
        for (std::size_t at = 0; at < piece.text.size();) {
            const Character character = character_at(piece.text, at);
            const std::size_t end = at + character.bytes;
            if (is_numeric(character.code)) {
                if (covered < at) joiner.add({covered, at}, false);
                joiner.add({at, end}, true);
                covered = end;
            }
            at = end;
        }
        if (covered < piece.text.size()) joiner.add({covered, piece.text.size()}, false);
        joiner.flush();
    }

    const std::vector<Step>& steps_;
    const Sink& sink_;
    std::vector<Buffers> buffers_;
};

Result<PreTokenizer> PreTokenizer::parse(const std::optional<Field>& field) {
    PreTokenizer result;
    if (!field) return result;
    CHAOS_TRY(const std::vector<Field> steps, steps_of(*field, "pretokenizers"));
    for (const Field& step : steps) {
        CHAOS_TRY(Step parsed, parse_step(step));
        result.steps_.push_back(std::move(parsed));
    }
    return result;
}

Result<PreTokenizer::Behavior> PreTokenizer::parse_behavior(const Field& field) {
    CHAOS_TRY(const std::string name, field.text());
    if (name == "Removed") return Behavior::removed;
    if (name == "Isolated") return Behavior::isolated;
    if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
    if (name == "MergedWithNext") return Behavior::merged_with_next;
    if (name == "Contiguous") return Behavior::contiguous;
    constexpr std::array<std::string_view, 5> supported = {"Removed", "Isolated", "MergedWithPrevious",
                                                           "MergedWithNext", "Contiguous"};
    return field.unsupported(name, supported);
}

Result<PreTokenizer::Step> PreTokenizer::parse_step(const Field& field) {
    CHAOS_TRY(const Field type, field.at("type"));
    CHAOS_TRY(const std::string name, type.text());
    if (name == "Split") {
        CHAOS_TRY(const Field pattern_field, field.at("pattern"));
        CHAOS_TRY(Pattern pattern, Pattern::parse(pattern_field));
        CHAOS_TRY(const Field behavior_field, field.at("behavior"));
        CHAOS_TRY(const Behavior behavior, parse_behavior(behavior_field));
        CHAOS_TRY(const bool invert, field.flag_at("invert"));
        return Step(Split{std::move(pattern), behavior, invert});
    }
    if (name == "ByteLevel") {
        ByteLevel byte_level{};
        CHAOS_TRY(byte_level.add_prefix_space, field.flag_at("add_prefix_space"));
        CHAOS_TRY(const bool use_regex, field.flag_at("use_regex", true));
        if (use_regex) {
            CHAOS_TRY(Regex regex, Regex::compile(gpt2_pattern));
            byte_level.pattern.emplace(std::move(regex));
        }
        return Step(std::move(byte_level));
    }
    if (name == "Metaspace") {
        CHAOS_TRY(Metaspace metaspace, Metaspace::parse(field));
        return Step(std::move(metaspace));
    }
    if (name == "Digits") {
        CHAOS_TRY(const bool individual, field.flag_at("individual_digits"));
        return Step(Digits{individual});
    }
    constexpr std::array<std::string_view, 5> supported = {"Split", "ByteLevel", "Metaspace", "Digits", "Sequence"};
    return type.unsupported(name, supported);
}

void PreTokenizer::split(Piece piece, const Sink& sink) const {
    Run(steps_, sink).pass(0, piece);
}

}  // namespace chaos::text
