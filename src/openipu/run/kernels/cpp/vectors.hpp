// SIMD vectors as wide as the machine has them, and what g++ and clang++ spell differently.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__)
#include <immintrin.h>
#define SIMD_LANES 16
#elif defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define SIMD_LANES 8
#else
#define SIMD_LANES 4
#endif

// Loops with a constant number of rounds are written out, so that arrays of vectors stay in registers.
#define LOOP_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL_ALL LOOP_PRAGMA(clang loop unroll(full))
#define UNROLL(count) LOOP_PRAGMA(clang loop unroll_count(count))
#define NO_UNROLL LOOP_PRAGMA(clang loop unroll(disable))
#else
#define UNROLL_ALL LOOP_PRAGMA(GCC unroll 36)
#define UNROLL(count) LOOP_PRAGMA(GCC unroll count)
#define NO_UNROLL LOOP_PRAGMA(GCC unroll 1)
#endif

// In a register: a compiler would rather read the value from memory again for each product.
#if defined(__AVX512VL__)
#define HOLD_IN_REGISTER(value) asm("" : "+v"(value))
#elif defined(__AVX__)
#define HOLD_IN_REGISTER(value) asm("" : "+x"(value))
#else
#define HOLD_IN_REGISTER(value)
#endif

// For functions of arrays that stay in registers.
#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace {

constexpr int LANES = SIMD_LANES;

typedef uint32_t UintVector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t IntVector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float FloatVector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// Half of the lanes of two vectors, taken in turns: the first halves, or the second ones.
#if SIMD_LANES == 16
#define FIRST_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif SIMD_LANES == 8
#define FIRST_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FIRST_HALVES 0, 4, 1, 5
#define SECOND_HALVES 2, 6, 3, 7
#endif
#if defined(__clang__)
#define INTERLEAVE(one, other, order) __builtin_shufflevector(one, other, order)
#else
#define INTERLEAVE(one, other, order) __builtin_shuffle(one, other, IntVector{order})
#endif
inline FloatVector interleave_first(FloatVector one, FloatVector other) { return INTERLEAVE(one, other, FIRST_HALVES); }
inline FloatVector interleave_second(FloatVector one, FloatVector other) {
  return INTERLEAVE(one, other, SECOND_HALVES);
}

inline FloatVector load(const float* from) {
  FloatVector value;
  std::memcpy(&value, from, sizeof(FloatVector));
  return value;
}
inline void store(float* to, FloatVector value) { std::memcpy(to, &value, sizeof(FloatVector)); }
inline void store(float* to, UintVector codes) { std::memcpy(to, &codes, sizeof(UintVector)); }

inline int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }

}  // namespace
