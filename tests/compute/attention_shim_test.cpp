// The operation of compute/torch/attention_shim.cpp, or LibTorch 2's own, against the formula computed value by value.
#include "compute/torch/torch.h"

#include <gmock/gmock.h>

#include <optional>

namespace chaos::compute {
namespace {

struct Attention {
    torch::Tensor mask = {};
    bool causal = false;
    std::optional<double> scale = {};
    bool grouped = false;
};

torch::Tensor attend(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                     const Attention& attention) {
    const auto operation = c10::Dispatcher::singleton().findSchemaOrThrow("aten::scaled_dot_product_attention", "");
    torch::jit::Stack stack = {query, key, value};
    stack.emplace_back(attention.mask.defined() ? torch::jit::IValue(attention.mask) : torch::jit::IValue());
    stack.emplace_back(0.0);
    stack.emplace_back(attention.causal);
    stack.emplace_back(attention.scale ? torch::jit::IValue(*attention.scale) : torch::jit::IValue());
    stack.emplace_back(attention.grouped);
    operation.callBoxed(stack);
    return stack.front().toTensor();
}

// Value by value, for {batch, heads, length, width}; a mask is {length, keys}.
torch::Tensor naive(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                    const Attention& attention) {
    const std::int64_t group = query.size(1) / key.size(1);
    const double scale = attention.scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(3))));
    std::vector<torch::Tensor> rows;
    for (std::int64_t b = 0; b < query.size(0); ++b) {
        for (std::int64_t h = 0; h < query.size(1); ++h) {
            for (std::int64_t i = 0; i < query.size(2); ++i) {
                std::vector<torch::Tensor> weights;
                torch::Tensor total = torch::zeros({}, query.options());
                for (std::int64_t j = 0; j < key.size(2); ++j) {
                    torch::Tensor score = (query[b][h][i] * key[b][h / group][j]).sum() * scale;
                    bool seen = !attention.causal || j <= i;
                    if (attention.mask.defined() && attention.mask.scalar_type() == torch::kBool) {
                        seen = attention.mask[i][j].item<bool>();
                    } else if (attention.mask.defined()) {
                        score = score + attention.mask[i][j];
                    }
                    weights.push_back(seen ? score.exp() : torch::zeros({}, query.options()));
                    total = total + weights.back();
                }
                torch::Tensor row = torch::zeros({value.size(3)}, query.options());
                if (total.item<double>() > 0.0) {
                    for (std::int64_t j = 0; j < key.size(2); ++j) {
                        row = row + weights[static_cast<std::size_t>(j)] / total * value[b][h / group][j];
                    }
                }
                rows.push_back(row);
            }
        }
    }
    return torch::stack(rows).view({query.size(0), query.size(1), query.size(2), value.size(3)});
}

struct Shape {
    std::int64_t heads = 2;
    std::int64_t kv_heads = 2;
    std::int64_t length = 4;
    std::int64_t keys = 4;
};

void expect_agreement(const Shape& shape, const Attention& attention) {
    torch::manual_seed(3);
    const auto options = torch::TensorOptions(torch::kFloat64).requires_grad(true);
    const std::vector<torch::Tensor> inputs = {torch::randn({2, shape.heads, shape.length, 8}, options),
                                               torch::randn({2, shape.kv_heads, shape.keys, 8}, options),
                                               torch::randn({2, shape.kv_heads, shape.keys, 6}, options)};
    const auto found = attend(inputs[0], inputs[1], inputs[2], attention);
    const auto expected = naive(inputs[0], inputs[1], inputs[2], attention);
    ASSERT_EQ(found.sizes(), expected.sizes());
    EXPECT_TRUE(torch::allclose(found, expected));
    const auto above = torch::randn(found.sizes(), torch::kFloat64);
    const auto gradients = torch::autograd::grad({found}, inputs, {above});
    const auto expected_gradients = torch::autograd::grad({expected}, inputs, {above});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_TRUE(torch::allclose(gradients[i], expected_gradients[i])) << "gradient of input " << i;
    }
}

TEST(AttentionShim, Plain) {
    expect_agreement({}, {});
}

TEST(AttentionShim, Scale) {
    expect_agreement({}, {.scale = 0.7});
}

TEST(AttentionShim, CausalStartsAtTheTopLeft) {
    expect_agreement({}, {.causal = true});
    expect_agreement({.length = 3, .keys = 5}, {.causal = true});
    expect_agreement({.length = 5, .keys = 3}, {.causal = true});
}

TEST(AttentionShim, BoolMask) {
    const auto mask = torch::tensor({1, 0, 1, 0, 0, 1, 0, 1, 1, 1}, torch::kInt64).view({2, 5}).to(torch::kBool);
    expect_agreement({.length = 2, .keys = 5}, {.mask = mask});
}

TEST(AttentionShim, QueriesThatSeeNothingGetZeros) {
    const auto mask = torch::tensor({1, 0, 1, 0, 0, 0}, torch::kInt64).view({2, 3}).to(torch::kBool);
    expect_agreement({.length = 2, .keys = 3}, {.mask = mask});
}

TEST(AttentionShim, FloatMask) {
    torch::manual_seed(4);
    expect_agreement({.length = 3, .keys = 5}, {.mask = torch::randn({3, 5}, torch::kFloat64)});
}

TEST(AttentionShim, GroupedHeads) {
    expect_agreement({.heads = 6, .kv_heads = 2}, {.causal = true, .grouped = true});
}

TEST(AttentionShim, RefusesTwoMasks) {
    const auto x = torch::ones({1, 1, 2, 4});
    EXPECT_THROW(attend(x, x, x, {.mask = torch::ones({2, 2}), .causal = true}), c10::Error);
}

}  // namespace
}  // namespace chaos::compute
