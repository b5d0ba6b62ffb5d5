// A stranger's Hugging Face folder. The input is its files with a zero byte between them, in the order of `names`; then
// a safetensors file, the length of whose header is set right where the rest begins as a header does.
#include "base/assert.h"
#include "fuzz/models.h"
#include "fuzz/seeds.h"
#include "infer/small_model.h"
#include "state/safetensors.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace {

using namespace chaos;
using namespace chaos::infer;
using chaos::infer::test::small_config;

constexpr std::array<std::string_view, 5> names = {"config.json", "generation_config.json", "tokenizer.json",
                                                   "tokenizer_config.json", "model.safetensors.index.json"};
constexpr std::size_t length_bytes = 8;

std::string with_length(std::string_view weights) {
    if (!weights.starts_with('{')) return std::string(weights);
    const std::size_t header = std::min(weights.find('\0'), weights.size());
    std::string file;
    for (std::size_t i = 0; i < length_bytes; ++i) file += static_cast<char>((header >> (8 * i)) & 255);
    return file.append(weights.substr(0, header)).append(weights.substr(std::min(header + 1, weights.size())));
}

// What stands in a folder of such a model, without the length of the safetensors' header.
std::string seed(const Config& config, const std::string& details, const std::string& index) {
    const std::vector<float> numbers(4096, 0.5F);
    std::vector<state::FloatTensor> tensors;
    for (const TensorShape& shape : tensors_of(config)) {
        const auto rows = static_cast<std::int64_t>(shape.rows);
        const auto columns = static_cast<std::int64_t>(shape.columns);
        tensors.push_back({shape.name, shape.vector ? std::vector{columns} : std::vector{rows, columns},
                           std::span(numbers).first(shape.rows * shape.columns)});
    }
    std::string text = R"({"model_type":")" + config.kind +
                       R"(","vocab_size":8,"hidden_size":4,"num_hidden_layers":1,)"
                       R"("num_attention_heads":2,"num_key_value_heads":1,"head_dim":2,"intermediate_size":4,)"
                       R"("max_position_embeddings":16,"tie_word_embeddings":true,"eos_token_id":[1,2])" +
                       details + "}";
    text += '\0';
    text += R"({"eos_token_id":1})";
    text += '\0';
    text += R"({"model":{"type":"BPE","byte_fallback":false,"vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]},)"
            R"("added_tokens":[{"id":7,"content":"<s>","special":true}],"pre_tokenizer":{"type":"ByteLevel",)"
            R"("add_prefix_space":false,"use_regex":true},"decoder":{"type":"ByteLevel"}})";
    text += '\0';
    text += R"({"chat_template":"{{ bos_token }}{{ messages[0].content }}","bos_token":{"content":"<s>"}})";
    text += '\0';
    text += index;
    text += '\0';
    text += state::safetensors_header(tensors, {{"format", "pt"}}).substr(length_bytes);
    text += '\0';
    for (const state::FloatTensor& tensor : tensors)
        text.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size_bytes());
    return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const chaos::test::TemporaryFolder folder;
    std::string_view input(reinterpret_cast<const char*>(data), size);
    for (const std::string_view name : names) {
        const std::size_t end = std::min(input.find('\0'), input.size());
        const std::string file(name);
        if (end > 0)
            folder.write("m/" + file, std::string(input.substr(0, end)));
        else
            std::filesystem::remove(folder / "m" / name);
        input.remove_prefix(std::min(end + 1, input.size()));
    }
    folder.write("m/model.safetensors", with_length(input));
    fuzz::use_model(folder / "m", folder);
    return 0;
}

std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    const auto add = [&](const std::string& text) { seeds.emplace_back(text.begin(), text.end()); };
    add(seed(small_config("llama", 4),
             R"(,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,)"
             R"("high_freq_factor":4.0,"original_max_position_embeddings":8192})",
             ""));
    add(seed(small_config("mistral", 4), R"(,"sliding_window":8,"rope_scaling":{"type":"linear","factor":2.0})", ""));
    add(seed(small_config("qwen2", 4), R"(,"rms_norm_eps":1e-6,"rope_theta":1e6,"use_sliding_window":false)",
             R"({"weight_map":{"model.norm.weight":"model.safetensors"}})"));
    add(seed(small_config("qwen3", 4), R"(,"rope_parameters":{"rope_type":"default","rope_theta":1e6})", ""));
    return seeds;
}
