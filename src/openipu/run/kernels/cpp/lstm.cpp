// An LSTM layer of inference. The inputs of some steps are multiplied at a time; then each of these steps adds the
// product of its state, and computes gates, cells and states from the sums. A block's product stays in registers for
// some samples at a time. Threads share the samples out, and never wait for one another. Of few samples they share the
// units out: each reads the same part of the weights in every step, from its own cache, and waits for the others'
// states.
#include <algorithm>
#include <atomic>
#include <thread>
#include "kernel.hpp"
#include "vectors.hpp"

struct LstmFormat {    // of packed weights; written by `describe_lstm`
  int64_t lanes;       // units of a block
  float exponents[4];  // weights and bias of each gate are multiplied by these
};

struct LstmArguments {
  const float* source;         // steps, samples, features, in any order of the first two
  const float* input_weights;  // blocks, features, gates, units of the block, multiplied by the exponents
  const float* state_weights;  // blocks, units of the state, gates, units of the block
  const float* bias;           // or null
  const float *first_state, *first_cells;
  float* given;   // memory for `held` steps, blocks, samples, gates, units of the block
  float* cells;   // the last ones
  float* states;  // of all steps
  int64_t step_stride, sample_stride;
  int64_t steps, held, samples, features, width;
  int32_t finite;  // the weights of the state are numbers, none of them infinite
  int32_t reverse, threads;
};

