#include "fuzz/models.h"

#include "base/assert.h"
#include "infer/engine.h"
#include "infer/model_text.h"
#include "infer/quantize.h"

#include <array>

namespace chaos::fuzz {
namespace {

using namespace chaos::infer;

template <class T>
void check_error(const Result<T>& result, const chaos::test::TemporaryFolder& folder) {
    if (!result) CHAOS_ASSERT(result.error().message.find(folder.path().string()) != std::string::npos);
}

void use_texts(const ModelFile& file, const chaos::test::TemporaryFolder& folder) {
    const auto tokenizer = tokenizer_of(file);
    check_error(tokenizer, folder);
    if (tokenizer) {
        const auto ids = tokenizer->encode("ab <s>\xC3\xA9 1", true);
        CHAOS_ASSERT(ids.size() < 100);
        static_cast<void>(tokenizer->decode(ids));
    }
    const auto chat = chat_format_of(file);
    check_error(chat, folder);
    if (!chat || !*chat) return;
    text::Conversation conversation;
    conversation.messages = {{{"role", "user"}, {"content", "a"}}};
    check_error((*chat)->render(conversation, {}), folder);
}

void compute(ModelFile file, Pool& pool) {
    const Config config = file.config();
    const auto model = Model::load(std::move(file), pool, {});
    if (!model) return;
    constexpr std::size_t capacity = 4;
    auto cache = KvCache::make(config, capacity, KvType::f16);
    CHAOS_ASSERT(cache);
    Engine engine(*model, pool);
    const std::array tokens = {TokenId{0}, static_cast<TokenId>(config.vocab - 1)};
    const std::array pieces = {Piece{&*cache, tokens, 1}};
    const auto logits = engine.forward(pieces);
    CHAOS_ASSERT(logits && logits->size() == static_cast<std::size_t>(config.vocab));
}

}  // namespace

void use_model(const std::filesystem::path& path, const chaos::test::TemporaryFolder& folder) {
    static Pool pool(1);
    auto file = ModelFile::open(path);
    check_error(file, folder);
    if (!file) return;
    use_texts(*file, folder);
    const std::filesystem::path written = folder / "written.gguf";
    if (quantize(*file, written, StoredType::q8_0, pool, {})) {
        const auto again = ModelFile::open(written);
        CHAOS_ASSERT(again && again->config().width == file->config().width);
    }
    compute(std::move(*file), pool);
}

}  // namespace chaos::fuzz
