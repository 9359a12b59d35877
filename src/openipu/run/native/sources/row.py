"""C++ for the product of one row with a large weight: one function for any shape.

In: a row, and a weight whose own rows lie one behind the other. Out: the product of the row with each row of the
weight, with a bias. Such a product reads every weight once, for one multiplication: each thread reads its part from the
first number to the last, ahead of what it computes, at the speed of memory.
"""

from __future__ import annotations

FUNCTION = "multiply_row"

SOURCE = f"""
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
namespace row {{
#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
constexpr int PARTS = 4, AHEAD = 512;  // sums at a time, numbers that are asked for before they are needed
typedef float fvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
static inline fvec load(const float* from) {{
  fvec value;
  std::memcpy(&value, from, sizeof(fvec));
  return value;
}}
static inline float add_up(fvec value) {{
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)value);
#else
  float total = 0;
  for (int lane = 0; lane < LANES; lane++) total += value[lane];
  return total;
#endif
}}
static inline float multiply(const float* __restrict given, const float* __restrict weight, int64_t width) {{
  fvec sums[PARTS]{{}};
  int64_t place = 0;
  for (; place + PARTS * LANES <= width; place += PARTS * LANES) {{
#pragma GCC unroll 4
    for (int part = 0; part < PARTS; part++) {{
      const int64_t own = place + part * LANES;
      __builtin_prefetch(weight + own + AHEAD);
      sums[part] += load(weight + own) * load(given + own);
    }}
  }}
  float total = add_up((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; place < width; place++) total += weight[place] * given[place];
  return total;
}}
}}  // namespace row
// `given`: width. `weight`: count, width. `bias`, `results`: count.
extern "C" void {FUNCTION}(const float* given, const float* weight, const float* bias, float* results, int64_t count,
                           int64_t width, int threads) {{
#pragma omp parallel for num_threads(threads) schedule(static) if (count * width > (1 << 16))
  for (int64_t column = 0; column < count; column++) {{
    const float total = row::multiply(given, weight + column * width, width);
    results[column] = bias ? total + bias[column] : total;
  }}
}}
"""
