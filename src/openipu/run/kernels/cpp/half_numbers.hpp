// Half precision: float32 numbers rounded to those that half has, to nearest or by random bits, and both conversions.
#pragma once
#include "vectors.hpp"

namespace {

constexpr uint32_t SMALLEST_NORMAL = 0x38800000u;  // 2^-14, as the code of a float32
constexpr uint32_t LARGEST_HALF = 0x477fe000u, INFINITE = 0x7f800000u, NOT_A_NUMBER = 0x7fc00000u;

// What becomes of numbers that are too large; Python counts them the same way.
enum Overflow : int32_t { TO_INFINITY = 0, SATURATE = 1, TO_NAN = 2 };

template <int OVERFLOW_KIND>
inline UintVector limit_to_half(UintVector kept, UintVector magnitudes) {
  const UintVector beyond = UintVector{} + (OVERFLOW_KIND == TO_INFINITY ? INFINITE
                                            : OVERFLOW_KIND == SATURATE  ? LARGEST_HALF
                                                                         : NOT_A_NUMBER);
  kept = kept > LARGEST_HALF ? beyond : kept;
  return magnitudes >= INFINITE ? magnitudes : kept;
}
// Codes of float32 numbers, rounded up or down by random bits to codes of numbers that half has.
template <int OVERFLOW_KIND>
inline UintVector round_by_bits(UintVector codes, UintVector bits) {
  const UintVector magnitudes = codes & 0x7fffffffu, signs = codes ^ magnitudes;
  const UintVector offsets = (UintVector)(magnitudes < SMALLEST_NORMAL) & SMALLEST_NORMAL;
  const UintVector sums = ((UintVector)((FloatVector)magnitudes + (FloatVector)offsets) + (bits >> 19)) & 0xffffe000u;
  const UintVector kept = (UintVector)((FloatVector)sums - (FloatVector)offsets);
  return signs | limit_to_half<OVERFLOW_KIND>(kept, magnitudes);
}
// The same, rounded to the nearest.
template <int OVERFLOW_KIND>
inline UintVector round_to_nearest(UintVector codes) {
  const UintVector magnitudes = codes & 0x7fffffffu, signs = codes ^ magnitudes;
  const UintVector normal = (magnitudes + 0xfffu + (magnitudes >> 13 & 1u)) & 0xffffe000u;
  const FloatVector half = FloatVector{} + 0.5f;  // between 1/2 and 1, float32 has what half has below 2^-14
  const UintVector small = (UintVector)(((FloatVector)magnitudes + half) - half);
  return signs | limit_to_half<OVERFLOW_KIND>(magnitudes < SMALLEST_NORMAL ? small : normal, magnitudes);
}
// The half number of a float32 code that half has.
inline uint16_t narrow(uint32_t code) {
  const uint32_t sign = (code >> 16) & 0x8000u, magnitude = code & 0x7fffffffu;
  float value;
  std::memcpy(&value, &magnitude, 4);
  if (magnitude > INFINITE) return uint16_t(sign | 0x7e00u);
  if (magnitude == INFINITE) return uint16_t(sign | 0x7c00u);
  if (magnitude < SMALLEST_NORMAL) return uint16_t(sign | uint32_t(value * 0x1p24f));
  return uint16_t(sign | (magnitude - (112u << 23)) >> 13);
}
inline float widen(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu, sign = uint32_t(half ^ magnitude) << 16;
  uint32_t code = magnitude << 13;
  float value;
  std::memcpy(&value, &code, 4);
  value *= 0x1p112f;
  std::memcpy(&code, &value, 4);
  code = sign | (magnitude >= 0x7c00u ? INFINITE | magnitude << 13 : code);
  std::memcpy(&value, &code, 4);
  return value;
}
inline void store(uint16_t* results, UintVector codes) {
#if SIMD_LANES == 16
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(results), _mm512_cvtps_ph((__m512)codes, 0));
#elif SIMD_LANES == 8
  _mm_storeu_si128(reinterpret_cast<__m128i*>(results), _mm256_cvtps_ph((__m256)codes, 0));
#else
  for (int lane = 0; lane < LANES; lane++) results[lane] = narrow(codes[lane]);
#endif
}
inline FloatVector load_wide(const float* from) { return load(from); }
inline FloatVector load_wide(const uint16_t* from) {
#if SIMD_LANES == 16
  return (FloatVector)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif SIMD_LANES == 8
  return (FloatVector)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  FloatVector values;
  for (int lane = 0; lane < LANES; lane++) values[lane] = widen(from[lane]);
  return values;
#endif
}
inline float read_wide(const float* from) { return *from; }
inline float read_wide(const uint16_t* from) { return widen(*from); }

}  // namespace
