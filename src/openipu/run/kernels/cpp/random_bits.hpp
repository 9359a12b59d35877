// Random bits of an element from a seed, the number of the sample, and the element's row and column, the same as those
// of `run/drafts/random_numbers.py`; and loops over rows on several threads.
#pragma once
#include "vectors.hpp"

namespace {

constexpr uint32_t SAMPLE_STEP = 0x2c1b3c6du, ROW_STEP = 0x297a2d39u, COLUMN_STEP = 0x9e3779b1u;
constexpr int64_t COLUMNS_APIECE = 4096;        // of a row, that one thread takes at a time
constexpr int64_t PARALLEL_ELEMENTS = 1 << 14;  // below, one thread is faster

template <typename T>
inline T mix(T value) {
  value = (value ^ (value >> 16)) * 0x7feb352du;
  value = (value ^ (value >> 15)) * 0x846ca68bu;
  return value;
}
inline uint32_t finish(uint32_t value) { return value ^ (value >> 16); }
// The numbers from which the bits of some columns are mixed, where the first one has this key.
inline UintVector count_from(uint32_t key) {
  UintVector steps;
  for (int lane = 0; lane < LANES; lane++) steps[lane] = key + uint32_t(lane) * COLUMN_STEP;
  return steps;
}
// The key of a row's first column.
inline uint32_t find_key(int32_t seed, int64_t sample, int64_t row) {
  return finish(mix(finish(mix(uint32_t(seed) + uint32_t(sample) * SAMPLE_STEP)) + uint32_t(row) * ROW_STEP));
}
// Rows of a sample, for each of some seeds: those that follow `first`, or those at `places`.
struct SampledRows {
  const int32_t* seeds;
  int64_t seed_count, sample, first;
  const int64_t* places;
  int64_t rows, columns;
};
// Calls visit(start, size, key) for every piece of every row, on several threads.
template <typename Visit>
inline void walk_rows(const SampledRows& sampled, int threads, Visit visit) {
  const int64_t columns = sampled.columns, blocks = (columns + COLUMNS_APIECE - 1) / COLUMNS_APIECE;
  const int64_t lines = sampled.seed_count * sampled.rows, parts = lines * blocks;
#pragma omp parallel for num_threads(threads) schedule(static) if (lines * columns > PARALLEL_ELEMENTS)
  for (int64_t part = 0; part < parts; part++) {
    const int64_t line = part / blocks, from = part % blocks * COLUMNS_APIECE, row = line % sampled.rows;
    const int64_t to = smaller(from + COLUMNS_APIECE, columns);
    const uint32_t key = find_key(sampled.seeds[line / sampled.rows], sampled.sample,
                                  sampled.places ? sampled.places[row] : sampled.first + row);
    visit(line * columns + from, to - from, key + uint32_t(from) * COLUMN_STEP);
  }
}

}  // namespace
