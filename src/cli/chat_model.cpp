#include "cli/chat_model.h"

#include "infer/model_text.h"
#include "infer/scheduler.h"

#include <algorithm>

namespace chaos::cli {

std::string model_name(const std::filesystem::path& path) {
    const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
    const std::filesystem::path last = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
    return last.extension() == ".gguf" ? last.stem().string() : last.string();
}

Result<serve::ModelGeneratorOptions> how_to_answer(const infer::Config& config, const std::string& name,
                                                   const ComputeOptions& options) {
    const auto most = static_cast<std::size_t>(config.max_context);
    if (options.context > most)
        return Error{"--context " + std::to_string(options.context) + ": the model's context has " +
                     std::to_string(most) + " tokens"};
    serve::ModelGeneratorOptions how;
    how.name = name;
    how.parallel = options.parallel;
    how.context = options.context > 0 ? options.context : std::min(most, usual_context_tokens);
    return how;
}

Result<std::unique_ptr<ChatModel>> ChatModel::load(infer::ModelFile file, const std::filesystem::path& path,
                                                   const ComputeOptions& options) {
    CHAOS_TRY(auto tokenizer, infer::tokenizer_of(file));
    auto format = infer::chat_format_of(file);
    CHAOS_TRY(const auto how, how_to_answer(file.config(), model_name(path), options));
    const std::size_t tokens = infer::Scheduler::min_batch(how.parallel);
    const LoadOptions needs = {
        .threads = options.threads,
        .memory = options.memory,
        .kv_bytes = how.parallel * infer::KvCache::bytes(file.config(), how.context, infer::KvType::f16),
        .min_tokens = tokens,
        .logits = tokens};
    CHAOS_TRY(auto model, load_model(std::move(file), needs));
    CHAOS_TRY(auto generator,
              serve::ModelGenerator::make(*model->engine, std::move(tokenizer), std::move(format), how));
    return std::unique_ptr<ChatModel>(new ChatModel(std::move(model), std::move(generator)));
}

}  // namespace chaos::cli
