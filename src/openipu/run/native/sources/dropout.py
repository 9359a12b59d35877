"""C++ for dropout: one function for any shape and any program.

In: `draws.py`, whose bits choose the elements, and `rounding.py`, for masks in half. Out: `keep_rows`,
which multiplies by the mask of a dropout without writing that down, in one pass over memory, or in place.
"""

from __future__ import annotations

FUNCTION = "keep_rows"

SOURCE = f"""
// By `factor` where the bits of an element are below `quantile`, and by 0 elsewhere.
template <bool ROUNDED>
static inline fvec keep_some(fvec some, vec steps, vec chances, int quantile, float factor) {{
  fvec factors = fvec{{}} + factor;
  if (ROUNDED) factors = (fvec)round_some<0>((vec)factors, mix(chances));
  return some * ((ivec)mix(steps) < quantile ? factors : fvec{{}});
}}
template <bool ROUNDED>
static inline void keep_row(const float* values, float* results, int64_t count, uint32_t key, uint32_t chance,
                            int quantile, float factor) {{
  vec steps = count_from(key), chances = count_from(chance);
  int64_t place = 0;
  for (; place + LANES <= count; place += LANES, steps += LANES * COLUMN, chances += LANES * COLUMN) {{
    fvec some;
    std::memcpy(&some, values + place, sizeof(fvec));
    some = keep_some<ROUNDED>(some, steps, chances, quantile, factor);
    std::memcpy(results + place, &some, sizeof(fvec));
  }}
  if (place == count) return;
  fvec some{{}};
  std::memcpy(&some, values + place, 4 * (count - place));
  some = keep_some<ROUNDED>(some, steps, chances, quantile, factor);
  std::memcpy(results + place, &some, 4 * (count - place));
}}
// `rounding`: the draw by which the factor of each element is rounded to half; none if it is below 0.
extern "C" void {FUNCTION}(const float* values, float* results, const int32_t* seeds, int64_t count, int64_t draw,
                           int64_t rounding, int64_t rows, int64_t columns, int quantile, float factor, int threads) {{
  walk_rows(seeds, count, draw, 0, nullptr, rows, columns, threads, [&](int64_t start, int64_t size, uint32_t key) {{
    if (rounding < 0) {{
      keep_row<false>(values + start, results + start, size, key, 0, quantile, factor);
      return;
    }}
    const int64_t line = start / columns;
    const uint32_t base = find_key(seeds[line / rows], rounding, line % rows);
    const uint32_t chance = base + uint32_t(start % columns) * COLUMN;
    keep_row<true>(values + start, results + start, size, key, chance, quantile, factor);
  }});
}}
"""
