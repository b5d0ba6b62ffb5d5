#include "infer/multiply.h"

#include "infer/every_target.h"
#include "infer/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace chaos::infer {
namespace {

using test::Weights;

struct Case {
    Format format = Format::f32;
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t batch = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << name_of(c.format) << ", " << c.rows << " rows, " << c.columns << " columns, " << c.batch
               << " at once";
}

Case random_case(std::mt19937_64& random) {
    Case c;
    c.format = test::all_formats[random() % test::all_formats.size()];
    c.rows = 1 + random() % 300;
    c.columns = is_quantized(c.format) ? 32 * (1 + random() % 30) : 1 + random() % 900;
    c.batch = random() % 2 == 0 ? 1 : 1 + random() % (random() % 8 == 0 ? 300 : 40);
    return c;
}

Activations random_activations(std::size_t rows, std::size_t columns, std::mt19937_64& random) {
    Activations activations;
    activations.resize(rows, columns, {.floats = true, .bytes = columns % scale_columns == 0});
    std::vector<float> values(columns);
    for (std::size_t row = 0; row < rows; ++row) {
        for (float& value : values) value = random_normal(random(), 0, 0);
        // Columns that are all zeros, and one that outweighs the others.
        if (random() % 4 == 0) std::fill_n(values.begin(), std::min<std::size_t>(columns, 64), 0.0F);
        if (random() % 4 == 0) values[random() % columns] *= 100.0F;
        activations.set(row, values);
    }
    return activations;
}

double activation_at(const Activations& activations, bool bytes, std::size_t row, std::size_t column) {
    const std::size_t block = column / activation_columns;
    const std::size_t within = column % activation_columns;
    if (!bytes) return static_cast<double>(activations.floats(block, row)[within]);
    return activations.bytes(block, row)[within] *
           static_cast<double>(activations.scales(block, row)[within / scale_columns]);
}

std::vector<float> product_of(Pool& pool, const Activations& activations, const Matrix& matrix) {
    std::vector<float> results(activations.rows() * matrix.rows);
    const Product product{matrix, results.data(), matrix.rows};
    multiply(pool, activations, {&product, 1});
    return results;
}

std::vector<std::int64_t> fixed_product_of(Pool& pool, const Activations& activations, std::size_t block_columns,
                                           const Matrix& matrix) {
    std::vector<std::int64_t> sums(activations.rows() * matrix.rows);
    const FixedProduct product{matrix, sums.data(), matrix.rows};
    multiply_fixed(pool, activations, block_columns, {&product, 1});
    return sums;
}

TEST(Multiply, ResultsAreTheExactOnesButForRounding) {
    Pool pool(2);
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        std::mt19937_64 random(seed);
        const Case c = random_case(random);
        SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << c);
        const Weights weights = Weights::random(c.format, c.rows, c.columns, random);
        const Activations activations = random_activations(c.batch, c.columns, random);
        const std::vector<float> results = product_of(pool, activations, weights.matrix);
        std::vector<std::int64_t> sums;
        if (c.columns % scale_columns == 0) sums = fixed_product_of(pool, activations, 64, weights.matrix);
        for (std::size_t row = 0; row < c.rows; ++row) {
            const std::vector<double> values = test::values_of(c.format, c.columns, weights.file_rows[row]);
            for (std::size_t i = 0; i < c.batch; ++i) {
                double exact = 0.0;
                double magnitude = 0.0;
                for (std::size_t column = 0; column < c.columns; ++column) {
                    const double part = values[column] * activation_at(activations, is_quantized(c.format), i, column);
                    exact += part;
                    magnitude += std::fabs(part);
                }
                ASSERT_NEAR(static_cast<double>(results[i * c.rows + row]), exact, 2e-6 * magnitude + 1e-12);
                if (!sums.empty()) {
                    ASSERT_NEAR(static_cast<double>(from_fixed(sums[i * c.rows + row])), exact,
                                2e-6 * magnitude + 1e-8);
                }
            }
        }
    }
}

