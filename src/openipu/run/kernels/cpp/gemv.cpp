// A matrix-vector product: a vector by each row of a large weight, with a bias. It reads every weight once, for one
// multiplication: each thread reads its rows from the first number to the last, at the speed of memory.
#include "kernel.hpp"
#include "vectors.hpp"

struct GemvArguments {
  const float* vector;  // width
  const float* weight;  // count, width
  const float* bias;    // count, or null
  float* results;       // count
  int64_t count, width;
  int32_t threads;
};

namespace {

constexpr int PARTS = 4, AHEAD = 512;       // sums at a time; numbers that are fetched before they are used
constexpr int64_t PARALLEL_WORK = 1 << 16;  // multiplications: below, one thread is faster

inline float add_up(FloatVector value) {
#if SIMD_LANES == 16
  return _mm512_reduce_add_ps((__m512)value);
#else
  float total = 0;
  for (int lane = 0; lane < LANES; lane++) total += value[lane];
  return total;
#endif
}
inline float multiply(const float* __restrict given, const float* __restrict weight, int64_t width) {
  FloatVector sums[PARTS]{};
  int64_t place = 0;
  for (; place + PARTS * LANES <= width; place += PARTS * LANES) {
    UNROLL_ALL
    for (int part = 0; part < PARTS; part++) {
      const int64_t own = place + part * LANES;
      __builtin_prefetch(weight + own + AHEAD);
      sums[part] += load(weight + own) * load(given + own);
    }
  }
  float total = add_up((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; place < width; place++) total += weight[place] * given[place];
  return total;
}

}  // namespace

KERNEL(multiply_vector, GemvArguments) {
  const GemvArguments given = *arguments;
#pragma omp parallel for num_threads(given.threads) schedule(static) if (given.count * given.width > PARALLEL_WORK)
  for (int64_t row = 0; row < given.count; row++) {
    const float total = multiply(given.vector, given.weight + row * given.width, given.width);
    given.results[row] = given.bias ? total + given.bias[row] : total;
  }
}
