#include "infer/attention.h"

#include "base/random.h"
#include "infer/every_target.h"
#include "infer/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace chaos::infer {
namespace {

template <class Number>
struct Cache {
    Cache(std::size_t positions, std::size_t dimensions, std::mt19937_64& random)
        : keys(key_numbers(positions, dimensions) + 32), values(positions * dimensions) {
        // Keys are to be aligned.
        const auto past = reinterpret_cast<std::uintptr_t>(keys.data()) % 64;
        head = {keys.data() + (past == 0 ? 0 : (64 - past) / sizeof(Number)), values.data(), dimensions};
        std::vector<float> key(dimensions);
        std::vector<float> value(dimensions);
        for (std::size_t position = 0; position < positions; ++position) {
            for (float& x : key) x = random_normal(random(), 0, 0);
            for (float& x : value) x = random_normal(random(), 0, 0);
            store_key_value(head, position, key, value);
        }
    }

    [[nodiscard]] double key(std::size_t position, std::size_t i) const {
        return static_cast<double>(as_float(
            head.keys[position / key_group * key_group * head.dimensions + i * key_group + position % key_group]));
    }
    [[nodiscard]] double value(std::size_t position, std::size_t i) const {
        return static_cast<double>(as_float(head.values[position * head.dimensions + i]));
    }

    std::vector<Number> keys;
    std::vector<Number> values;
    KvHead<Number> head;
};

template <class Number>
void expect_exact_results_on_every_target() {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        std::mt19937_64 random(seed);
        const std::size_t dimensions = seed % 3 == 0 ? 1 + random() % 150 : std::size_t{16} << (random() % 4);
        const std::size_t positions = 1 + random() % 200;
        const std::size_t queries = 1 + random() % 9;
        const Cache<Number> cache(positions + random() % 40, dimensions, random);
        std::vector<float> query(queries * dimensions);
        for (float& x : query) x = random_normal(random(), 0, 0);
        const float scale = 1.0F / std::sqrt(static_cast<float>(dimensions));
        std::vector<float> plain(query.size());
        std::vector<float> scores(queries * key_numbers(positions, 1));
        portable::attend(AttentionJob<Number>{.head = cache.head,
                                              .positions = positions,
                                              .queries = query.data(),
                                              .query_count = queries,
                                              .scale = scale,
                                              .scores = scores.data(),
                                              .out = plain.data()});
        for (std::size_t q = 0; q < queries; ++q) {
            std::vector<double> weights(positions);
            double sum = 0.0;
            for (std::size_t position = 0; position < positions; ++position) {
                double score = 0.0;
                for (std::size_t i = 0; i < dimensions; ++i)
                    score += cache.key(position, i) * static_cast<double>(query[q * dimensions + i]);
                weights[position] = std::exp(score * static_cast<double>(scale));
                sum += weights[position];
            }
            for (std::size_t i = 0; i < dimensions; ++i) {
                double wanted = 0.0;
                for (std::size_t position = 0; position < positions; ++position)
                    wanted += weights[position] / sum * cache.value(position, i);
                ASSERT_NEAR(static_cast<double>(plain[q * dimensions + i]), wanted, 1e-5) << "seed " << seed;
            }
        }
        test::on_every_target([&](const char* target) {
            SCOPED_TRACE(::testing::Message() << target << ", seed " << seed << ", " << dimensions << " dimensions, "
                                              << positions << " positions, " << queries << " queries");
            std::vector<float> out(query.size());
            attend(cache.head, positions, query, scale, scores, out);
            ASSERT_TRUE(test::same_bits(out, plain));
        });
    }
}

TEST(Attention, ResultsAreTheExactOnesButForRoundingAndTheSameOnEveryInstructionSet) {
    expect_exact_results_on_every_target<std::uint16_t>();
}

TEST(Attention, FloatsAreAttendedToLikewise) {
    expect_exact_results_on_every_target<float>();
}

}  // namespace
}  // namespace chaos::infer