TEST(Multiply, EveryInstructionSetGivesTheBitsOfThePlainOne) {
    Pool pool(2);
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        std::mt19937_64 random(seed);
        const Case c = random_case(random);
        const Weights weights = Weights::random(c.format, c.rows, c.columns, random);
        const Activations activations = random_activations(c.batch, c.columns, random);
        const std::size_t block_columns = std::size_t{32} << (random() % 4);
        const auto [results, sums] = test::plain_products(activations, weights.matrix, block_columns);
        test::on_every_target([&](const char* target) {
            SCOPED_TRACE(::testing::Message() << target << ", seed " << seed << ": " << c);
            ASSERT_TRUE(test::same_bits(product_of(pool, activations, weights.matrix), results));
            ASSERT_EQ(fixed_product_of(pool, activations, block_columns, weights.matrix), sums);
        });
    }
}

TEST(Multiply, ARowsResultDoesNotDependOnTheRowsBesideIt) {
    Pool pool(2);
    for (const Format format : test::all_formats) {
        std::mt19937_64 random(7);
        const Weights weights = Weights::random(format, 100, 544, random);
        for (const std::size_t batch : {2U, 3U, 5U, 16U, 33U, 128U}) {
            SCOPED_TRACE(::testing::Message() << name_of(format) << " " << batch);
            std::vector<float> values(batch * 544);
            for (float& value : values) value = random_normal(random(), 0, 0);
            Activations all;
            all.resize(batch, 544, {.floats = true, .bytes = true});
            for (std::size_t i = 0; i < batch; ++i) all.set(i, std::span(values).subspan(i * 544, 544));
            const std::vector<float> together = product_of(pool, all, weights.matrix);
            Activations one;
            one.resize(1, 544, {.floats = true, .bytes = true});
            for (std::size_t i = 0; i < batch; ++i) {
                one.set(0, std::span(values).subspan(i * 544, 544));
                const std::vector<float> alone = product_of(pool, one, weights.matrix);
                ASSERT_TRUE(test::same_bits(std::span(together).subspan(i * 100, 100), alone)) << i;
            }
        }
    }
}

// So many that a tile unit is used where there is one.
TEST(Multiply, ARowsResultDoesNotDependOnManyRowsBesideIt) {
    constexpr std::size_t rows = 300;
    constexpr std::size_t columns = 2080;
    constexpr std::size_t batch = 149;
    Pool pool(2);
    for (const Format format : {Format::q8_0, Format::q4_0}) {
        std::mt19937_64 random(7);
        const Weights weights = Weights::random(format, rows, columns, random);
        std::vector<float> values(batch * columns);
        for (float& value : values) value = random_normal(random(), 0, 0);
        Activations all;
        all.resize(batch, columns, {.floats = false, .bytes = true});
        for (std::size_t i = 0; i < batch; ++i) all.set(i, std::span(values).subspan(i * columns, columns));
        Activations one;
        one.resize(1, columns, {.floats = false, .bytes = true});
        const std::vector<float> together = product_of(pool, all, weights.matrix);
        for (const std::size_t block : {32U, 64U, 256U}) {
            const std::vector<std::int64_t> fixed = fixed_product_of(pool, all, block, weights.matrix);
            for (std::size_t i = 0; i < batch; ++i) {
                SCOPED_TRACE(::testing::Message() << name_of(format) << ", blocks of " << block << ", row " << i);
                one.set(0, std::span(values).subspan(i * columns, columns));
                const std::vector<float> alone = product_of(pool, one, weights.matrix);
                ASSERT_TRUE(test::same_bits(std::span(together).subspan(i * rows, rows), alone));
                const std::vector<std::int64_t> fixed_alone = fixed_product_of(pool, one, block, weights.matrix);
                ASSERT_TRUE(std::ranges::equal(std::span(fixed).subspan(i * rows, rows), fixed_alone));
            }
        }
    }
}

TEST(Multiply, SumsInFixedPointDoNotDependOnHowColumnsAreDivided) {
    Pool pool(2);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        std::mt19937_64 random(seed);
        const Format format = test::all_formats[seed % test::all_formats.size()];
        const std::size_t block_columns = std::size_t{32} << (random() % 4);
        const std::size_t blocks = 2 + random() % 20;
        const std::size_t columns = blocks * block_columns;
        const std::size_t batch = 1 + random() % 3;
        SCOPED_TRACE(::testing::Message()
                     << "seed " << seed << ": " << name_of(format) << ", " << columns << " columns");
        const Weights weights = Weights::random(format, 70, columns, random);
        std::vector<float> values(batch * columns);
        for (float& value : values) value = random_normal(random(), 0, 0);
        std::vector<std::int64_t> sums(batch * 70);
        const std::size_t cut = (1 + random() % (blocks - 1)) * block_columns;
        std::vector<std::int64_t> whole;
        for (const auto& [first, count] :
             {std::pair{std::size_t{0}, columns}, {cut, columns - cut}, {std::size_t{0}, cut}}) {
            Activations activations;
            activations.resize(batch, count, {.floats = true, .bytes = true});
            for (std::size_t i = 0; i < batch; ++i)
                activations.set(i, std::span(values).subspan(i * columns + first, count));
            const Weights part = weights.columns(first, count);
            if (count == columns) {
                whole = fixed_product_of(pool, activations, block_columns, part.matrix);
                continue;
            }
            const FixedProduct product{part.matrix, sums.data(), 70};
            multiply_fixed(pool, activations, block_columns, {&product, 1});
        }
        ASSERT_EQ(sums, whole);
    }
}

