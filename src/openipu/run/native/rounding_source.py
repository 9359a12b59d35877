"""C++ for stochastic rounding to half: one function for any shape and any program.

In: the numbers that keep draws, rows and columns apart (`run/passes/seeded_random.py`). Out: a file with `round_rows`.
It draws the bits of an element from the seed, the draw and the element's row and column as `compute_bits` does, and
rounds as `numerics/rounding.py` does, one pass over memory: to half, or to float32 numbers that half has, in place.
"""

from __future__ import annotations

from openipu.run.passes.seeded_random import COLUMN_STEP, DRAW_STEP, ROUNDS, ROW_STEP

FUNCTION = "round_rows"

_BLOCK = 4096  # columns of a row that one thread takes at a time
_MIX = "".join(f"  value = (value ^ (value >> {shift})) * {factor & 0xFFFFFFFF:#x}u;\n" for shift, _, factor in ROUNDS)

SOURCE = (
    f"""#include <cstdint>
#include <cstring>
#ifdef __F16C__
#include <immintrin.h>
#endif
static inline uint32_t mix(uint32_t value) {{
{_MIX}  return value;
}}
static inline uint32_t finish(uint32_t value) {{ return value ^ (value >> 16); }}
constexpr uint32_t DRAW = {DRAW_STEP & 0xFFFFFFFF:#x}u, ROW = {ROW_STEP & 0xFFFFFFFF:#x}u;
constexpr uint32_t COLUMN = {COLUMN_STEP & 0xFFFFFFFF:#x}u;
constexpr int64_t BLOCK = {_BLOCK};
"""
    """
template <int OVERFLOW_KIND>
static inline uint32_t round_one(uint32_t code, uint32_t bits) {
  const uint32_t sign = code & 0x80000000u, magnitude = code & 0x7fffffffu;
  const uint32_t largest = 0x477fe000u, infinity = 0x7f800000u;
  float value, offset = magnitude < 0x38800000u ? 0x1p-14f : 0.0f;
  std::memcpy(&value, &magnitude, 4);
  value += offset;
  uint32_t sum;
  std::memcpy(&sum, &value, 4);
  sum = (sum + (bits >> 19)) & 0xffffe000u;
  std::memcpy(&value, &sum, 4);
  value -= offset;
  uint32_t kept;
  std::memcpy(&kept, &value, 4);
  const uint32_t beyond = OVERFLOW_KIND == 0 ? infinity : OVERFLOW_KIND == 1 ? largest : 0x7fc00000u;
  kept = kept > largest ? beyond : kept;
  kept = magnitude >= infinity ? magnitude : kept;
  return sign | kept;
}
// Of a float32 that is a number of half.
static inline uint16_t narrow(uint32_t code) {
  const uint32_t sign = (code >> 16) & 0x8000u, magnitude = code & 0x7fffffffu;
  float value;
  std::memcpy(&value, &magnitude, 4);
  const uint32_t normal = (magnitude - (112u << 23)) >> 13;
  const uint32_t small = uint32_t(int32_t((magnitude < 0x38800000u ? value : 0.0f) * 0x1p24f));
  uint32_t found = magnitude < 0x38800000u ? small : normal;
  found = magnitude == 0x7f800000u ? 0x7c00u : magnitude > 0x7f800000u ? 0x7e00u : found;
  return uint16_t(sign | found);
}
static inline void narrow_all(const uint32_t* codes, uint16_t* results, int64_t count) {
  int64_t place = 0;
#ifdef __F16C__
  for (; place + 8 <= count; place += 8) {
    const __m256 eight = _mm256_loadu_ps(reinterpret_cast<const float*>(codes + place));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(results + place), _mm256_cvtps_ph(eight, 0));
  }
#endif
  for (; place < count; place++) results[place] = narrow(codes[place]);
}
template <int OVERFLOW_KIND, bool WIDE>
static void round_all(const float* values, void* results, const int32_t* seeds, int64_t count, int64_t draw,
                      int64_t first, const int64_t* places, int64_t rows, int64_t columns, int threads) {
  const int64_t blocks = (columns + BLOCK - 1) / BLOCK, parts = count * rows * blocks;
#pragma omp parallel for num_threads(threads) schedule(static) if (count * rows * columns > (1 << 14))
  for (int64_t part = 0; part < parts; part++) {
    const int64_t line = part / blocks, from = part % blocks * BLOCK;
    const int64_t to = from + BLOCK < columns ? from + BLOCK : columns;
    const uint32_t base = finish(mix(uint32_t(seeds[line / rows]) + uint32_t(draw) * DRAW));
    const int64_t place = places ? places[line % rows] : first + line % rows;
    const uint32_t key = finish(mix(base + uint32_t(place) * ROW));
    const float* row = values + line * columns + from;
    uint32_t held[WIDE ? 1 : BLOCK];
    uint32_t* found = WIDE ? static_cast<uint32_t*>(results) + line * columns + from : held;
#pragma GCC ivdep
    for (int64_t column = 0; column < to - from; column++) {
      uint32_t code;
      std::memcpy(&code, row + column, 4);
      found[column] = round_one<OVERFLOW_KIND>(code, mix(key + uint32_t(from + column) * COLUMN));
    }
    if constexpr (!WIDE) narrow_all(held, static_cast<uint16_t*>(results) + line * columns + from, to - from);
  }
}
"""
    f"""
extern "C" void {FUNCTION}(const float* values, void* results, const int32_t* seeds, int64_t count, int64_t draw,
                           int64_t first, const int64_t* places, int64_t rows, int64_t columns, int overflow,
                           int wide, int threads) {{
  decltype(&round_all<0, true>) kinds[3][2] = {{
      {{round_all<0, false>, round_all<0, true>}},
      {{round_all<1, false>, round_all<1, true>}},
      {{round_all<2, false>, round_all<2, true>}}}};
  kinds[overflow][wide](values, results, seeds, count, draw, first, places, rows, columns, threads);
}}
"""
)
