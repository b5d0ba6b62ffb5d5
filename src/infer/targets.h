// Which instruction sets kernels are compiled for. Included before any of Highway's headers.
#pragma once

// AVX-512 with VNNI, which Highway leaves out unless asked.
#define HWY_WANT_AVX3_DL
// Those without fused multiply-add would be as slow as the plain functions; lanes of SVE have no fixed number.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
