// Decodes ids that come one by one, as a model makes them. What push() and, at last, finish() return is together
// exactly what Tokenizer::decode makes of all ids, and every part of it is whole characters.
//
// Held back is what a later id may still change: the bytes of a character that is not complete; bytes that are tokens
// of their own ("<0xE2>"), as long as more of them follow, because one that is wrong spoils its whole run; and what a
// decoder would strip from the end. For a decoder whose steps stand in an order that no model uses, that is everything.
//
// A text begins as decode() has it, for SentencePiece without its first space. One that goes on from a prompt is a
// Continuation.
#pragma once

#include "text/decoder.h"
#include "text/tokenizer.h"

#include <span>
#include <string>
#include <vector>

namespace chaos::text {

// The same for tokens instead of ids. The decoder must outlive it.
class DecoderStream {
public:
    explicit DecoderStream(const Decoder& decoder);

    [[nodiscard]] std::string push(std::string token);
    [[nodiscard]] std::string finish();

private:
    using Tokens = Decoder::Tokens;
    // What a step that sees one token after the other has to remember.
    struct State {
        Tokens bytes;              // of ByteFallback: a run that may go on
        bool has_begun = false;    // of Metaspace: the first token has passed
        std::size_t to_strip = 0;  // of Strip behind the joining step: how many more at the start
        std::string end;           // and what it strips if the text ends here
    };

    [[nodiscard]] std::string pass(Tokens tokens, bool is_end);
    [[nodiscard]] Tokens apply_step(std::size_t index, Tokens tokens, bool is_end);
    [[nodiscard]] std::string strip(std::size_t index, const std::string& text, bool is_end);

    const Decoder& decoder_;
    std::size_t joining_;  // the step that makes one token of all, or the number of steps
    bool joins_bytes_ = false;
    bool holds_all_ = false;
    Tokens held_;  // all tokens, where they are held back
    std::vector<State> states_;
    bool has_text_ = false;   // a separator goes before the next token
    std::string unfinished_;  // the beginning of a character
};

// The tokenizer must outlive it.
class StreamingDecoder {
public:
    explicit StreamingDecoder(const Tokenizer& tokenizer, bool skip_special = true)
        : tokenizer_(tokenizer), skip_special_(skip_special), stream_(tokenizer.decoder()) {}

    [[nodiscard]] std::string push(TokenId id) {
        const std::string* spelling = tokenizer_.spelling_of(id, skip_special_);
        return spelling == nullptr ? std::string() : stream_.push(*spelling);
    }
    // The rest. Nothing may follow.
    [[nodiscard]] std::string finish() { return stream_.finish(); }

private:
    const Tokenizer& tokenizer_;
    bool skip_special_;
    DecoderStream stream_;
};

// A text that goes on as after a prompt: the prompt's text and what comes here are together the text of all ids. The
// end of a prompt may be held back too, and would come with what follows. Where an id changes it (the rest of a
// character whose beginning ends the prompt), it does come, as it is now. Without a prompt it is a text of its own. The
// tokenizer must outlive it.
class Continuation {
public:
    Continuation(const Tokenizer& tokenizer, std::span<const TokenId> prompt);

    [[nodiscard]] std::string push(TokenId id) { return behind_prompt(decoder_.push(id)); }
    [[nodiscard]] std::string finish() { return behind_prompt(decoder_.finish()); }

private:
    [[nodiscard]] std::string behind_prompt(std::string text);

    StreamingDecoder decoder_;
    std::string held_;  // of the prompt, and comes yet
};

}  // namespace chaos::text
