"""C++ for stochastic rounding to half: one function for any shape and any program.

In: `draws.py`, whose bits it rounds by. Out: `round_rows`, which rounds as `numerics/rounding.py` does, in one
pass over memory: to half, or to float32 numbers that half has, in place.
"""

from __future__ import annotations

FUNCTION = "round_rows"

SOURCE = (
    """
// Codes of float32 numbers, rounded to those that half has.
template <int OVERFLOW_KIND>
static inline vec round_some(vec codes, vec bits) {
  const vec magnitudes = codes & 0x7fffffffu, signs = codes ^ magnitudes;
  // 2^-14, the smallest normal number, where the number is below it; else 0.
  const vec offsets = (vec)(magnitudes < 0x38800000u) & 0x38800000u;
  const vec sums = ((vec)((fvec)magnitudes + (fvec)offsets) + (bits >> 19)) & 0xffffe000u;
  vec kept = (vec)((fvec)sums - (fvec)offsets);
  const uint32_t largest = 0x477fe000u, infinity = 0x7f800000u;
  const vec beyond = vec{} + (OVERFLOW_KIND == 0 ? infinity : OVERFLOW_KIND == 1 ? largest : 0x7fc00000u);
  kept = kept > largest ? beyond : kept;
  kept = magnitudes >= infinity ? magnitudes : kept;
  return signs | kept;
}
// Of a float32 that is a number of half.
static inline uint16_t narrow(uint32_t code) {
  const uint32_t sign = (code >> 16) & 0x8000u, magnitude = code & 0x7fffffffu;
  float value;
  std::memcpy(&value, &magnitude, 4);
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u);
  if (magnitude == 0x7f800000u) return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u) return uint16_t(sign | uint32_t(value * 0x1p24f));
  return uint16_t(sign | (magnitude - (112u << 23)) >> 13);
}
static inline void store(float* results, vec codes) { std::memcpy(results, &codes, sizeof(vec)); }
static inline void store(uint16_t* results, vec codes) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(results), _mm512_cvtps_ph((__m512)codes, 0));
#elif defined(__AVX2__) && defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(results), _mm256_cvtps_ph((__m256)codes, 0));
#else
  for (int lane = 0; lane < LANES; lane++) results[lane] = narrow(codes[lane]);
#endif
}
template <int OVERFLOW_KIND, typename Result>
static inline void round_row(const float* values, Result* results, int64_t count, uint32_t key) {
  vec steps = count_from(key);
  int64_t place = 0;
  for (; place + LANES <= count; place += LANES, steps += LANES * COLUMN) {
    vec codes;
    std::memcpy(&codes, values + place, sizeof(vec));
    store(results + place, round_some<OVERFLOW_KIND>(codes, mix(steps)));
  }
  if (place == count) return;
  vec codes{};
  std::memcpy(&codes, values + place, 4 * (count - place));
  Result last[LANES];
  store(last, round_some<OVERFLOW_KIND>(codes, mix(steps)));
  std::memcpy(results + place, last, sizeof(Result) * (count - place));
}
template <int OVERFLOW_KIND, typename Result>
static void round_all(const float* values, void* results, const int32_t* seeds, int64_t count, int64_t draw,
                      int64_t first, const int64_t* places, int64_t rows, int64_t columns, int threads) {
  walk_rows(seeds, count, draw, first, places, rows, columns, threads, [&](int64_t start, int64_t size, uint32_t key) {
    round_row<OVERFLOW_KIND>(values + start, static_cast<Result*>(results) + start, size, key);
  });
}
"""
    f"""
extern "C" void {FUNCTION}(const float* values, void* results, const int32_t* seeds, int64_t count, int64_t draw,
                           int64_t first, const int64_t* places, int64_t rows, int64_t columns, int overflow,
                           int wide, int threads) {{
  decltype(&round_all<0, float>) kinds[3][2] = {{
      {{round_all<0, uint16_t>, round_all<0, float>}},
      {{round_all<1, uint16_t>, round_all<1, float>}},
      {{round_all<2, uint16_t>, round_all<2, float>}}}};
  kinds[overflow][wide](values, results, seeds, count, draw, first, places, rows, columns, threads);
}}
"""
)
