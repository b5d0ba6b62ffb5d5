#include "compute/torch/attention.h"

#include "base/random.h"

#include <gtest/gtest.h>
#include <cmath>
#include <vector>

namespace chaos::compute {
namespace {

// Attention as its definition says, in double.
std::vector<double> naive(const AttentionShape& s, const std::vector<float>& qkv) {
    std::vector<double> out(static_cast<std::size_t>(s.batch * s.positions * s.out_width()));
    const auto at = [&](std::int64_t sample, std::int64_t position, std::int64_t head, std::int64_t i) {
        return static_cast<double>(
            qkv[static_cast<std::size_t>((sample * s.positions + position) * s.qkv_width() + head * s.head_width + i)]);
    };
    for (std::int64_t sample = 0; sample < s.batch; ++sample)
        for (std::int64_t head = 0; head < s.heads; ++head)
            for (std::int64_t query = 0; query < s.positions; ++query) {
                const std::int64_t k = s.heads + head / (s.heads / s.kv_heads);
                std::vector<double> weights;
                double sum = 0.0;
                for (std::int64_t key = 0; key <= query; ++key) {
                    double score = 0.0;
                    for (std::int64_t i = 0; i < s.head_width; ++i)
                        score += at(sample, query, head, i) * at(sample, key, k, i);
                    weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.head_width))));
                    sum += weights.back();
                }
                for (std::int64_t i = 0; i < s.head_width; ++i) {
                    double value = 0.0;
                    for (std::int64_t key = 0; key <= query; ++key)
                        value += weights[static_cast<std::size_t>(key)] / sum * at(sample, key, k + s.kv_heads, i);
                    out[static_cast<std::size_t>((sample * s.positions + query) * s.out_width() + head * s.head_width +
                                                 i)] = value;
                }
            }
    return out;
}

std::vector<float> numbers(std::int64_t count, std::uint64_t stream) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(5, stream, i);
    return values;
}

class AttentionSizes : public ::testing::TestWithParam<AttentionShape> {};

TEST_P(AttentionSizes, MatchTheDefinition) {
    const AttentionShape shape = GetParam();
    const std::int64_t rows = shape.batch * shape.positions;
    const std::vector<float> qkv = numbers(rows * shape.qkv_width(), 1);
    std::vector<float> out(static_cast<std::size_t>(rows * shape.out_width()));
    std::vector<float> log_sums(static_cast<std::size_t>(rows * shape.heads));
    attention(shape, qkv.data(), out.data(), log_sums.data());
    const std::vector<double> expected = naive(shape, qkv);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 2e-5) << i;
}

TEST_P(AttentionSizes, BackwardIsTheDerivative) {
    const AttentionShape shape = GetParam();
    const std::int64_t rows = shape.batch * shape.positions;
    std::vector<float> qkv = numbers(rows * shape.qkv_width(), 1);
    const std::vector<float> probe = numbers(rows * shape.out_width(), 2);
    std::vector<float> out(probe.size());
    std::vector<float> log_sums(static_cast<std::size_t>(rows * shape.heads));
    attention(shape, qkv.data(), out.data(), log_sums.data());
    std::vector<float> gradient(qkv.size(), -7.0F);
    attention_backward(shape, qkv.data(), out.data(), log_sums.data(), probe.data(), gradient.data());
    const auto loss = [&] {
        const std::vector<double> values = naive(shape, qkv);
        double sum = 0.0;
        for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * static_cast<double>(probe[i]);
        return sum;
    };
    // Some elements of every kind: the definition is slow.
    for (std::size_t i = 3; i < qkv.size(); i += qkv.size() / 40 + 1) {
        const float kept = qkv[i];
        constexpr float h = 1e-2F;
        qkv[i] = kept + h;
        const double above = loss();
        qkv[i] = kept - h;
        const double below = loss();
        qkv[i] = kept;
        ASSERT_NEAR(gradient[i], (above - below) / (2.0 * h), 2e-3) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionSizes,
                         ::testing::Values(AttentionShape{1, 1, 1, 1, 4}, AttentionShape{2, 7, 2, 2, 8},
                                           AttentionShape{1, 64, 2, 1, 8}, AttentionShape{1, 65, 4, 2, 4},
                                           AttentionShape{2, 130, 3, 3, 6}));

}  // namespace
}  // namespace chaos::compute
