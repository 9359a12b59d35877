"""C++ for what draws random bits: the file that other sources go on from, and `walk_rows`, which shares rows out.

In: the numbers that keep draws, rows and columns apart (`run/passes/seeded_random.py`). Out: vectors of the machine's
width, and the bits of an element from the seed, the draw and the element's row and column, as `compute_bits` has them.
"""

from __future__ import annotations

from openipu.run.passes.seeded_random import COLUMN_STEP, DRAW_STEP, ROUNDS, ROW_STEP

_BLOCK = 4096  # columns of a row that one thread takes at a time
_MIX = "".join(f"  value = (value ^ (value >> {shift})) * {factor & 0xFFFFFFFF:#x}u;\n" for shift, _, factor in ROUNDS)

PRELUDE = (
    f"""#include <cstdint>
#include <cstring>
#if defined(__AVX512F__)
#include <immintrin.h>
constexpr int LANES = 16;
#elif defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
typedef uint32_t vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float fvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
template <typename T>
static inline T mix(T value) {{
{_MIX}  return value;
}}
static inline uint32_t finish(uint32_t value) {{ return value ^ (value >> 16); }}
constexpr uint32_t DRAW = {DRAW_STEP & 0xFFFFFFFF:#x}u, ROW = {ROW_STEP & 0xFFFFFFFF:#x}u;
constexpr uint32_t COLUMN = {COLUMN_STEP & 0xFFFFFFFF:#x}u;
constexpr int64_t BLOCK = {_BLOCK};
"""
    """
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
// The numbers of some columns from which bits are mixed, where the first one has this key.
static inline vec count_from(uint32_t key) {
  vec steps;
  for (int lane = 0; lane < LANES; lane++) steps[lane] = key + uint32_t(lane) * COLUMN;
  return steps;
}
// The number of a row's first column.
static inline uint32_t find_key(int32_t seed, int64_t draw, int64_t row) {
  return finish(mix(finish(mix(uint32_t(seed) + uint32_t(draw) * DRAW)) + uint32_t(row) * ROW));
}
// Calls visit(start, size, key) for every piece of every row, on several threads.
template <typename Visit>
static inline void walk_rows(const int32_t* seeds, int64_t count, int64_t draw, int64_t first, const int64_t* places,
                             int64_t rows, int64_t columns, int threads, Visit visit) {
  const int64_t blocks = (columns + BLOCK - 1) / BLOCK, parts = count * rows * blocks;
#pragma omp parallel for num_threads(threads) schedule(static) if (count * rows * columns > (1 << 14))
  for (int64_t part = 0; part < parts; part++) {
    const int64_t line = part / blocks, from = part % blocks * BLOCK;
    const int64_t to = from + BLOCK < columns ? from + BLOCK : columns;
    const int64_t place = places ? places[line % rows] : first + line % rows;
    const uint32_t key = find_key(seeds[line / rows], draw, place);
    visit(line * columns + from, to - from, key + uint32_t(from) * COLUMN);
  }
}
"""
)
