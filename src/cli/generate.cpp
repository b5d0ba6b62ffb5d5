#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/quantities.h"
#include "infer/model_text.h"
#include "infer/scheduler.h"
#include "infer/stop_strings.h"
#include "text/streaming_decoder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace chaos::cli {
namespace {

using infer::Ending;
using infer::TokenId;
using nlohmann::json;

const char* name_of(Ending ending) {
    switch (ending) {
        case Ending::stop:
            return "stop";
        case Ending::length:
            return "length";
        case Ending::context:
            return "context";
        case Ending::cancelled:
            return "cancelled";
        case Ending::failed:
            return "failed";
    }
    return "";
}

// Takes what the model says, and shows it at once where that is wanted.
class Answer {
public:
    using Clock = std::chrono::steady_clock;

    // `tokenizer` null: numbers are shown. `window` null: the model has none.
    Answer(const text::Tokenizer* tokenizer, const infer::Window* window, std::span<const TokenId> prompt,
           const GenerateOptions& options)
        : window_(window), stop_(options.stop), quiet_(options.json) {
        if (tokenizer == nullptr) return;
        decoder_.emplace(*tokenizer, prompt);
    }

    infer::Listener listener(const infer::Config& config, bool ignore_eos) {
        return {[this, ends = config.eos_tokens, ignore_eos](const infer::Sampled& sampled) {
                    const bool last = !ignore_eos && std::find(ends.begin(), ends.end(), sampled.token) != ends.end();
                    return take(sampled.token, last);
                },
                [this](const infer::Ended& end) { ended_ = end; }};
    }
    void finish() {
        if (!decoder_ || stop_.stopped()) return;
        say(stop_.push(decoder_->finish()));
        say(stop_.finish());
    }

    [[nodiscard]] const infer::Ended& ended() const { return ended_.value(); }
    [[nodiscard]] const std::vector<TokenId>& ids() const { return ids_; }
    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] double seconds_to_first() const { return std::chrono::duration<double>(first_ - begin_).count(); }
    // Of all tokens but the first, which waits for the prompt.
    [[nodiscard]] double tokens_per_second() const {
        const double took = std::chrono::duration<double>(last_ - first_).count();
        return took > 0.0 ? static_cast<double>(ids_.size() - 1) / took : 0.0;
    }
    // Of the same tokens.
    [[nodiscard]] double read_bytes_per_token() const {
        return ids_.size() > 1
                   ? static_cast<double>(last_read_bytes_ - first_read_bytes_) / static_cast<double>(ids_.size() - 1)
                   : 0.0;
    }

private:
    bool take(TokenId token, bool last) {
        ids_.push_back(token);
        last_ = Clock::now();
        last_read_bytes_ = window_ != nullptr ? window_->read_bytes() : 0;
        if (ids_.size() == 1) {
            first_ = last_;
            first_read_bytes_ = last_read_bytes_;
        }
        if (last) return true;  // the end is not part of the text
        if (!decoder_) {
            say((ids_.size() > 1 ? "," : "") + std::to_string(token));
            return true;
        }
        say(stop_.push(decoder_->push(token)));
        return !stop_.stopped();
    }
    void say(const std::string& more) {
        text_ += more;
        if (quiet_) return;
        std::fputs(more.c_str(), stdout);
        std::fflush(stdout);
    }

    const infer::Window* window_;
    std::optional<text::Continuation> decoder_;
    infer::StopStrings stop_;
    bool quiet_ = false;
    std::vector<TokenId> ids_;
    std::string text_;
    std::optional<infer::Ended> ended_;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point first_ = begin_;
    Clock::time_point last_ = begin_;
    std::uint64_t first_read_bytes_ = 0;
    std::uint64_t last_read_bytes_ = 0;
};

void print_json(const Answer& answer, std::span<const TokenId> prompt, bool text, const infer::Scheduler& scheduler,
                const LoadedModel& loaded) {
    json result = {{"prompt_ids", prompt},
                   {"ids", answer.ids()},
                   {"ending", name_of(answer.ended().ending)},
                   {"seconds_to_first_token", answer.seconds_to_first()},
                   {"tokens_per_second", answer.tokens_per_second()},
                   {"guessed_tokens", scheduler.guessed()},
                   {"guessed_right", scheduler.guessed_right()}};
    if (loaded.forecast) {
        result["window"] = window_json(loaded);
        result["window"]["read_bytes_per_token"] = answer.read_bytes_per_token();
    }
    if (text) result["text"] = answer.text();
    std::printf("%s\n", result.dump().c_str());
}

}  // namespace

Result<void> generate(const GenerateOptions& options) {
    CHAOS_TRY(const auto kv_type, parse_kv_type(options.kv));
    CHAOS_TRY(auto file, infer::ModelFile::open(options.model));
    infer::Request request;
    request.max_tokens = options.max_tokens;
    request.sampling = {options.temperature, options.top_k, options.top_p, options.min_p, options.seed};
    request.ignore_end = options.ignore_eos;
    CHAOS_CHECK(infer::check(request.sampling));
    // With ids a model that has no tokenizer is good enough.
    const auto tokenizer = infer::tokenizer_of(file);
    if (!options.ids.empty()) {
        CHAOS_TRY(request.prompt, parse_ids(options.ids));
    } else {
        if (!tokenizer) return Error(tokenizer.error());
        request.prompt = tokenizer->encode(options.prompt);
    }
    const auto most = static_cast<std::size_t>(file.config().max_context);
    if (request.prompt.size() > most)
        return Error{"the prompt has " + std::to_string(request.prompt.size()) + " tokens, the model's context only " +
                     std::to_string(most)};

    const std::size_t context = std::min(most, request.prompt.size() + options.max_tokens);
    const std::size_t tokens = infer::Scheduler::min_batch(1);
    const LoadOptions needs = {.threads = options.threads,
                               .memory = options.memory,
                               .kv_bytes = infer::KvCache::bytes(file.config(), context, kv_type),
                               .min_tokens = tokens,
                               .logits = tokens};
    CHAOS_TRY(const auto loaded, load_model(std::move(file), needs));
    CHAOS_TRY(auto scheduler,
              infer::Scheduler::make(
                  *loaded->engine,
                  {.sequences = 1, .context = context, .kv_type = kv_type, .speculate = !options.no_speculation}));
    const std::vector<TokenId> prompt = request.prompt;
    Answer answer(tokenizer ? &*tokenizer : nullptr, loaded->model->window(), prompt, options);
    CHAOS_CHECK(scheduler.submit(std::move(request), answer.listener(loaded->model->config(), options.ignore_eos)));
    while (scheduler.step()) {
    }
    if (answer.ended().ending == Ending::failed) return Error{answer.ended().error};
    answer.finish();
    if (options.json) {
        print_json(answer, prompt, tokenizer.ok(), scheduler, *loaded);
        return {};
    }
    std::printf("\n");
    if (answer.ended().ending == Ending::context)
        std::fprintf(stderr, "chaos: the text ends because the model's context of %zu tokens is full\n", most);
    if (loaded->forecast && answer.tokens_per_second() > 0.0)
        std::fprintf(stderr, "%.0f ms per token, where %.0f were expected\n", 1e3 / answer.tokens_per_second(),
                     loaded->forecast->token_s() * 1e3);
    if (::isatty(STDERR_FILENO) == 1)
        std::fprintf(stderr, "%zu tokens, %.1f tokens/s\n", answer.ids().size(), answer.tokens_per_second());
    return {};
}

}  // namespace chaos::cli
