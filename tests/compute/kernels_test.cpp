#include "compute/torch/kernels.h"

#include "base/random.h"
#include "compute/torch/simd.h"

#include <gtest/gtest.h>
#include <cmath>

namespace chaos::compute {
namespace {

std::vector<float> numbers(std::size_t count, std::uint64_t stream) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = random_normal(5, stream, i);
    return values;
}

// The derivative of `loss` with respect to each input, by central differences.
template <class Loss>
std::vector<double> numeric_gradient(std::vector<float> x, const Loss& loss) {
    std::vector<double> gradient(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float kept = x[i];
        constexpr float h = 1e-2F;
        x[i] = kept + h;
        const double above = loss(x);
        x[i] = kept - h;
        const double below = loss(x);
        x[i] = kept;
        gradient[i] = (above - below) / (2.0 * h);
    }
    return gradient;
}

double weighted_sum(const std::vector<float>& values, const std::vector<float>& weights) {
    double sum = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += static_cast<double>(values[i]) * weights[i];
    return sum;
}

TEST(Simd, ExponentialIsAccurate) {
    for (float x = -86.0F; x < 88.0F; x += 0.0137F)
        EXPECT_NEAR(exponential(x) / std::exp(static_cast<double>(x)), 1.0, 3e-7) << x;
    EXPECT_LT(exponential(-1e30F), 2e-38F);
    EXPECT_TRUE(std::isnan(exponential(std::nanf(""))));
}

TEST(Kernels, RmsNormNormalisesTheSum) {
    constexpr std::int64_t rows = 3;
    constexpr std::int64_t width = 21;
    const std::vector<float> a = numbers(rows * width, 1);
    const std::vector<float> b = numbers(rows * width, 2);
    const std::vector<float> weight = numbers(width, 3);
    std::vector<float> x = a;
    std::vector<float> normed(x.size());
    std::vector<float> inverse(rows);
    rms_norm(rows, width, 1e-5F, x.data(), b.data(), weight.data(), normed.data(), inverse.data());
    for (std::size_t row = 0; row < rows; ++row) {
        double squares = 0.0;
        for (std::size_t i = 0; i < width; ++i) {
            const double sum = a[row * width + i] + b[row * width + i];
            squares += sum * sum;
        }
        const double scale = 1.0 / std::sqrt(squares / width + 1e-5);
        EXPECT_NEAR(inverse[row], scale, 1e-5);
        for (std::size_t i = 0; i < width; ++i)
            EXPECT_NEAR(normed[row * width + i], (a[row * width + i] + b[row * width + i]) * scale * weight[i], 1e-5);
    }
}

TEST(Kernels, RmsNormBackwardIsTheDerivative) {
    constexpr std::int64_t rows = 5;
    constexpr std::int64_t width = 19;
    std::vector<float> x = numbers(rows * width, 1);
    std::vector<float> weight = numbers(width, 2);
    const std::vector<float> probe = numbers(rows * width, 3);
    std::vector<float> normed(x.size());
    std::vector<float> inverse(rows);
    const auto loss = [&](std::vector<float> in, const std::vector<float>& w) {
        rms_norm(rows, width, 1e-5F, in.data(), nullptr, w.data(), normed.data(), inverse.data());
        return weighted_sum(normed, probe);
    };
    const auto expected_x = numeric_gradient(x, [&](const std::vector<float>& in) { return loss(in, weight); });
    const auto expected_weight = numeric_gradient(weight, [&](const std::vector<float>& w) { return loss(x, w); });
    static_cast<void>(loss(x, weight));
    std::vector<float> gradient_x(x.size(), 1.0F);
    std::vector<float> gradient_weight(width, 2.0F);
    rms_norm_backward(rows, width, x.data(), weight.data(), inverse.data(), probe.data(), gradient_x.data(),
                      gradient_weight.data(), 1.0F);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(gradient_x[i] - 1.0F, expected_x[i], 5e-3);
    for (std::size_t i = 0; i < weight.size(); ++i) EXPECT_NEAR(gradient_weight[i] - 2.0F, expected_weight[i], 5e-3);
}

TEST(Kernels, SwigluBackwardIsTheDerivative) {
    constexpr std::int64_t rows = 2;
    constexpr std::int64_t width = 23;
    const std::vector<float> gate_up = numbers(rows * 2 * width, 1);
    const std::vector<float> probe = numbers(rows * width, 2);
    std::vector<float> hidden(rows * width);
    const auto expected = numeric_gradient(gate_up, [&](const std::vector<float>& in) {
        swiglu(rows, width, in.data(), hidden.data());
        return weighted_sum(hidden, probe);
    });
    std::vector<float> gradient = gate_up;
    swiglu_backward(rows, width, gradient.data(), probe.data());
    for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient[i], expected[i], 2e-3);
}

