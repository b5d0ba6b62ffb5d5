#include "data/order.h"

#include "base/assert.h"
#include "base/random.h"

#include <algorithm>
#include <bit>

namespace chaos::data {
namespace {

// Keeps the order's keys apart from every other stream drawn from the run's seed.
constexpr std::uint64_t order_stream = 0x6f72646572;  // "order"

// Enough that permutations of no more than a handful of samples come out evenly too (order_test measures it).
constexpr std::uint64_t feistel_rounds = 10;

// A permutation of [0, 2^(2 * half_bits)): a balanced Feistel network is invertible whatever its round function is.
std::uint64_t feistel(std::uint64_t key, int half_bits, std::uint64_t value) {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
    std::uint64_t left = value >> half_bits;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < feistel_rounds; ++round) {
        const std::uint64_t mixed = left ^ (random_bits(key, round, right) & mask);
        left = right;
        right = mixed;
    }
    return left << half_bits | right;
}

}  // namespace

std::uint64_t sample_at(std::uint64_t seed, std::uint64_t pass, std::uint64_t index, std::uint64_t samples) {
    CHAOS_ASSERT(index < samples);
    if (samples == 1) return 0;
    const int half_bits = (std::bit_width(samples - 1) + 1) / 2;
    const std::uint64_t key = random_bits(seed, pass, order_stream);
    // Cycle walking: following the larger permutation until it is back below `samples` is a permutation of
    // [0, samples). Its domain is less than four times as large, so fewer than four steps are expected.
    std::uint64_t number = index;
    do {
        number = feistel(key, half_bits, number);
    } while (number >= samples);
    return number;
}

Position advance(Position position, std::uint64_t count, std::uint64_t samples) {
    CHAOS_ASSERT(position.index < samples);
    position.pass += count / samples;
    const std::uint64_t rest = count % samples;
    const std::uint64_t left = samples - position.index;
    if (rest < left) {
        position.index += rest;
    } else {
        position.pass += 1;
        position.index = rest - left;
    }
    return position;
}

std::vector<Stretch> samples_from(std::uint64_t seed, Position position, std::uint64_t count, std::uint64_t samples) {
    CHAOS_ASSERT(position.index < samples);
    std::vector<Stretch> stretches;
    while (count > 0) {
        const std::uint64_t size = std::min(count, samples - position.index);
        Stretch& stretch = stretches.emplace_back();
        stretch.pass = position.pass;
        stretch.numbers.reserve(size);
        for (std::uint64_t i = 0; i < size; ++i) {
            stretch.numbers.push_back(sample_at(seed, position.pass, position.index + i, samples));
        }
        position = advance(position, size, samples);
        count -= size;
    }
    return stretches;
}

}  // namespace chaos::data
