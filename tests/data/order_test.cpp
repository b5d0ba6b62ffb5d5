#include "data/order.h"

#include "data/files.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace chaos::data {
namespace {

std::vector<std::uint64_t> whole_pass(std::uint64_t seed, std::uint64_t pass, std::uint64_t samples) {
    std::vector<std::uint64_t> order(samples);
    for (std::uint64_t i = 0; i < samples; ++i) order[i] = sample_at(seed, pass, i, samples);
    return order;
}

std::vector<std::uint64_t> first_numbers(std::uint64_t samples) {
    std::vector<std::uint64_t> numbers(samples);
    std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
    return numbers;
}

TEST(Order, IsAPermutationForEverySize) {
    std::vector<std::uint64_t> sizes = first_numbers(301);
    sizes.erase(sizes.begin());
    for (const std::uint64_t size : {1023, 1024, 1025, 4095, 4096, 4097, 60000, 65536, 65537}) sizes.push_back(size);
    for (const std::uint64_t samples : sizes) {
        for (std::uint64_t pass = 0; pass < 3; ++pass) {
            auto order = whole_pass(7, pass, samples);
            std::sort(order.begin(), order.end());
            ASSERT_EQ(order, first_numbers(samples)) << samples << " samples, pass " << pass;
        }
    }
}

TEST(Order, LargeSizesStayInRangeAndNeverRepeat) {
    const auto seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    for (const std::uint64_t samples :
         {(std::uint64_t{1} << 32) - 1, (std::uint64_t{1} << 32) + 1, std::uint64_t{1} << 48,
          (std::uint64_t{1} << 63) + 12345, std::numeric_limits<std::uint64_t>::max()}) {
        std::set<std::uint64_t> indices;
        while (indices.size() < 5000) indices.insert(random() % samples);
        indices.insert({0, 1, samples - 2, samples - 1});
        std::set<std::uint64_t> numbers;
        for (const std::uint64_t index : indices) {
            const std::uint64_t number = sample_at(seed, 3, index, samples);
            ASSERT_LT(number, samples);
            ASSERT_TRUE(numbers.insert(number).second) << number << " came twice";
        }
    }
}

// The order is part of what a run computes: it may never change between versions or machines.
TEST(Order, IsTheSameEverywhere) {
    EXPECT_EQ(whole_pass(1, 0, 10), (std::vector<std::uint64_t>{8, 5, 6, 0, 2, 3, 4, 7, 1, 9}));
    EXPECT_EQ(whole_pass(1, 1, 10), (std::vector<std::uint64_t>{4, 8, 2, 3, 0, 9, 1, 7, 6, 5}));
    EXPECT_EQ(sample_at(42, 7, 123456789, 1000000000000), 294013068923U);
}

TEST(Order, SeedsAndPassesAreIndependent) {
    constexpr std::uint64_t samples = 1000;
    const auto fixed_places = [](const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
        std::size_t same = 0;
        for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i] ? 1 : 0;
        return same;
    };
    // Two random permutations agree in one place on average; 12 or more happens once in a billion.
    for (std::uint64_t i = 0; i < 20; ++i) {
        EXPECT_LT(fixed_places(whole_pass(i, 0, samples), whole_pass(i + 1, 0, samples)), 12U);
        EXPECT_LT(fixed_places(whole_pass(5, i, samples), whole_pass(5, i + 1, samples)), 12U);
        EXPECT_LT(fixed_places(whole_pass(i, i + 1, samples), whole_pass(i + 1, i, samples)), 12U);
        EXPECT_LT(fixed_places(whole_pass(i, 0, samples), first_numbers(samples)), 12U);
    }
}

// How far counts that should be equal are from it, in standard deviations of chi squared.
double unevenness(const std::map<std::vector<std::uint64_t>, double>& counts, double expected) {
    double chi_squared = 0;
    for (const auto& [cell, count] : counts) chi_squared += (count - expected) * (count - expected) / expected;
    const auto degrees = static_cast<double>(counts.size() - 1);
    return (chi_squared - degrees) / std::sqrt(2 * degrees);
}