TEST(Kernels, RopeTurnsBackToWhereItWas) {
    RopeTable table;
    table.half = 4;
    for (int i = 0; i < 12; ++i) {
        table.cosine.push_back(static_cast<float>(std::cos(0.3 * i)));
        table.sine.push_back(static_cast<float>(std::sin(0.3 * i)));
    }
    const std::vector<float> before = numbers(6 * 20, 1);  // 6 rows of 3 positions, 2 heads of 8 and 4 floats behind
    std::vector<float> x = before;
    rope(table, 6, 3, 2, 20, x.data(), false);
    EXPECT_NE(x, before);
    for (std::size_t row = 0; row < 6; ++row)
        for (std::size_t i = 16; i < 20; ++i) EXPECT_EQ(x[row * 20 + i], before[row * 20 + i]);
    rope(table, 6, 3, 2, 20, x.data(), true);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], before[i], 1e-6);
}

TEST(Kernels, CrossEntropyAndItsGradient) {
    constexpr std::int64_t rows = 3;
    constexpr std::int64_t classes = 21;
    const std::vector<float> logits = numbers(rows * classes, 1);
    const std::vector<std::int64_t> targets = {0, 20, 7};
    std::vector<float> scratch = logits;
    const auto loss = [&](const std::vector<float>& in) {
        std::vector<float> copy = in;
        return cross_entropy(rows, classes, targets.data(), copy.data(), {}).loss_sum;
    };
    double expected = 0.0;
    for (std::size_t row = 0; row < rows; ++row) {
        double sum = 0.0;
        for (std::size_t i = 0; i < classes; ++i) sum += std::exp(static_cast<double>(logits[row * classes + i]));
        expected += std::log(sum) - logits[row * classes + static_cast<std::size_t>(targets[row])];
    }
    EXPECT_NEAR(loss(logits), expected, 1e-5);
    const auto numeric = numeric_gradient(logits, loss);
    static_cast<void>(cross_entropy(rows, classes, targets.data(), scratch.data(), 0.5F));
    for (std::size_t i = 0; i < scratch.size(); ++i) EXPECT_NEAR(scratch[i], 0.5 * numeric[i], 1e-3);
}

TEST(Kernels, OfEqualLogitsTheFirstIsTheAnswer) {
    const std::vector<std::int64_t> targets = {0, 1};
    std::vector<float> logits(6, 2.0F);
    EXPECT_EQ(cross_entropy(2, 3, targets.data(), logits.data(), {}).correct, 1U);
}

TEST(Kernels, EmbedBackwardAddsRepeatedTokens) {
    const std::vector<std::int64_t> tokens = {2, 0, 2};
    const std::vector<float> gradient = {1, 2, 3, 4, 5, 6};
    std::vector<float> table(6, 10.0F);
    embed_backward(tokens, 2, gradient.data(), table.data());
    EXPECT_EQ(table, (std::vector<float>{13, 14, 10, 10, 16, 18}));
}

}  // namespace
}  // namespace chaos::compute
