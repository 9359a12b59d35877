// The product that the gradient of a weight is: columns of one matrix by columns of another, `left.T @ right`. Both lie
// row behind row and are read as they lie: blocks of them are copied to where each step of the innermost loop finds its
// numbers side by side. That loop keeps a block of the result in registers.
#include <cstdlib>
#include "kernel.hpp"
#include "register_block.hpp"

struct ProductArguments {
  const float* left;   // depth rows of height numbers
  const float* right;  // depth rows of width numbers
  float* result;       // height rows of width numbers
  int64_t left_stride, right_stride, depth, height, width;
  float factor;  // of the product
  int32_t adds;  // to what the result holds
  int32_t threads;
};

namespace {

// A strip of BLOCK_ROWS by DEEP numbers stays in the first cache, BROAD by DEEP in the second, TALL by DEEP beyond.
constexpr int64_t DEEP = 512, BROAD = 256, TALL = 1536;

template <bool ADDS>
void multiply_in_registers(const float* __restrict left, const float* __restrict right, int64_t depth,
                           float* __restrict result, int64_t stride) {
  FloatVector sums[BLOCK_ROWS][2];
  UNROLL_ALL
  for (int row = 0; row < BLOCK_ROWS; row++) {
    sums[row][0] = sums[row][1] = FloatVector{};
    __builtin_prefetch(result + row * stride, 1);
    __builtin_prefetch(result + row * stride + BLOCK_COLUMNS - 1, 1);
  }
  UNROLL(4)
  for (int64_t place = 0; place < depth; place++, left += BLOCK_ROWS, right += BLOCK_COLUMNS) {
    __builtin_prefetch(right + AHEAD * BLOCK_COLUMNS);
    __builtin_prefetch(right + AHEAD * BLOCK_COLUMNS + LANES);
    __builtin_prefetch(left + AHEAD * BLOCK_ROWS);
    const FloatVector first = load(right), second = load(right + LANES);
    UNROLL_ALL
    for (int row = 0; row < BLOCK_ROWS; row++) {
      sums[row][0] += first * left[row];
      sums[row][1] += second * left[row];
    }
  }
  UNROLL_ALL
  for (int row = 0; row < BLOCK_ROWS; row++) {
    float* to = result + row * stride;
    store(to, ADDS ? load(to) + sums[row][0] : sums[row][0]);
    store(to + LANES, ADDS ? load(to + LANES) + sums[row][1] : sums[row][1]);
  }
}
// Strips of SIZE columns, each row of a strip behind the one before; the last one is filled up with zeros.
template <int SIZE>
void copy_strips(const float* from, int64_t stride, int64_t depth, int64_t columns, float factor, float* to) {
  for (int64_t start = 0; start < columns; start += SIZE) {
    const int64_t count = columns - start;
    const float* row = from + start;
    for (int64_t place = 0; place < depth; place++, row += stride, to += SIZE) {
      if (count >= SIZE)
        for (int column = 0; column < SIZE; column++) to[column] = row[column] * factor;
      else
        for (int column = 0; column < SIZE; column++) to[column] = column < count ? row[column] * factor : 0.0f;
    }
  }
}
struct Columns {
  const float* data;
  int64_t stride;
};
void multiply_block(const float* strips, const float* blocks, int64_t depth, float* result, int64_t stride,
                    int64_t height, int64_t width, bool adds) {
  for (int64_t row = 0; row < height; row += BLOCK_ROWS) {
    for (int64_t column = 0; column < width; column += BLOCK_COLUMNS) {
      const float *left = strips + row * depth, *right = blocks + column * depth;
      float* to = result + row * stride + column;
      const int64_t rows = smaller(BLOCK_ROWS, height - row), columns = smaller(BLOCK_COLUMNS, width - column);
      if (rows == BLOCK_ROWS && columns == BLOCK_COLUMNS) {
        if (adds)
          multiply_in_registers<true>(left, right, depth, to, stride);
        else
          multiply_in_registers<false>(left, right, depth, to, stride);
        continue;
      }
      float whole[BLOCK_ROWS * BLOCK_COLUMNS];
      multiply_in_registers<false>(left, right, depth, whole, BLOCK_COLUMNS);
      for (int64_t high = 0; high < rows; high++)
        for (int64_t wide = 0; wide < columns; wide++) {
          float& number = to[high * stride + wide];
          number = (adds ? number : 0.0f) + whole[high * BLOCK_COLUMNS + wide];
        }
    }
  }
}
// Kept by each thread for as long as it lives; pages appear as far as they are used.
struct Scratch {
  float* memory = nullptr;
  float* find() {
    if (!memory) memory = (float*)std::aligned_alloc(64, sizeof(float) * DEEP * (TALL + BROAD));
    return memory;
  }
  ~Scratch() { std::free(memory); }
};
// The same where there is no memory for blocks, number by number.
void multiply_plainly(Columns left, Columns right, int64_t depth, int64_t height, int64_t width, float* result,
                      int64_t stride, float factor, bool adds) {
  for (int64_t row = 0; row < height; row++) {
    float* to = result + row * stride;
    if (!adds) std::memset(to, 0, sizeof(float) * width);
    for (int64_t place = 0; place < depth; place++) {
      const float number = left.data[place * left.stride + row] * factor;
      const float* from = right.data + place * right.stride;
      for (int64_t column = 0; column < width; column++) to[column] += number * from[column];
    }
  }
}
void multiply_part(Columns left, Columns right, int64_t depth, int64_t height, int64_t width, float* result,
                   int64_t stride, float factor, bool adds) {
  static thread_local Scratch scratch;
  float* held = depth ? scratch.find() : nullptr;
  if (!held) return multiply_plainly(left, right, depth, height, width, result, stride, factor, adds);
  float *strips = held, *blocks = held + DEEP * TALL;
  const int64_t pieces = (depth + DEEP - 1) / DEEP, deep = (depth + pieces - 1) / pieces;
  for (int64_t place = 0; place < depth; place += deep) {
    const int64_t rows = smaller(deep, depth - place);
    for (int64_t top = 0; top < height; top += TALL) {
      const int64_t tall = smaller(TALL, height - top);
      copy_strips<BLOCK_ROWS>(left.data + place * left.stride + top, left.stride, rows, tall, factor, strips);
      for (int64_t side = 0; side < width; side += BROAD) {
        const int64_t broad = smaller(BROAD, width - side);
        copy_strips<BLOCK_COLUMNS>(right.data + place * right.stride + side, right.stride, rows, broad, 1.0f, blocks);
        multiply_block(strips, blocks, rows, result + top * stride + side, stride, tall, broad, adds || place > 0);
      }
    }
  }
}

}  // namespace

KERNEL(multiply_transposed, ProductArguments) {
  const ProductArguments given = *arguments;
  const bool upright = given.height >= given.width;
#pragma omp parallel for num_threads(given.threads) schedule(static, 1)
  for (int part = 0; part < given.threads; part++) {
    const Share own(upright ? given.height : given.width, upright ? BLOCK_ROWS : BLOCK_COLUMNS, part, given.threads);
    if (own.from >= own.to) continue;
    const int64_t row = upright ? own.from : 0, column = upright ? 0 : own.from, size = own.to - own.from;
    multiply_part({given.left + row, given.left_stride}, {given.right + column, given.right_stride}, given.depth,
                  upright ? size : given.height, upright ? given.width : size,
                  given.result + row * given.width + column, given.width, given.factor, given.adds != 0);
  }
}