namespace {

constexpr double LOG2_E = 1.4426950408889634;
// Gates are made of powers of two, which are faster than those of e.
constexpr float EXPONENTS[4] = {float(-LOG2_E), float(-LOG2_E), float(2 * LOG2_E), float(-LOG2_E)};
constexpr int MOST_ROWS = LANES == 16 ? 6 : LANES == 8 ? 3 : 2;  // with AVX-512, 24 of 32 registers hold sums
constexpr int64_t PARALLEL_WORK = 1 << 16;                       // multiplications: below, one thread is faster
constexpr int64_t BLOCK = 4 * LANES, LINE = 16;                  // numbers of a block's row, and of a line of the cache
constexpr float LARGEST = 60;                                    // power of two: the product of two is still a number
constexpr int64_t SAMPLES_APIECE = 8;  // of each thread; with fewer, sharing units out is as fast or faster
constexpr int64_t PATIENCE = 4096;     // rounds, tens of microseconds: longer than a step of few samples
#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE()
#endif

inline FloatVector fill(float value) { return value - FloatVector{}; }  // nothing is computed, unlike with a sum
inline FloatVector load_part(const float* from, int64_t count) {
  if (count >= LANES) return load(from);
  FloatVector value{};
  std::memcpy(&value, from, 4 * count);
  return value;
}
inline void store_part(float* to, FloatVector value, int64_t count) {
  if (count >= LANES)
    store(to, value);
  else
    std::memcpy(to, &value, 4 * count);
}
inline FloatVector limit(FloatVector x) {  // and what is no number stays so
#if SIMD_LANES == 16
  return (FloatVector)_mm512_max_ps(_mm512_set1_ps(-LARGEST), _mm512_min_ps(_mm512_set1_ps(LARGEST), (__m512)x));
#else
  x = x > LARGEST ? FloatVector{} + LARGEST : x;
  return x < -LARGEST ? FloatVector{} - LARGEST : x;
#endif
}
// 2^x - 1 is scale * rest + (scale - 1): a power of two, and what is left over, exact near 0.
inline void split_power(FloatVector x, FloatVector* scale, FloatVector* rest) {
  x = limit(x);
  FloatVector whole = x + 12582912.0f;  // 1.5 * 2^23: the lowest bits are a whole number
  const IntVector bits = (IntVector)whole;
  whole -= 12582912.0f;
  const FloatVector r = x - whole;
  FloatVector sum = FloatVector{} + 1.54035108e-4f;  // the least relative error of a polynomial of this degree, 1.1e-8
  sum = sum * r + 1.33907353e-3f;
  sum = sum * r + 9.61823761e-3f;
  sum = sum * r + 5.55035733e-2f;
  sum = sum * r + 2.40226492e-1f;
  sum = sum * r + 6.93147182e-1f;
  *rest = sum * r;
  *scale = (FloatVector)((bits << 23) + 0x3f800000);
}
inline FloatVector raise(FloatVector x) {
  FloatVector scale, rest;
  split_power(x, &scale, &rest);
  return scale + scale * rest;
}
inline FloatVector raise_less_one(FloatVector x) {
  FloatVector scale, rest;
  split_power(x, &scale, &rest);
  return scale * rest + (scale - 1.0f);
}
struct Rows {
  const float* data;
  int64_t stride;
};
// Rows of `from` by a block of weights, added to rows of `start`.
template <int ROWS>
__attribute__((noinline)) void multiply(const float* weights, int64_t depth, Rows from, Rows start, float* to,
                                        int64_t stride) {
  FloatVector sums[ROWS][4];
  UNROLL_ALL
  for (int row = 0; row < ROWS; row++) UNROLL_ALL
  for (int gate = 0; gate < 4; gate++) sums[row][gate] = load(start.data + row * start.stride + gate * LANES);
  const float* values = from.data;
  NO_UNROLL
  for (int64_t place = 0; place < depth; place++, weights += BLOCK, values++) {
    FloatVector numbers[ROWS];
    UNROLL_ALL
    for (int row = 0; row < ROWS; row++) {
      numbers[row] = fill(values[row * from.stride]);
      HOLD_IN_REGISTER(numbers[row]);
    }
    UNROLL_ALL
    for (int gate = 0; gate < 4; gate++) {
      FloatVector weight = load(weights + gate * LANES);
      HOLD_IN_REGISTER(weight);
      UNROLL_ALL
      for (int row = 0; row < ROWS; row++) sums[row][gate] += weight * numbers[row];
    }
  }
  UNROLL_ALL
  for (int row = 0; row < ROWS; row++) UNROLL_ALL
  for (int gate = 0; gate < 4; gate++) store(to + row * stride + gate * LANES, sums[row][gate]);
}
void multiply_rows(int64_t rows, const float* weights, int64_t depth, Rows from, Rows start, float* to,
                   int64_t stride) {
  switch (rows) {
    case 1:
      return multiply<1>(weights, depth, from, start, to, stride);
    case 2:
      return multiply<2>(weights, depth, from, start, to, stride);
    case 3:
      return multiply<3>(weights, depth, from, start, to, stride);
#if SIMD_LANES == 16
    case 4:
      return multiply<4>(weights, depth, from, start, to, stride);
    case 5:
      return multiply<5>(weights, depth, from, start, to, stride);
    case 6:
      return multiply<6>(weights, depth, from, start, to, stride);
#endif
  }
}
// What becomes of cells and states. Gates in the order input, forget, cell, output, all as powers of two: a logistic
// function is 1 / (1 + 2^x), a hyperbolic tangent (2^x - 1) / (2^x + 1). Two that are multiplied share a division.
template <bool WHOLE>  // otherwise a block has fewer units
__attribute__((noinline)) void close(int64_t rows, const float* sums, const float* before, float* cells, float* states,
                                     int64_t width, int64_t units) {
  const int64_t count = WHOLE ? LANES : units;
  for (; rows > 0; rows--, sums += BLOCK, before += width, cells += width, states += width) {
    const FloatVector input = 1.0f + raise(load(sums)), forget = 1.0f + raise(load(sums + LANES));
    const FloatVector fresh = raise_less_one(load(sums + 2 * LANES)), output = 1.0f + raise(load(sums + 3 * LANES));
    const FloatVector cell = load_part(before, count) / forget + fresh / (input * (fresh + 2.0f));
    store_part(cells, cell, count);
    const FloatVector raised = raise_less_one(cell * EXPONENTS[2]);
    store_part(states, raised / (output * (raised + 2.0f)), count);
  }
}
// Threads wait here for one another after each step. One that waits long lets others have its core: where there are
// fewer free cores than threads, the one that it waits for may need it.
struct Gate {
  alignas(64) std::atomic<int64_t> arrived{0};
  void pass(int64_t until) {
    arrived.fetch_add(1, std::memory_order_acq_rel);
    for (int64_t wait = 0; arrived.load(std::memory_order_acquire) < until; wait++)
      if (wait < PATIENCE)
        PAUSE();
      else
        std::this_thread::yield();
  }
};
// Where a layer goes backwards, `source` and `states` begin with their last steps, and both strides are negative.
struct Layer {
  const float *source, *input_weights, *state_weights, *bias, *first_state, *first_cells;
  float *given, *cells, *states;
  int64_t step_stride, sample_stride, state_stride;
  int64_t steps, held, samples, features, width;  // held: steps of `given`
  bool starts_empty;                              // the first state adds nothing
  int64_t count_blocks() const { return (width + LANES - 1) / LANES; }
  float* find_given(int64_t step, int64_t block, int64_t sample) const {
    return given + ((step % held * count_blocks() + block) * samples + sample) * BLOCK;
  }
};
struct Range {
  int64_t from, until;
};
inline Range share(int64_t count, int64_t part, int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}
// Calls `act` with the first row and the number of rows of each of some equal parts.
template <class Act>
inline void for_parts(Range rows, const Act& act) {
  const int64_t count = rows.until - rows.from, parts = (count + MOST_ROWS - 1) / MOST_ROWS;
  for (int64_t part = 0; part < parts; part++) {
    const Range some = share(count, part, parts);
    act(rows.from + some.from, some.until - some.from);
  }
}
// The products of the inputs of some steps, with the bias.
void multiply_inputs(const Layer& layer, Range steps, Range samples, Range blocks) {
  alignas(64) float bias[BLOCK] = {};
  const int64_t features = layer.features, width = layer.width;
  const bool by_steps = samples.until - samples.from < MOST_ROWS;
  const int64_t stride = by_steps ? layer.count_blocks() * layer.samples * BLOCK : BLOCK;
  for (int64_t block = blocks.from; block < blocks.until; block++) {
    const int64_t unit = block * LANES;
    const float* weights = layer.input_weights + block * features * BLOCK;
    for (int gate = 0; layer.bias && gate < 4; gate++)
      store(bias + gate * LANES, load_part(layer.bias + gate * width + unit, width - unit) * EXPONENTS[gate]);
    const auto run = [&](int64_t step, int64_t sample, int64_t rows) {
      const float* from = layer.source + step * layer.step_stride + sample * layer.sample_stride;
      multiply_rows(rows, weights, features, {from, by_steps ? layer.step_stride : layer.sample_stride}, {bias, 0},
                    layer.find_given(step, block, sample), stride);
    };
    if (by_steps)
      for (int64_t sample = samples.from; sample < samples.until; sample++)
        for_parts(steps, [&](int64_t step, int64_t rows) { run(step, sample, rows); });
    else
      for (int64_t step = steps.from; step < steps.until; step++)
        for_parts(samples, [&](int64_t sample, int64_t rows) { run(step, sample, rows); });
  }
}
// One step of some samples and some blocks of units.
void run_step(const Layer& layer, int64_t step, Range samples, Range blocks) {
  alignas(64) float sums[MOST_ROWS * BLOCK];
  const int64_t width = layer.width;
  float* states = layer.states + step * layer.state_stride;
  const float* before = step ? states - layer.state_stride : layer.first_state;
  const float* old_cells = step ? layer.cells : layer.first_cells;
  const int64_t depth = step || !layer.starts_empty ? width : 0;
  for (int64_t block = blocks.from; block < blocks.until; block++) {
    const int64_t unit = block * LANES;
    const float* weights = layer.state_weights + block * width * BLOCK;
    const auto close_rows = width - unit >= LANES ? close<true> : close<false>;
    for_parts(samples, [&](int64_t sample, int64_t rows) {
      const float *given = layer.find_given(step, block, sample), *next = given + layer.samples * BLOCK;
      for (int64_t line = 0; line < rows * BLOCK; line += LINE) __builtin_prefetch(next + line);
      multiply_rows(rows, weights, depth, {before + sample * width, width}, {given, BLOCK}, sums, BLOCK);
      const int64_t own = sample * width + unit;
      close_rows(rows, sums, old_cells + own, layer.cells + own, states + own, width, width - unit);
    });
  }
}

}  // namespace

