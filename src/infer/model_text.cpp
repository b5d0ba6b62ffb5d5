#include "infer/model_text.h"

namespace chaos::infer {

Result<text::Tokenizer> tokenizer_of(const ModelFile& file) {
    if (file.gguf() == nullptr) return text::Tokenizer::read(file.path() / "tokenizer.json");
    CHAOS_TRY(const auto whole, file.gguf()->text("tokenizer.huggingface.json"));
    if (whole) return text::Tokenizer::parse(*whole, file.path().string() + ": tokenizer.huggingface.json");
    const auto beside = file.path().parent_path() / "tokenizer.json";
    if (std::filesystem::exists(beside)) return text::Tokenizer::read(beside);
    return Error{file.path().string() + " has no tokenizer.huggingface.json in its metadata, and there is no " +
                 beside.string()};
}

}  // namespace chaos::infer