TEST(Multiply, SeveralMatricesAtOnceAreAsOneByOne) {
    Pool pool(2);
    std::mt19937_64 random(3);
    const Weights a = Weights::random(Format::q4_0, 200, 256, random);
    const Weights b = Weights::random(Format::f16, 33, 256, random);
    const Activations activations = random_activations(3, 256, random);
    // Results of both, row by row.
    std::vector<float> results(std::size_t{3} * 233);
    const std::array products{Product{a.matrix, results.data(), 233}, Product{b.matrix, results.data() + 200, 233}};
    multiply(pool, activations, products);
    const std::vector<float> of_a = product_of(pool, activations, a.matrix);
    const std::vector<float> of_b = product_of(pool, activations, b.matrix);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(test::same_bits(std::span(results).subspan(i * 233, 200), std::span(of_a).subspan(i * 200, 200)));
        EXPECT_TRUE(
            test::same_bits(std::span(results).subspan(i * 233 + 200, 33), std::span(of_b).subspan(i * 33, 33)));
    }
}

TEST(Multiply, FixedPointRoundsToTheNearestMultipleAndHasLimits) {
    EXPECT_EQ(to_fixed(1.0F), std::int64_t{1} << 32);
    EXPECT_EQ(to_fixed(-1.5F), -(std::int64_t{3} << 31));
    EXPECT_EQ(to_fixed(0x1.8p-33F), 1);
    EXPECT_EQ(to_fixed(0x1p-33F), 0);
    EXPECT_EQ(to_fixed(0x1.8p-32F), 2);
    EXPECT_EQ(from_fixed(to_fixed(fixed_limit)), fixed_limit);
    EXPECT_EQ(from_fixed(to_fixed(-fixed_limit)), -fixed_limit);
    for (const float none : {1e30F, -1e30F, std::numeric_limits<float>::infinity(), std::nanf(""), -std::nanf("")})
        EXPECT_EQ(to_fixed(none), fixed_beyond) << none;
    EXPECT_EQ(from_fixed(to_fixed(-3.25F)), -3.25F);
    EXPECT_EQ(block_columns_of(256), 256U);
    EXPECT_EQ(block_columns_of(96), 32U);
    EXPECT_EQ(block_columns_of(1024), 256U);
}

TEST(Multiply, ASumOfWhatIsNotANumberIsNone) {
    for (const std::int64_t blocks : {1, 2, 3, 100, 2047})
        for (const float others : {0.0F, 1.0F, fixed_sum_limit, -fixed_sum_limit})
            EXPECT_TRUE(std::isnan(from_fixed(blocks * fixed_beyond + static_cast<std::int64_t>(others) * (1LL << 32))))
                << blocks << " " << others;
    Pool pool(1);
    std::mt19937_64 random(1);
    for (const std::size_t columns : {256U, 1024U}) {
        const Weights weights = Weights::random(Format::q8_0, 70, columns, random);
        std::vector<float> values(columns, 1.0F);
        values[columns - 3] = std::nanf("");
        Activations activations;
        activations.resize(1, columns, {.floats = false, .bytes = true});
        activations.set(0, values);
        const auto plain = test::plain_products(activations, weights.matrix, 32).sums;
        for (const std::int64_t sum : plain) EXPECT_TRUE(std::isnan(from_fixed(sum)));
        test::on_every_target([&](const char* target) {
            EXPECT_EQ(fixed_product_of(pool, activations, 32, weights.matrix), plain) << target;
        });
    }
}

}  // namespace
}  // namespace chaos::infer
