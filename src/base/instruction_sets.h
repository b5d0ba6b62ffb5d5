// Loops that are written once and compiled for each instruction set. Elementwise IEEE operations give the same bits
// however many of them one instruction performs, so the paths differ in speed only.
//
// A macro MY_VARIANT(suffix, attribute) defines the functions of one instruction set, with the attribute, and a struct
// kernels_##suffix that holds them; CHAOS_VARIANTS(MY_VARIANT) does so for all, and CHAOS_PICK(path, kernels) is the
// struct to call.
#pragma once

#include "base/assert.h"

#include <cstdint>

namespace chaos {

enum class Path : std::uint8_t { best, scalar, avx2, avx512 };

[[nodiscard]] inline bool path_available(Path path) {
#if defined(__x86_64__)
    if (path == Path::avx2) return __builtin_cpu_supports("avx2") != 0;
    if (path == Path::avx512)
        return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
               __builtin_cpu_supports("avx512vl") != 0;
#else
    if (path == Path::avx2 || path == Path::avx512) return false;
#endif
    return true;
}

#if defined(__clang__)
#define CHAOS_NOT_VECTORISED
#define CHAOS_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl")]]
#else
#define CHAOS_NOT_VECTORISED [[gnu::optimize("no-tree-vectorize")]]
#define CHAOS_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,prefer-vector-width=512")]]
#endif

#if defined(__x86_64__)
#define CHAOS_VARIANTS(variant) \
    variant(scalar, CHAOS_NOT_VECTORISED) variant(avx2, [[gnu::target("avx2")]]) variant(avx512, CHAOS_AVX512)
#define CHAOS_PICK(path, name) ::chaos::pick(path, name##_scalar, name##_avx2, name##_avx512)

template <class Kernels>
const Kernels& pick(Path path, const Kernels& scalar, const Kernels& avx2, const Kernels& avx512) {
    static const Path best = path_available(Path::avx512) ? Path::avx512
                             : path_available(Path::avx2) ? Path::avx2
                                                          : Path::scalar;
    if (path == Path::best) path = best;
    CHAOS_ASSERT(path_available(path));
    return path == Path::avx512 ? avx512 : path == Path::avx2 ? avx2 : scalar;
}
#else
// Elsewhere the compiler's baseline has vectors (NEON).
#define CHAOS_VARIANTS(variant) variant(scalar, CHAOS_NOT_VECTORISED) variant(native, )
#define CHAOS_PICK(path, name) ::chaos::pick(path, name##_scalar, name##_native)

template <class Kernels>
const Kernels& pick(Path path, const Kernels& scalar, const Kernels& native) {
    CHAOS_ASSERT(path_available(path));
    return path == Path::scalar ? scalar : native;
}
#endif

}  // namespace chaos
