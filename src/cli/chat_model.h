// A model that answers: loaded, with its tokenizer and its chat template.
#pragma once

#include "base/result.h"
#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "serve/model_generator.h"

#include <filesystem>
#include <memory>

namespace chaos::cli {

// A folder's name, or a file's without .gguf.
[[nodiscard]] std::string model_name(const std::filesystem::path& path);

// How a model answers: its name, its texts at once, their length.
[[nodiscard]] Result<serve::ModelGeneratorOptions> how_to_answer(const infer::Config& config, const std::string& name,
                                                                 const ComputeOptions& options);

class ChatModel {
public:
    // `path` is what the user called it.
    static Result<std::unique_ptr<ChatModel>> load(infer::ModelFile file, const std::filesystem::path& path,
                                                   const ComputeOptions& options);
    [[nodiscard]] serve::Generator& generator() { return *generator_; }

private:
    ChatModel(std::unique_ptr<LoadedModel> model, std::unique_ptr<serve::ModelGenerator> generator)
        : model_(std::move(model)), generator_(std::move(generator)) {}

    std::unique_ptr<LoadedModel> model_;
    std::unique_ptr<serve::ModelGenerator> generator_;
};

}  // namespace chaos::cli
