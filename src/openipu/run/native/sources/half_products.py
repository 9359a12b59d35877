"""C++ for products whose sums are rounded to half on their way: one function for any shape.

In: vectors and tiles of `products.py`, bits of `draws.py`, roundings of `rounding.py`. Out:
`multiply_in_half`, a product of matrices that lie in rows or in columns, in float32 or in half. A tile of the result
stays in registers from the first input to the last; behind every chunk of inputs its numbers are rounded there, once
more when an addend has been added, and then stored in float32 or half.
"""

from __future__ import annotations

from openipu.numerics import CHUNKS

FUNCTION = "multiply_in_half"

SOURCE = f"""
static inline float widen(uint16_t half) {{
  const uint32_t magnitude = half & 0x7fffu, sign = uint32_t(half ^ magnitude) << 16;
  uint32_t code = magnitude << 13;
  float value;
  std::memcpy(&value, &code, 4);
  value *= 0x1p112f;
  std::memcpy(&code, &value, 4);
  code = sign | (magnitude >= 0x7c00u ? 0x7f800000u | magnitude << 13 : code);
  std::memcpy(&value, &code, 4);
  return value;
}}
static inline float read_one(const float* from) {{ return *from; }}
static inline float read_one(const uint16_t* from) {{ return widen(*from); }}
static inline fvec read_some(const float* from) {{ return take(from); }}
static inline fvec read_some(const uint16_t* from) {{
#if defined(__AVX512F__)
  return (fvec)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__) && defined(__F16C__)
  return (fvec)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  fvec some;
  for (int lane = 0; lane < LANES; lane++) some[lane] = widen(from[lane]);
  return some;
#endif
}}
// Rows become columns: each round sorts by one bit of a number's place.
static inline void turn(fvec* rows) {{
  ivec low, high;
#pragma GCC unroll 16
  for (int lane = 0; lane < LANES; lane++) {{
    low[lane] = lane / 2 + (lane % 2) * LANES;
    high[lane] = low[lane] + LANES / 2;
  }}
#pragma GCC unroll 4
  for (int round = 1; round < LANES; round *= 2) {{
    fvec sorted[LANES];
#pragma GCC unroll 16
    for (int row = 0; row < LANES / 2; row++) {{
      sorted[2 * row] = __builtin_shuffle(rows[row], rows[row + LANES / 2], low);
      sorted[2 * row + 1] = __builtin_shuffle(rows[row], rows[row + LANES / 2], high);
    }}
#pragma GCC unroll 16
    for (int row = 0; row < LANES; row++) rows[row] = sorted[row];
  }}
}}
// An operand: how far it is from one input to the next, and from one row or column of the result to the next.
struct Side {{
  const void* data;
  int64_t deep, wide, count;
  bool half;
}};
// SIZE rows or columns of an operand, input behind input, in float32. Beyond the last one, that one is repeated.
template <int SIZE, typename Number>
static void gather_numbers(Side side, int64_t first, int64_t depth, float* to) {{
  const Number* from = static_cast<const Number*>(side.data) + first * side.wide;
  const int64_t count = side.count - first;
  int64_t place = 0;
  if (side.wide == 1 && count >= SIZE) {{
    for (; place < depth; place++)
      for (int lane = 0; lane < SIZE; lane += LANES)
        put(to + place * SIZE + lane, read_some(from + place * side.deep + lane));
  }} else if (side.deep == 1) {{
    for (; place + LANES <= depth; place += LANES)
      for (int lane = 0; lane < SIZE; lane += LANES) {{
        fvec rows[LANES];
#pragma GCC unroll 16
        for (int row = 0; row < LANES; row++)
          rows[row] = read_some(from + least(lane + row, count - 1) * side.wide + place);
        turn(rows);
#pragma GCC unroll 16
        for (int row = 0; row < LANES; row++) put(to + (place + row) * SIZE + lane, rows[row]);
      }}
  }}
  for (; place < depth; place++)
    for (int lane = 0; lane < SIZE; lane++)
      to[place * SIZE + lane] = read_one(from + least(lane, count - 1) * side.wide + place * side.deep);
}}
template <int SIZE>
static void gather_strip(Side side, int64_t first, int64_t depth, float* to) {{
  if (side.half)
    gather_numbers<SIZE, uint16_t>(side, first, depth, to);
  else
    gather_numbers<SIZE, float>(side, first, depth, to);
}}
// Codes of float32 numbers, rounded to the nearest that half has.
template <int OVERFLOW_KIND>
static inline vec round_to_nearest(vec codes) {{
  const vec magnitudes = codes & 0x7fffffffu, signs = codes ^ magnitudes;
  const vec normal = (magnitudes + 0xfffu + (magnitudes >> 13 & 1u)) & 0xffffe000u;
  const fvec half = fvec{{}} + 0.5f;  // between 1/2 and 1, float32 has what half has below 2^-14
  vec kept = magnitudes < 0x38800000u ? (vec)(((fvec)magnitudes + half) - half) : normal;
  const uint32_t largest = 0x477fe000u, infinity = 0x7f800000u;
  const vec beyond = vec{{}} + (OVERFLOW_KIND == 0 ? infinity : OVERFLOW_KIND == 1 ? largest : 0x7fc00000u);
  kept = kept > largest ? beyond : kept;
  kept = magnitudes >= infinity ? magnitudes : kept;
  return signs | kept;
}}
// How sums are rounded: behind so many inputs; by bits that start from a key for each rounding and row, or to nearest.
struct Roundings {{
  int64_t chunk;
  const uint32_t* keys;
  vec columns;
}};
static inline vec draw_bits(const uint32_t* keys, vec columns, int row, int side) {{
  return mix(columns + (keys[row] + uint32_t(side * LANES) * COLUMN));
}}
// Whether all numbers are normal in half, and stay so whatever they are rounded to.
static inline bool are_usual(const fvec sums[HIGH][2]) {{
  constexpr uint32_t smallest = 0x38800000u, largest = 0x477fe000u;
  vec most = {{}};
#pragma GCC unroll 16
  for (int row = 0; row < HIGH; row++)
#pragma GCC unroll 2
    for (int side = 0; side < 2; side++) {{
      const vec above = ((vec)sums[row][side] & 0x7fffffffu) - smallest;
      most = above > most ? above : most;
    }}
  const ivec strange = most >= largest - smallest;
  int64_t found = 0;
  for (int lane = 0; lane < LANES; lane++) found |= strange[lane];
  return found == 0;
}}
template <int OVERFLOW_KIND, bool BY_CHANCE>
static inline void round_sums(fvec sums[HIGH][2], const uint32_t* keys, vec columns) {{
  const bool usual = BY_CHANCE && are_usual(sums);
  if (usual) {{
#pragma GCC unroll 16
    for (int row = 0; row < HIGH; row++)
#pragma GCC unroll 2
      for (int side = 0; side < 2; side++)
        sums[row][side] =
            (fvec)(((vec)sums[row][side] + (draw_bits(keys, columns, row, side) >> 19)) & 0xffffe000u);
    return;
  }}
#pragma GCC unroll 16
  for (int row = 0; row < HIGH; row++)
#pragma GCC unroll 2
    for (int side = 0; side < 2; side++) {{
      const vec codes = (vec)sums[row][side];
      if constexpr (BY_CHANCE)
        sums[row][side] = (fvec)round_some<OVERFLOW_KIND>(codes, draw_bits(keys, columns, row, side));
      else
        sums[row][side] = (fvec)round_to_nearest<OVERFLOW_KIND>(codes);
    }}
}}
template <int OVERFLOW_KIND, bool BY_CHANCE>
static void sum_tile(const float* __restrict left, const float* __restrict right, int64_t depth, Roundings roundings,
                     const float* addend, float* __restrict result) {{
  fvec sums[HIGH][2];
#pragma GCC unroll 16
  for (int row = 0; row < HIGH; row++) sums[row][0] = sums[row][1] = fvec{{}};
  const uint32_t* keys = roundings.keys;
  for (int64_t start = 0; start < depth; start += roundings.chunk, keys += HIGH) {{
    const int64_t end = least(start + roundings.chunk, depth);
#pragma GCC unroll 4
    for (int64_t place = start; place < end; place++, left += LANES, right += WIDE) {{
      __builtin_prefetch(right + AHEAD * WIDE);
      __builtin_prefetch(right + AHEAD * WIDE + LANES);
      const fvec first = take(right), second = take(right + LANES);
#pragma GCC unroll 16
      for (int row = 0; row < HIGH; row++) {{
        sums[row][0] += first * left[row];
        sums[row][1] += second * left[row];
      }}
    }}
    round_sums<OVERFLOW_KIND, BY_CHANCE>(sums, keys, roundings.columns);
  }}
  if (addend) {{
    const fvec first = take(addend), second = take(addend + LANES);
#pragma GCC unroll 16
    for (int row = 0; row < HIGH; row++) {{
      sums[row][0] += first;
      sums[row][1] += second;
    }}
    round_sums<OVERFLOW_KIND, BY_CHANCE>(sums, keys, roundings.columns);
  }}
#pragma GCC unroll 16
  for (int row = 0; row < HIGH; row++) {{
    put(result + row * WIDE, sums[row][0]);
    put(result + row * WIDE + LANES, sums[row][1]);
  }}
}}
// Numbers that half has.
static inline void write_row(const float* from, void* to, int64_t place, int64_t count, bool half) {{
  if (!half) {{
    std::memcpy(static_cast<float*>(to) + place, from, sizeof(float) * count);
    return;
  }}
  uint16_t row[WIDE];
  for (int lane = 0; lane < WIDE; lane += LANES) store(row + lane, (vec)take(from + lane));
  std::memcpy(static_cast<uint16_t*>(to) + place, row, sizeof(uint16_t) * count);
}}
struct HalfProduct {{
  Side left, right;
  const float* addend;  // of a row, or null
  void* result;
  int64_t depth, chunk;
  const int32_t* seed;  // or null, where it is rounded to nearest
  int64_t first_draw, last_draw, added_draw;
  bool half;
  decltype(&sum_tile<0, true>) sum;
  int64_t broad;  // columns whose inputs stay in the cache
  // The draw that rounds behind a chunk, or behind the addend.
  int64_t find_draw(int64_t part, int64_t parts) const {{
    return part == parts ? added_draw : part == parts - 1 ? last_draw : first_draw + part;
  }}
  void multiply(int64_t top, int64_t bottom, int64_t from, int64_t to, float* scratch) const {{
    const int64_t chunks = (depth + chunk - 1) / chunk;
    float *strip = scratch, *block = scratch + depth * LANES;
    uint32_t keys[({CHUNKS} + 1) * HIGH] = {{}};
    const vec counts = count_from(0);
    for (int64_t side = from; side < to; side += broad) {{
      const int64_t end = least(side + broad, to);
      for (int64_t column = side; column < end; column += WIDE)
        gather_strip<WIDE>(right, column, depth, block + (column - side) * depth);
      for (int64_t row = top; row < bottom; row += HIGH) {{
        const int64_t rows = least(HIGH, bottom - row);
        gather_strip<LANES>(left, row, depth, strip);
        for (int64_t part = 0; seed && part <= chunks; part++)
          for (int64_t place = 0; place < rows; place++)
            keys[part * HIGH + place] = find_key(*seed, find_draw(part, chunks), row + place);
        for (int64_t column = side; column < end; column += WIDE) {{
          const int64_t columns = least(WIDE, right.count - column);
          float whole[HIGH * WIDE], added[WIDE] = {{}};
          if (addend) std::memcpy(added, addend + column, sizeof(float) * columns);
          sum(strip, block + (column - side) * depth, depth, {{chunk, keys, counts + uint32_t(column) * COLUMN}},
              addend ? added : nullptr, whole);
          for (int64_t place = 0; place < rows; place++)
            write_row(whole + place * WIDE, result, (row + place) * right.count + column, columns, half);
        }}
      }}
    }}
  }}
}};
// Scratch: for each thread, depth * (16 + broad) numbers.
extern "C" void {FUNCTION}(const void* left, int64_t left_deep, int64_t left_wide, int left_half, const void* right,
                           int64_t right_deep, int64_t right_wide, int right_half, const float* addend, void* result,
                           int result_half, int64_t depth, int64_t height, int64_t width, int64_t chunk,
                           const int32_t* seed, int64_t first_draw, int64_t last_draw, int64_t added_draw,
                           int overflow, float* scratch, int64_t broad, int threads) {{
  const decltype(&sum_tile<0, true>) kinds[3][2] = {{{{sum_tile<0, false>, sum_tile<0, true>}},
                                                    {{sum_tile<1, false>, sum_tile<1, true>}},
                                                    {{sum_tile<2, false>, sum_tile<2, true>}}}};
  const HalfProduct product = {{{{left, left_deep, left_wide, height, left_half != 0}},
                               {{right, right_deep, right_wide, width, right_half != 0}},
                               addend,
                               result,
                               depth,
                               chunk,
                               seed,
                               first_draw,
                               last_draw,
                               added_draw,
                               result_half != 0,
                               kinds[overflow][seed != nullptr],
                               broad}};
  const bool upright = height >= width;
  const int64_t unit = upright ? HIGH : WIDE, whole = upright ? height : width, units = (whole + unit - 1) / unit;
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (depth * height * width > 1 << 17)
  for (int part = 0; part < threads; part++) {{
    const int64_t from = units * part / threads * unit, to = least(whole, units * (part + 1) / threads * unit);
    if (from >= to) continue;
    product.multiply(upright ? from : 0, upright ? to : height, upright ? 0 : from, upright ? width : to,
                     scratch + part * depth * (16 + broad));
  }}
}}
"""
