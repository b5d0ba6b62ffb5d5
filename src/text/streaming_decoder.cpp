#include "text/streaming_decoder.h"

#include "text/utf8.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace chaos::text {

DecoderStream::DecoderStream(const Decoder& decoder) : decoder_(decoder), states_(decoder.steps_.size()) {
    const auto& steps = decoder.steps_;
    const auto joins = [](const Decoder::Step& step) {
        return std::holds_alternative<Decoder::Fuse>(step) || std::holds_alternative<Decoder::ByteLevel>(step);
    };
    joining_ = static_cast<std::size_t>(std::ranges::find_if(steps, joins) - steps.begin());
    if (joining_ == steps.size()) return;
    joins_bytes_ = std::holds_alternative<Decoder::ByteLevel>(steps[joining_]);
    for (std::size_t index = joining_ + 1; index < steps.size(); ++index) {
        const auto* strip_step = std::get_if<Decoder::Strip>(&steps[index]);
        if (strip_step == nullptr) {
            holds_all_ = true;
        } else {
            states_[index].to_strip = strip_step->start;
        }
    }
}

std::string DecoderStream::push(std::string token) {
    if (holds_all_) {
        held_.push_back(std::move(token));
        return "";
    }
    return pass({std::move(token)}, false);
}

std::string DecoderStream::finish() {
    if (holds_all_) return decoder_.decode(std::exchange(held_, {}));
    return pass({}, true);
}

std::string DecoderStream::pass(Tokens tokens, bool is_end) {
    for (std::size_t index = 0; index < joining_; ++index) tokens = apply_step(index, std::move(tokens), is_end);
    std::string text = std::exchange(unfinished_, "");
    for (const std::string& token : tokens) {
        if (joins_bytes_) {
            Decoder::append_bytes(text, token);
        } else {
            if (has_text_) text += decoder_.separator_;
            has_text_ = true;
            text += token;
        }
    }
    if (joins_bytes_) {
        const std::size_t complete = text.size() - (is_end ? 0 : unfinished_utf8_bytes(text));
        unfinished_ = text.substr(complete);
        text = replace_invalid_utf8(std::string_view(text).substr(0, complete));
    }
    for (std::size_t index = joining_ + 1; index < states_.size(); ++index) {
        text = strip(index, text, is_end);
    }
    return text;
}

DecoderStream::Tokens DecoderStream::apply_step(std::size_t index, Tokens tokens, bool is_end) {
    State& state = states_[index];
    const Decoder::Step& step = decoder_.steps_[index];
    if (std::holds_alternative<Decoder::ByteFallback>(step)) {
        Tokens all = std::exchange(state.bytes, {});
        all.insert(all.end(), std::move_iterator(tokens.begin()), std::move_iterator(tokens.end()));
        auto run = all.end();
        while (!is_end && run != all.begin() && Decoder::is_byte(*std::prev(run))) --run;
        state.bytes.assign(std::move_iterator(run), std::move_iterator(all.end()));
        all.erase(run, all.end());
        return Decoder::apply(Decoder::ByteFallback{}, std::move(all));
    }
    if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
        if (tokens.empty()) return tokens;
        Metaspace now = *metaspace;
        if (std::exchange(state.has_begun, true)) now.prepend = Metaspace::Prepend::never;
        return Decoder::apply(now, std::move(tokens));
    }
    return std::visit([&](const auto& kind) { return Decoder::apply(kind, std::move(tokens)); }, step);
}

std::string DecoderStream::strip(std::size_t index, const std::string& text, bool is_end) {
    const auto& step = std::get<Decoder::Strip>(decoder_.steps_[index]);
    State& state = states_[index];
    std::string_view rest = text;
    while (state.to_strip > 0 && !rest.empty()) {
        if (!rest.starts_with(step.content)) {
            state.to_strip = 0;
            break;
        }
        rest.remove_prefix(step.content.size());
        --state.to_strip;
    }
    std::string kept = std::exchange(state.end, "");
    kept += rest;
    std::size_t shown = kept.size();
    for (std::size_t count = 0; count < step.stop; ++count) {
        if (!std::string_view(kept).substr(0, shown).ends_with(step.content)) break;
        shown -= step.content.size();
    }
    if (!is_end) state.end = kept.substr(shown);
    kept.resize(shown);
    return kept;
}

Continuation::Continuation(const Tokenizer& tokenizer, std::span<const TokenId> prompt) : decoder_(tokenizer) {
    std::string shown;
    for (const TokenId id : prompt) shown += decoder_.push(id);
    const std::string whole = tokenizer.decode(prompt);
    if (whole.starts_with(shown)) held_ = whole.substr(shown.size());
}

std::string Continuation::behind_prompt(std::string text) {
    if (text.starts_with(held_)) {
        text.erase(0, held_.size());
        held_.clear();
        return text;
    }
    if (held_.starts_with(text)) {
        held_.erase(0, text.size());
        return "";
    }
    held_.clear();
    return text;
}

}  // namespace chaos::text