extern "C" int64_t describe_lstm_argument_bytes() { return sizeof(LstmFormat); }
extern "C" void describe_lstm(LstmFormat* format) {
  format->lanes = LANES;
  std::copy(EXPONENTS, EXPONENTS + 4, format->exponents);
}

KERNEL(run_lstm, LstmArguments) {
  const LstmArguments given = *arguments;
  const int64_t steps = given.steps, held = given.held, samples = given.samples;
  const int64_t direction = given.reverse ? -1 : 1, last = given.reverse ? steps - 1 : 0;
  const int64_t state_stride = samples * given.width;
  const bool is_zero =
      std::all_of(given.first_state, given.first_state + state_stride, [](float value) { return value == 0; });
  const Layer layer{given.source + last * given.step_stride,
                    given.input_weights,
                    given.state_weights,
                    given.bias,
                    given.first_state,
                    given.first_cells,
                    given.given,
                    given.cells,
                    given.states + last * state_stride,
                    direction * given.step_stride,
                    given.sample_stride,
                    direction * state_stride,
                    steps,
                    held,
                    samples,
                    given.features,
                    given.width,
                    given.finite && is_zero};
  Gate gate;
#pragma omp parallel num_threads(given.threads) if (steps * samples * given.width * given.width > PARALLEL_WORK)
  {
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    const bool shares_samples = samples >= parts * SAMPLES_APIECE;
    const Range own = shares_samples ? share(samples, part, parts) : Range{0, samples};
    const Range blocks = shares_samples ? Range{0, layer.count_blocks()} : share(layer.count_blocks(), part, parts);
    for (int64_t step = 0; step < steps; step++) {
      if (step % held == 0) multiply_inputs(layer, {step, std::min(step + held, steps)}, own, blocks);
      run_step(layer, step, own, blocks);
      if (!shares_samples) gate.pass((step + 1) * parts);
    }
  }
}