// Every pair of samples is equally likely at every pair of places, however few samples there are. (Whole permutations
// are too, but for their parity: a Feistel network of four bits and more makes even permutations only.)
TEST(Order, SmallPermutationsComeOutEvenly) {
    constexpr std::uint64_t expected = 200;
    for (std::uint64_t samples = 2; samples <= 12; ++samples) {
        const std::uint64_t pairs = samples * (samples - 1);
        const std::vector<std::pair<std::uint64_t, std::uint64_t>> places = {
            {0, 1}, {0, samples - 1}, {samples / 2, (samples / 2 + 1) % samples}};
        for (const auto& [first, second] : places) {
            std::map<std::vector<std::uint64_t>, double> seen;
            for (std::uint64_t seed = 0; seed < expected * pairs; ++seed) {
                seen[{sample_at(seed, 0, first, samples), sample_at(seed, 0, second, samples)}] += 1;
            }
            EXPECT_EQ(seen.size(), pairs);
            EXPECT_LT(unevenness(seen, expected), 5) << samples << " samples, places " << first << ", " << second;
        }
    }
    for (const std::uint64_t samples : {2U, 3U, 4U}) {
        const std::uint64_t permutations = samples == 4 ? 24 : samples == 3 ? 6 : 2;
        std::map<std::vector<std::uint64_t>, double> seen;
        for (std::uint64_t seed = 0; seed < expected * permutations; ++seed) seen[whole_pass(seed, 0, samples)] += 1;
        EXPECT_EQ(seen.size(), permutations);
        EXPECT_LT(unevenness(seen, expected), 5) << samples << " samples";
    }
}

// Neighbours in a pass are not neighbours in the data, in any sense that a line through them would show.
TEST(Order, PlacesAndNumbersAreUncorrelated) {
    for (const std::uint64_t samples : {100U, 1000U, 30000U}) {
        const auto order = whole_pass(11, 0, samples);
        const double mean = static_cast<double>(samples - 1) / 2;
        double with_place = 0;
        double with_next = 0;
        double variance = 0;
        for (std::uint64_t i = 0; i < samples; ++i) {
            const double value = static_cast<double>(order[i]) - mean;
            with_place += value * (static_cast<double>(i) - mean);
            with_next += value * (static_cast<double>(order[(i + 1) % samples]) - mean);
            variance += value * value;
        }
        const double bound = 5 / std::sqrt(static_cast<double>(samples));
        EXPECT_LT(std::abs(with_place / variance), bound) << samples;
        EXPECT_LT(std::abs(with_next / variance), bound) << samples;
    }
}

TEST(Order, AdvanceCountsLikeOneSampleAtATime) {
    for (std::uint64_t samples = 1; samples < 8; ++samples) {
        for (std::uint64_t index = 0; index < samples; ++index) {
            Position one_by_one{4, index};
            for (std::uint64_t count = 0; count < 30; ++count) {
                EXPECT_EQ(advance({4, index}, count, samples), one_by_one);
                one_by_one.index += 1;
                if (one_by_one.index == samples) one_by_one = {one_by_one.pass + 1, 0};
            }
        }
    }
}

TEST(Order, AdvanceDoesNotOverflow) {
    constexpr std::uint64_t samples = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(advance({0, samples - 1}, samples - 1, samples), (Position{1, samples - 2}));
    EXPECT_EQ(advance({0, samples - 1}, samples, samples), (Position{1, samples - 1}));
}

TEST(Order, StretchesUseEverySampleOncePerPass) {
    const auto seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    for (const std::uint64_t samples : {1U, 2U, 7U, 64U, 100U}) {
        Position position;
        std::map<std::uint64_t, std::vector<std::uint64_t>> used;
        while (position.pass < 5) {
            const std::uint64_t count = random() % (3 * samples);
            std::uint64_t got = 0;
            for (const Stretch& stretch : samples_from(9, position, count, samples)) {
                EXPECT_FALSE(stretch.numbers.empty());
                auto& numbers = used[stretch.pass];
                numbers.insert(numbers.end(), stretch.numbers.begin(), stretch.numbers.end());
                got += stretch.numbers.size();
            }
            EXPECT_EQ(got, count);
            position = advance(position, count, samples);
        }
        for (std::uint64_t pass = 0; pass < 5; ++pass) {
            EXPECT_EQ(used[pass], whole_pass(9, pass, samples)) << samples << " samples, pass " << pass;
        }
    }
}

TEST(Order, NoSamplesMakeNoStretch) {
    EXPECT_TRUE(samples_from(1, {0, 3}, 0, 10).empty());
}

TEST(OrderDeathTest, PlacesBeyondThePassAreBrokenInvariants) {
    EXPECT_DEATH(static_cast<void>(sample_at(1, 0, 10, 10)), "broken invariant");
    EXPECT_DEATH(static_cast<void>(sample_at(1, 0, 0, 0)), "broken invariant");
    EXPECT_DEATH(static_cast<void>(advance({0, 10}, 1, 10)), "broken invariant");
}

}  // namespace
}  // namespace chaos::data
