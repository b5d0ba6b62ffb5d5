// What this machine can do at best, measured: how fast memory is read, how many products per second a core computes.
#pragma once

#include "clock.h"
#include "infer/pool.h"

#include <cstddef>
#include <span>

namespace chaos::bench {

template <class Work>
double seconds_of(const Work& work) {
    const double start = seconds_now();
    work();
    return seconds_now() - start;
}

// The pool's threads read all bytes, each its part, from 1, 2, 4 or 8 places of it at once.
void read_all(infer::Pool& pool, std::span<const std::byte> bytes, std::size_t streams);

// Multiply-adds per second of one thread: of floats, and of bytes with the best vector instruction for dot products.
// What has a tile unit (infer/tiles.h) may be faster than that.
double float_peak();
double byte_peak();

}  // namespace chaos::bench
