"""C++ for the product that a weight's gradient is: columns of one matrix by columns of another, for any shape.

In: vectors of the machine's width (`draws.py`). Out: `multiply_columns`, which writes `left.T @ right`, or adds
it to what is there. Both matrices lie row behind row, and so both are read as they lie: blocks of them are copied to
where each step of the innermost loop finds its numbers side by side. That loop keeps a tile of the result in registers.
"""

from __future__ import annotations

FUNCTION = "multiply_columns"

SOURCE = f"""
#include <cstdlib>
// A tile: so many rows of the result by two vectors. Registers hold it, one column vector of two, and one number.
constexpr int HIGH = LANES == 16 ? 12 : LANES == 8 ? 6 : 4, WIDE = 2 * LANES;
// Blocks: a strip of HIGH by DEEP numbers stays in the first cache, BROAD by DEEP in the second, TALL by DEEP beyond.
constexpr int64_t DEEP = 512, BROAD = 256, TALL = 1536;
constexpr int AHEAD = 16;  // rows that are fetched before they are used
static inline fvec take(const float* from) {{
  fvec some;
  std::memcpy(&some, from, sizeof(fvec));
  return some;
}}
static inline void put(float* to, fvec some) {{ std::memcpy(to, &some, sizeof(fvec)); }}
static inline int64_t least(int64_t one, int64_t other) {{ return one < other ? one : other; }}
template <bool ADDS>
static void multiply_tile(const float* __restrict left, const float* __restrict right, int64_t depth,
                          float* __restrict result, int64_t stride) {{
  fvec sums[HIGH][2];
#pragma GCC unroll 16
  for (int row = 0; row < HIGH; row++) {{
    sums[row][0] = sums[row][1] = fvec{{}};
    __builtin_prefetch(result + row * stride, 1);
    __builtin_prefetch(result + row * stride + WIDE - 1, 1);
  }}
#pragma GCC unroll 4
  for (int64_t place = 0; place < depth; place++, left += HIGH, right += WIDE) {{
    __builtin_prefetch(right + AHEAD * WIDE);
    __builtin_prefetch(right + AHEAD * WIDE + LANES);
    __builtin_prefetch(left + AHEAD * HIGH);
    const fvec first = take(right), second = take(right + LANES);
#pragma GCC unroll 16
    for (int row = 0; row < HIGH; row++) {{
      sums[row][0] += first * left[row];
      sums[row][1] += second * left[row];
    }}
  }}
#pragma GCC unroll 16
  for (int row = 0; row < HIGH; row++) {{
    float* to = result + row * stride;
    put(to, ADDS ? take(to) + sums[row][0] : sums[row][0]);
    put(to + LANES, ADDS ? take(to + LANES) + sums[row][1] : sums[row][1]);
  }}
}}
// Strips of SIZE columns, each row of a strip behind the one before; the last one is filled up with zeros.
template <int SIZE>
static void copy_strips(const float* from, int64_t stride, int64_t depth, int64_t columns, float factor, float* to) {{
  for (int64_t start = 0; start < columns; start += SIZE) {{
    const int64_t count = columns - start;
    const float* row = from + start;
    for (int64_t place = 0; place < depth; place++, row += stride, to += SIZE) {{
      if (count >= SIZE)
        for (int column = 0; column < SIZE; column++) to[column] = row[column] * factor;
      else
        for (int column = 0; column < SIZE; column++) to[column] = column < count ? row[column] * factor : 0.0f;
    }}
  }}
}}
struct Columns {{
  const float* data;
  int64_t stride;
}};
static void multiply_block(const float* strips, const float* blocks, int64_t depth, float* result, int64_t stride,
                           int64_t height, int64_t width, bool adds) {{
  for (int64_t row = 0; row < height; row += HIGH) {{
    for (int64_t column = 0; column < width; column += WIDE) {{
      const float *left = strips + row * depth, *right = blocks + column * depth;
      float* to = result + row * stride + column;
      const int64_t rows = least(HIGH, height - row), columns = least(WIDE, width - column);
      if (rows == HIGH && columns == WIDE) {{
        if (adds)
          multiply_tile<true>(left, right, depth, to, stride);
        else
          multiply_tile<false>(left, right, depth, to, stride);
        continue;
      }}
      float whole[HIGH * WIDE];
      multiply_tile<false>(left, right, depth, whole, WIDE);
      for (int64_t high = 0; high < rows; high++)
        for (int64_t wide = 0; wide < columns; wide++) {{
          float& number = to[high * stride + wide];
          number = (adds ? number : 0.0f) + whole[high * WIDE + wide];
        }}
    }}
  }}
}}
// Kept by each thread for as long as it lives; pages appear as far as they are used.
struct Scratch {{
  float* memory = nullptr;
  float* find() {{
    if (!memory) memory = (float*)std::aligned_alloc(64, sizeof(float) * DEEP * (TALL + BROAD));
    return memory;
  }}
  ~Scratch() {{ std::free(memory); }}
}};
// The same where there is no memory for blocks, number by number.
static void multiply_plainly(Columns left, Columns right, int64_t depth, int64_t height, int64_t width, float* result,
                             int64_t stride, float factor, bool adds) {{
  for (int64_t row = 0; row < height; row++) {{
    float* to = result + row * stride;
    if (!adds) std::memset(to, 0, sizeof(float) * width);
    for (int64_t place = 0; place < depth; place++) {{
      const float number = left.data[place * left.stride + row] * factor;
      const float* from = right.data + place * right.stride;
      for (int64_t column = 0; column < width; column++) to[column] += number * from[column];
    }}
  }}
}}
static void multiply_part(Columns left, Columns right, int64_t depth, int64_t height, int64_t width, float* result,
                          int64_t stride, float factor, bool adds) {{
  static thread_local Scratch scratch;
  float* held = depth ? scratch.find() : nullptr;
  if (!held) return multiply_plainly(left, right, depth, height, width, result, stride, factor, adds);
  float *strips = held, *blocks = held + DEEP * TALL;
  const int64_t pieces = (depth + DEEP - 1) / DEEP, deep = (depth + pieces - 1) / pieces;
  for (int64_t place = 0; place < depth; place += deep) {{
    const int64_t rows = least(deep, depth - place);
    for (int64_t top = 0; top < height; top += TALL) {{
      const int64_t tall = least(TALL, height - top);
      copy_strips<HIGH>(left.data + place * left.stride + top, left.stride, rows, tall, factor, strips);
      for (int64_t side = 0; side < width; side += BROAD) {{
        const int64_t broad = least(BROAD, width - side);
        copy_strips<WIDE>(right.data + place * right.stride + side, right.stride, rows, broad, 1.0f, blocks);
        multiply_block(strips, blocks, rows, result + top * stride + side, stride, tall, broad, adds || place > 0);
      }}
    }}
  }}
}}
// result = factor * left.T @ right, or that added to it; left: depth rows of height numbers; right: depth of width.
extern "C" void {FUNCTION}(const float* left, int64_t left_stride, const float* right, int64_t right_stride,
                           float* result, int64_t depth, int64_t height, int64_t width, float factor, int adds,
                           int threads) {{
  const bool upright = height >= width;
  const int64_t unit = upright ? HIGH : WIDE, whole = upright ? height : width, units = (whole + unit - 1) / unit;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int part = 0; part < threads; part++) {{
    const int64_t from = units * part / threads * unit, to = least(whole, units * (part + 1) / threads * unit);
    if (from >= to) continue;
    const int64_t row = upright ? from : 0, column = upright ? 0 : from;
    multiply_part({{left + row, left_stride}}, {{right + column, right_stride}}, depth, upright ? to - from : height,
                  upright ? width : to - from, result + row * width + column, width, factor, adds);
  }}
}}
"""
