#include "data/dataset.h"

#include "base/words.h"
#include "data/kinds.h"

#include <array>
#include <new>
#include <string_view>

namespace chaos::data {
namespace {

Result<std::unique_ptr<Dataset>> open_kind(const run::Data& data, const text::Tokenizer* tokenizer) {
    if (data.kind == "text") return open_text(data, tokenizer);
    if (data.kind == "idx") return open_idx(data);
    if (data.kind == "cifar10") return open_cifar10(data);
    if (data.kind == "synthetic") return open_synthetic(data);
    static constexpr std::array<std::string_view, 4> kinds = {"text", "idx", "cifar10", "synthetic"};
    return Error{"data.kind is \"" + data.kind + "\"; it can be " + one_of(kinds)};
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_dataset(const run::Data& data, const text::Tokenizer* tokenizer) {
    // Data sets live in memory; files that do not fit are the world's doing, not a broken invariant.
    try {
        return open_kind(data, tokenizer);
    } catch (const std::bad_alloc&) {
        return Error{"there is not enough memory for the data (data.files)"};
    }
}

}  // namespace chaos::data
