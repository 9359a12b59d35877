"""C++ for the steps of an LSTM layer: one function for any shape.

In: the products of all steps' inputs, and the weights of the state, packed in blocks of units with their four gates
beside one another. Out: the states of all steps and the last cell. A block's product stays in registers for some
samples at a time, and its gates are computed from there. Threads share the samples out, and never wait for one another.
Of few samples they share the units out: each reads the same part of the weights in every step, from its own cache, and
waits for the others' states at the end of a step.
"""

from __future__ import annotations

FUNCTION = "run_lstm"
WIDTH_FUNCTION = "count_lstm_lanes"  # units of a block

SOURCE = f"""
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <omp.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
namespace lstm {{
#if defined(__AVX512F__)
constexpr int LANES = 16, MOST_ROWS = 6;  // 24 of 32 registers hold sums
#elif defined(__AVX__)
constexpr int LANES = 8, MOST_ROWS = 2;
#else
constexpr int LANES = 4, MOST_ROWS = 2;
#endif
constexpr int64_t SAMPLES_APIECE = 8;  // of each thread; with fewer, sharing units out is as quick or quicker
constexpr int64_t PATIENCE = 4096;  // turns, tens of microseconds: longer than a step of few samples
#if defined(__x86_64__)
#define REST() __builtin_ia32_pause()
#else
#define REST()
#endif
typedef float fvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#if defined(__AVX512F__)
static inline fvec fill(float value) {{ return (fvec)_mm512_set1_ps(value); }}
#define HOLD_GATE(value) asm("" : "+v"(value))  // in a register: a compiler would rather read it again
#else
static inline fvec fill(float value) {{ return fvec{{}} + value; }}
#define HOLD_GATE(value)
#endif
static inline fvec load(const float* from) {{
  fvec value;
  std::memcpy(&value, from, sizeof(fvec));
  return value;
}}
static inline fvec load(const float* from, int64_t count) {{
  if (count >= LANES) return load(from);
  fvec value{{}};
  std::memcpy(&value, from, 4 * count);
  return value;
}}
static inline void store(float* to, fvec value, int64_t count) {{
  std::memcpy(to, &value, count >= LANES ? sizeof(fvec) : 4 * count);
}}
// exp(x) as scale * (1 + rest): a power of two, and what is left over, exact near 0.
static inline void split_exponential(fvec x, fvec* scale, fvec* rest) {{
  x = x > 87.0f ? fvec{{}} + 87.0f : x;
  x = x < -87.0f ? fvec{{}} - 87.0f : x;
  fvec whole = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the lowest bits are a whole number
  const ivec bits = (ivec)whole;
  whole -= 12582912.0f;
  const fvec r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  fvec sum = fvec{{}} + 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  *rest = sum * (r * r) + r;
  *scale = (fvec)((bits << 23) + 0x3f800000);
}}
static inline fvec squash(fvec x) {{  // the logistic function
  fvec scale, rest;
  split_exponential(-x, &scale, &rest);
  return 1.0f / (1.0f + (scale + scale * rest));
}}
static inline fvec bend(fvec x) {{  // the hyperbolic tangent
  fvec scale, rest;
  split_exponential(x + x, &scale, &rest);
  const fvec less = scale * rest + (scale - 1.0f);
  return less / (less + 2.0f);
}}
template <int ROWS>
static __attribute__((noinline)) void multiply(const float* __restrict weights, const float* __restrict state,
                                               int64_t width, float* __restrict to) {{
  fvec sums[ROWS][4];
#pragma GCC unroll 8
  for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 4
    for (int gate = 0; gate < 4; gate++) sums[row][gate] = fvec{{}};
#pragma GCC unroll 1
  for (int64_t unit = 0; unit < width; unit++, weights += 4 * LANES, state++) {{
    fvec gates[4];
#pragma GCC unroll 4
    for (int gate = 0; gate < 4; gate++) {{
      gates[gate] = load(weights + gate * LANES);
      HOLD_GATE(gates[gate]);
    }}
#pragma GCC unroll 8
    for (int row = 0; row < ROWS; row++) {{
      const fvec value = fill(state[row * width]);
#pragma GCC unroll 4
      for (int gate = 0; gate < 4; gate++) sums[row][gate] += gates[gate] * value;
    }}
  }}
#pragma GCC unroll 8
  for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 4
    for (int gate = 0; gate < 4; gate++) store(to + (4 * row + gate) * LANES, sums[row][gate], LANES);
}}
// Gates in the order input, forget, cell, output, and what becomes of cells and states.
static __attribute__((noinline)) void close(int rows, const float* sums, const float* given, const float* bias,
                                            float* cells, float* states, int64_t width, int64_t count) {{
  for (; rows > 0; rows--, sums += 4 * LANES, given += 4 * width, cells += width, states += width) {{
    fvec gates[4];
#pragma GCC unroll 4
    for (int gate = 0; gate < 4; gate++) {{
      gates[gate] = load(sums + gate * LANES) + load(given + gate * width, count);
      if (bias) gates[gate] += load(bias + gate * width, count);
    }}
    const fvec cell = squash(gates[1]) * load(cells, count) + squash(gates[0]) * bend(gates[2]);
    store(cells, cell, count);
    store(states, squash(gates[3]) * bend(cell), count);
  }}
}}
static void multiply_rows(int rows, const float* weights, const float* state, int64_t width, float* to) {{
  switch (rows) {{
    case 1: return multiply<1>(weights, state, width, to);
    case 2: return multiply<2>(weights, state, width, to);
#if defined(__AVX512F__)
    case 3: return multiply<3>(weights, state, width, to);
    case 4: return multiply<4>(weights, state, width, to);
    case 5: return multiply<5>(weights, state, width, to);
    case 6: return multiply<6>(weights, state, width, to);
#endif
  }}
}}
// Threads wait here for one another after each step. One that waits long lets others have its core: where there are
// fewer free cores than threads, the one that it waits for may need it.
struct Gate {{
  alignas(64) std::atomic<int64_t> arrived{{0}};
  void pass(int64_t until) {{
    arrived.fetch_add(1, std::memory_order_acq_rel);
    for (int64_t turn = 0; arrived.load(std::memory_order_acquire) < until; turn++)
      if (turn < PATIENCE)
        REST();
      else
        std::this_thread::yield();
  }}
}};
struct Layer {{
  const float *given, *weights, *bias, *first;
  float *cells, *states;
  int64_t steps, samples, width;
  bool reverse;
}};
struct Range {{
  int64_t from, until;
}};
static inline Range share(int64_t count, int64_t part, int64_t parts) {{
  return {{count * part / parts, count * (part + 1) / parts}};
}}
// One step of some samples and some blocks of units.
static void run_step(const Layer& layer, int64_t step, Range samples, Range blocks) {{
  alignas(64) float sums[MOST_ROWS * 4 * LANES];
  const int64_t width = layer.width, place = layer.reverse ? layer.steps - 1 - step : step;
  const int64_t before = layer.reverse ? place + 1 : place - 1;
  const float* state = step ? layer.states + before * layer.samples * width : layer.first;
  for (int64_t block = blocks.from; block < blocks.until; block++) {{
    const int64_t unit = block * LANES;
    int64_t row = samples.from;
    for (int64_t part = (samples.until - row + MOST_ROWS - 1) / MOST_ROWS; part > 0; part--) {{
      const int rows = int((samples.until - row + part - 1) / part);
      const int64_t sample = place * layer.samples + row;
      multiply_rows(rows, layer.weights + block * width * 4 * LANES, state + row * width, width, sums);
      close(rows, sums, layer.given + sample * 4 * width + unit, layer.bias ? layer.bias + unit : nullptr,
            layer.cells + row * width + unit, layer.states + sample * width + unit, width, width - unit);
      row += rows;
    }}
  }}
}}
}}  // namespace lstm
extern "C" int {WIDTH_FUNCTION}() {{ return lstm::LANES; }}
// `given`: steps, samples, gates, units. `weights`: blocks, units of the state, gates, units of the block. `cells`: the
// first ones, then the last ones.
extern "C" void {FUNCTION}(const float* given, const float* weights, const float* bias, const float* first,
                           float* cells, float* states, int64_t steps, int64_t samples, int64_t width,
                           int reverse, int threads) {{
  using namespace lstm;
  const Layer layer{{given, weights, bias, first, cells, states, steps, samples, width, reverse != 0}};
  const int64_t blocks = (width + LANES - 1) / LANES;
  Gate gate;
#pragma omp parallel num_threads(threads) if (steps * samples * width * width > (1 << 16))
  {{
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    if (samples >= parts * SAMPLES_APIECE) {{
      for (int64_t step = 0; step < steps; step++) run_step(layer, step, share(samples, part, parts), {{0, blocks}});
    }} else {{
      for (int64_t step = 0; step < steps; step++) {{
        run_step(layer, step, {{0, samples}}, share(blocks, part, parts));
        gate.pass((step + 1) * parts);
      }}
    }}
  }}
}}
"""
