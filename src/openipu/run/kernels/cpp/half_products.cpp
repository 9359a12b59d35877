// Products whose sums are rounded to half on their way. Matrices lie in rows or in columns, in float32 or in half. A
// block of the result stays in registers from the first input to the last; behind every chunk of inputs its numbers are
// rounded there, once more when an addend has been added, and then stored in float32 or half.
#include "half_numbers.hpp"
#include "kernel.hpp"
#include "random_bits.hpp"
#include "register_block.hpp"

#if !defined(MOST_CHUNKS)
#error "MOST_CHUNKS: the largest number of chunks of inputs"
#endif

struct HalfProductArguments {
  const void* left;     // depth inputs of height rows
  const void* right;    // depth inputs of width columns
  const float* addend;  // of a row, or null
  void* result;
  const int32_t* seed;  // null: round to nearest
  float* scratch;       // for each thread, depth * (16 + strip_columns) numbers
  int64_t left_input_stride, left_row_stride, right_input_stride, right_column_stride;
  int64_t depth, height, width, chunk;
  int64_t first_sample, last_sample, addend_sample;
  int64_t strip_columns;  // whose inputs stay in the cache
  int32_t left_half, right_half, result_half, overflow, threads;
};

namespace {

constexpr int64_t PARALLEL_WORK = 1 << 17;  // multiplications: below, one thread is faster

// Rows become columns: each round sorts by one bit of a number's place.
inline void transpose(FloatVector* rows) {
  UNROLL_ALL
  for (int round = 1; round < LANES; round *= 2) {
    FloatVector sorted[LANES];
    UNROLL_ALL
    for (int row = 0; row < LANES / 2; row++) {
      sorted[2 * row] = interleave_first(rows[row], rows[row + LANES / 2]);
      sorted[2 * row + 1] = interleave_second(rows[row], rows[row + LANES / 2]);
    }
    UNROLL_ALL
    for (int row = 0; row < LANES; row++) rows[row] = sorted[row];
  }
}
// An operand: how far it is from one input to the next, and from one row or column of the result to the next.
struct Side {
  const void* data;
  int64_t deep, wide, count;
  bool half;
};
// SIZE rows or columns of an operand, input behind input, in float32. Beyond the last one, that one is repeated.
template <int SIZE, typename Number>
void gather_numbers(Side side, int64_t first, int64_t depth, float* to) {
  const Number* from = static_cast<const Number*>(side.data) + first * side.wide;
  const int64_t count = side.count - first;
  int64_t place = 0;
  if (side.wide == 1 && count >= SIZE) {
    for (; place < depth; place++)
      for (int lane = 0; lane < SIZE; lane += LANES)
        store(to + place * SIZE + lane, load_wide(from + place * side.deep + lane));
  } else if (side.deep == 1) {
    for (; place + LANES <= depth; place += LANES)
      for (int lane = 0; lane < SIZE; lane += LANES) {
        FloatVector rows[LANES];
        UNROLL_ALL
        for (int row = 0; row < LANES; row++)
          rows[row] = load_wide(from + smaller(lane + row, count - 1) * side.wide + place);
        transpose(rows);
        UNROLL_ALL
        for (int row = 0; row < LANES; row++) store(to + (place + row) * SIZE + lane, rows[row]);
      }
  }
  for (; place < depth; place++)
    for (int lane = 0; lane < SIZE; lane++)
      to[place * SIZE + lane] = read_wide(from + smaller(lane, count - 1) * side.wide + place * side.deep);
}
template <int SIZE>
void gather_strip(Side side, int64_t first, int64_t depth, float* to) {
  if (side.half)
    gather_numbers<SIZE, uint16_t>(side, first, depth, to);
  else
    gather_numbers<SIZE, float>(side, first, depth, to);
}
// How sums are rounded: behind so many inputs; by bits that start from a key for each rounding and row, or to nearest.
struct Roundings {
  int64_t chunk;
  const uint32_t* keys;
  UintVector columns;
};
inline UintVector sample_bits(const uint32_t* keys, UintVector columns, int row, int side) {
  return mix(columns + (keys[row] + uint32_t(side * LANES) * COLUMN_STEP));
}
// Whether all numbers are normal in half, and stay so whatever they are rounded to.
ALWAYS_INLINE bool stay_normal(const FloatVector sums[BLOCK_ROWS][2]) {
  constexpr uint32_t smallest = SMALLEST_NORMAL, largest = LARGEST_HALF;
  UintVector most = {};
  UNROLL_ALL
  for (int row = 0; row < BLOCK_ROWS; row++) UNROLL_ALL
  for (int side = 0; side < 2; side++) {
    const UintVector above = ((UintVector)sums[row][side] & 0x7fffffffu) - smallest;
    most = above > most ? above : most;
  }
  const IntVector strange = most >= largest - smallest;
  int64_t found = 0;
  for (int lane = 0; lane < LANES; lane++) found |= strange[lane];
  return found == 0;
}
template <int OVERFLOW_KIND, bool STOCHASTIC>
ALWAYS_INLINE void round_sums(FloatVector sums[BLOCK_ROWS][2], const uint32_t* keys, UintVector columns) {
  const bool normal = STOCHASTIC && stay_normal(sums);
  if (normal) {
    UNROLL_ALL
    for (int row = 0; row < BLOCK_ROWS; row++) UNROLL_ALL
    for (int side = 0; side < 2; side++)
      sums[row][side] =
          (FloatVector)(((UintVector)sums[row][side] + (sample_bits(keys, columns, row, side) >> 19)) & 0xffffe000u);
    return;
  }
  UNROLL_ALL
  for (int row = 0; row < BLOCK_ROWS; row++) UNROLL_ALL
  for (int side = 0; side < 2; side++) {
    const UintVector codes = (UintVector)sums[row][side];
    if constexpr (STOCHASTIC)
      sums[row][side] = (FloatVector)round_by_bits<OVERFLOW_KIND>(codes, sample_bits(keys, columns, row, side));
    else
      sums[row][side] = (FloatVector)round_to_nearest<OVERFLOW_KIND>(codes);
  }
}
template <int OVERFLOW_KIND, bool STOCHASTIC>
void sum_in_registers(const float* __restrict left, const float* __restrict right, int64_t depth, Roundings roundings,
                      const float* addend, float* __restrict result) {
  FloatVector sums[BLOCK_ROWS][2];
  UNROLL_ALL
  for (int row = 0; row < BLOCK_ROWS; row++) sums[row][0] = sums[row][1] = FloatVector{};
  const uint32_t* keys = roundings.keys;
  for (int64_t start = 0; start < depth; start += roundings.chunk, keys += BLOCK_ROWS) {
    const int64_t end = smaller(start + roundings.chunk, depth);
    UNROLL(4)
    for (int64_t place = start; place < end; place++, left += LANES, right += BLOCK_COLUMNS) {
      __builtin_prefetch(right + AHEAD * BLOCK_COLUMNS);
      __builtin_prefetch(right + AHEAD * BLOCK_COLUMNS + LANES);
      const FloatVector first = load(right), second = load(right + LANES);
      UNROLL_ALL
      for (int row = 0; row < BLOCK_ROWS; row++) {
        sums[row][0] += first * left[row];
        sums[row][1] += second * left[row];
      }
    }
    round_sums<OVERFLOW_KIND, STOCHASTIC>(sums, keys, roundings.columns);
  }
  if (addend) {
    const FloatVector first = load(addend), second = load(addend + LANES);
    UNROLL_ALL
    for (int row = 0; row < BLOCK_ROWS; row++) {
      sums[row][0] += first;
      sums[row][1] += second;
    }
    round_sums<OVERFLOW_KIND, STOCHASTIC>(sums, keys, roundings.columns);
  }
  UNROLL_ALL
  for (int row = 0; row < BLOCK_ROWS; row++) {
    store(result + row * BLOCK_COLUMNS, sums[row][0]);
    store(result + row * BLOCK_COLUMNS + LANES, sums[row][1]);
  }
}
// Numbers that half has.
inline void write_row(const float* from, void* to, int64_t place, int64_t count, bool half) {
  if (!half) {
    std::memcpy(static_cast<float*>(to) + place, from, sizeof(float) * count);
    return;
  }
  uint16_t row[BLOCK_COLUMNS];
  for (int lane = 0; lane < BLOCK_COLUMNS; lane += LANES) store(row + lane, (UintVector)load(from + lane));
  std::memcpy(static_cast<uint16_t*>(to) + place, row, sizeof(uint16_t) * count);
}
struct HalfProduct {
  Side left, right;
  const float* addend;  // of a row, or null
  void* result;
  int64_t depth, chunk;
  const int32_t* seed;  // or null, where it is rounded to nearest
  int64_t first_sample, last_sample, added_sample;
  bool half;
  decltype(&sum_in_registers<0, true>) sum;
  int64_t broad;  // columns whose inputs stay in the cache
  // The sample that rounds behind a chunk, or behind the addend.
  int64_t find_sample(int64_t part, int64_t parts) const {
    return part == parts ? added_sample : part == parts - 1 ? last_sample : first_sample + part;
  }
  void multiply(int64_t top, int64_t bottom, int64_t from, int64_t to, float* scratch) const {
    const int64_t chunks = (depth + chunk - 1) / chunk;
    float *strip = scratch, *block = scratch + depth * LANES;
    uint32_t keys[(MOST_CHUNKS + 1) * BLOCK_ROWS] = {};
    const UintVector counts = count_from(0);
    for (int64_t side = from; side < to; side += broad) {
      const int64_t end = smaller(side + broad, to);
      for (int64_t column = side; column < end; column += BLOCK_COLUMNS)
        gather_strip<BLOCK_COLUMNS>(right, column, depth, block + (column - side) * depth);
      for (int64_t row = top; row < bottom; row += BLOCK_ROWS) {
        const int64_t rows = smaller(BLOCK_ROWS, bottom - row);
        gather_strip<LANES>(left, row, depth, strip);
        for (int64_t part = 0; seed && part <= chunks; part++)
          for (int64_t place = 0; place < rows; place++)
            keys[part * BLOCK_ROWS + place] = find_key(*seed, find_sample(part, chunks), row + place);
        for (int64_t column = side; column < end; column += BLOCK_COLUMNS) {
          const int64_t columns = smaller(BLOCK_COLUMNS, right.count - column);
          float whole[BLOCK_ROWS * BLOCK_COLUMNS], added[BLOCK_COLUMNS] = {};
          if (addend) std::memcpy(added, addend + column, sizeof(float) * columns);
          sum(strip, block + (column - side) * depth, depth, {chunk, keys, counts + uint32_t(column) * COLUMN_STEP},
              addend ? added : nullptr, whole);
          for (int64_t place = 0; place < rows; place++)
            write_row(whole + place * BLOCK_COLUMNS, result, (row + place) * right.count + column, columns, half);
        }
      }
    }
  }
};

}  // namespace

