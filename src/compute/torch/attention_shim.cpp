// aten::scaled_dot_product_attention for LibTorch 1: TorchScript files from PyTorch 2 call it. Registering it here, as
// a composite of operations that have gradients, makes such files load and train. LibTorch 2 has its own.
#include "compute/torch/torch.h"

#include <torch/library.h>
#include <torch/version.h>

#if TORCH_VERSION_MAJOR < 2

namespace chaos::compute {

namespace {

constexpr const char* name = "aten::scaled_dot_product_attention";
constexpr const char* schema =
    "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor";

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// A query that may look at no key gets zeros, as in PyTorch 2, instead of 0/0 in its output and every gradient.
torch::Tensor softmax_or_zeros(const torch::Tensor& scores) {
    const torch::Tensor blind = scores.eq(minus_infinity).all(-1, /*keepdim=*/true);
    return scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0);
}

torch::Tensor scaled_dot_product_attention(const torch::Tensor& query, const torch::Tensor& key,
                                           const torch::Tensor& value, const c10::optional<torch::Tensor>& attn_mask,
                                           double dropout_p, bool is_causal, c10::optional<double> scale,
                                           bool enable_gqa) {
    const bool masked = attn_mask.has_value() && attn_mask->defined();
    TORCH_CHECK(!(masked && is_causal), "scaled_dot_product_attention takes attn_mask or is_causal, not both");

    torch::Tensor keys = key;
    torch::Tensor values = value;
    if (enable_gqa) {
        TORCH_CHECK(query.dim() >= 3 && query.size(-3) % key.size(-3) == 0 && query.size(-3) % value.size(-3) == 0,
                    "scaled_dot_product_attention needs as many query heads as key heads, or a multiple of them");
        keys = key.repeat_interleave(query.size(-3) / key.size(-3), -3);
        values = value.repeat_interleave(query.size(-3) / value.size(-3), -3);
    }

    const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
    torch::Tensor scores = (query * factor).matmul(keys.transpose(-2, -1));
    torch::Tensor weights;
    if (is_causal) {
        // Query i sees keys 0..i also where there are more keys than queries: the mask starts at the top left.
        const torch::Tensor later = torch::ones({query.size(-2), keys.size(-2)}, torch::kBool).triu(1);
        weights = scores.masked_fill(later, minus_infinity).softmax(-1);
    } else if (masked && attn_mask->scalar_type() == torch::kBool) {
        weights = softmax_or_zeros(scores.masked_fill(attn_mask->logical_not(), minus_infinity));
    } else if (masked) {
        weights = softmax_or_zeros(scores + *attn_mask);
    } else {
        weights = scores.softmax(-1);
    }
    if (dropout_p > 0.0) weights = torch::dropout(weights, dropout_p, /*train=*/true);
    return weights.matmul(values);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(aten, library) {
    if (c10::Dispatcher::singleton().findSchema({name, ""}).has_value()) return;
    library.def(schema,
                torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(scaled_dot_product_attention)));
}

}  // namespace chaos::compute

#endif
