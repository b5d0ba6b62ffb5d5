#include "base/file.h"
#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/progress.h"
#include "cli/quantities.h"
#include "infer/evaluate.h"
#include "infer/model_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace chaos::cli {

Result<void> evaluate(const EvalOptions& options) {
    CHAOS_TRY(const auto kv_type, parse_kv_type(options.kv));
    CHAOS_TRY(auto file, infer::ModelFile::open(options.model));
    std::vector<text::TokenId> tokens;
    if (!options.ids.empty()) {
        CHAOS_TRY(tokens, parse_ids(options.ids));
    } else {
        CHAOS_TRY(const auto tokenizer, infer::tokenizer_of(file));
        CHAOS_TRY(const std::string text, read_file(options.text_file));
        if (text.size() > text::max_text_bytes) return Error{options.text_file.string() + " is too large"};
        tokens = tokenizer.encode(text);
    }
    const infer::Config& config = file.config();
    const auto most = static_cast<std::size_t>(config.max_context);
    const std::size_t context = options.context > 0 ? std::min(options.context, most) : most;
    const LoadOptions needs = {.threads = options.threads,
                               .memory = options.memory,
                               .kv_bytes = infer::KvCache::bytes(config, std::min(context, tokens.size()), kv_type),
                               .logits = infer::max_evaluated_logits(static_cast<std::size_t>(config.vocab))};
    CHAOS_TRY(const auto loaded, load_model(std::move(file), needs));
    const infer::Progress progress = show_progress("evaluating");
    CHAOS_TRY(const auto result, infer::evaluate(*loaded->engine, tokens, context, kv_type,
                                                 [&](std::size_t done) { progress(done, tokens.size()); }));
    if (options.json) {
        nlohmann::json line = {{"tokens", tokens.size()},
                               {"predicted", result.predicted},
                               {"windows", result.windows},
                               {"mean_nll", result.mean_nll},
                               {"last_logits", result.last_logits}};
        if (loaded->forecast) line["window"] = window_json(*loaded);
        std::printf("%s\n", line.dump().c_str());
        return {};
    }
    std::printf("%zu tokens, mean negative log-likelihood %.6f (perplexity %.4f)\n", tokens.size(), result.mean_nll,
                std::exp(result.mean_nll));
    if (result.windows > 1) std::printf("in %zu windows of %zu tokens, each by itself\n", result.windows, context);
    return {};
}

}  // namespace chaos::cli