KERNEL(multiply_in_half, HalfProductArguments) {
  const HalfProductArguments given = *arguments;
  constexpr decltype(&sum_in_registers<0, true>) KINDS[3][2] = {
      {sum_in_registers<TO_INFINITY, false>, sum_in_registers<TO_INFINITY, true>},
      {sum_in_registers<SATURATE, false>, sum_in_registers<SATURATE, true>},
      {sum_in_registers<TO_NAN, false>, sum_in_registers<TO_NAN, true>}};
  const HalfProduct product = {
      {given.left, given.left_input_stride, given.left_row_stride, given.height, given.left_half != 0},
      {given.right, given.right_input_stride, given.right_column_stride, given.width, given.right_half != 0},
      given.addend,
      given.result,
      given.depth,
      given.chunk,
      given.seed,
      given.first_sample,
      given.last_sample,
      given.addend_sample,
      given.result_half != 0,
      KINDS[given.overflow][given.seed != nullptr],
      given.strip_columns};
  const bool upright = given.height >= given.width;
  const bool parallel = given.depth * given.height * given.width > PARALLEL_WORK;
#pragma omp parallel for num_threads(given.threads) schedule(static, 1) if (parallel)
  for (int part = 0; part < given.threads; part++) {
    const Share own(upright ? given.height : given.width, upright ? BLOCK_ROWS : BLOCK_COLUMNS, part, given.threads);
    if (own.from >= own.to) continue;
    product.multiply(upright ? own.from : 0, upright ? own.to : given.height, upright ? 0 : own.from,
                     upright ? given.width : own.to, given.scratch + part * given.depth * (16 + given.strip_columns));
  }
}
