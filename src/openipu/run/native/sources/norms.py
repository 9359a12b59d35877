"""C++ for norms of channels in training: images with channels last, of any size, and their gradients.

In: vectors of the machine's width (`draws.py`), and how they are read (`products.py`). Out:
`normalize_images`, which normalizes, adds other images and rectifies in one way through memory, behind one more that
sums up; and `differentiate_norm`, the gradients of all that. Each thread sums up rows of channels, and then goes back
over the same rows from the last one on, which are still in its cache.
"""

from __future__ import annotations

FUNCTION, GRADIENT_FUNCTION = "normalize_images", "differentiate_norm"

SOURCE = f"""
#include <omp.h>
constexpr int64_t SUMMED = 1 << 16;  // numbers that are added up in float32 before they go to a sum in float64
constexpr int64_t SAMPLES = 16;      // rows from whose mean numbers are counted, so that squares stay small
struct Rows {{
  int64_t first, last, channels;
  Rows(int64_t rows, int64_t channels, int part, int parts)
      : first(rows * part / parts), last(rows * (part + 1) / parts), channels(channels) {{}}
  // Calls visit(place) for each row's first number, in blocks; behind each block, finish().
  template <typename Visit, typename Finish>
  void walk(Visit visit, Finish finish) const {{
    const int64_t block = SUMMED / channels > 1 ? SUMMED / channels : 1;
    for (int64_t start = first; start < last; start += block) {{
      for (int64_t row = start; row < least(start + block, last); row++) visit(row * channels);
      finish();
    }}
  }}
  // The same from the last block on.
  template <typename Visit>
  void walk_back(Visit visit) const {{
    const int64_t block = SUMMED / channels > 1 ? SUMMED / channels : 1;
    for (int64_t end = last; end > first; end -= block)
      for (int64_t row = end - block > first ? end - block : first; row < end; row++) visit(row * channels);
  }}
}};
// Two sums for each channel: of a block in float32, and of all blocks of a thread in float64.
struct Sums {{
  float *one, *two;
  double *all_one, *all_two;
  int64_t channels;
  Sums(float* memory, int64_t channels, int part) : channels(channels) {{
    all_one = reinterpret_cast<double*>(memory) + part * 3 * channels, all_two = all_one + channels;
    one = reinterpret_cast<float*>(all_two + channels), two = one + channels;
  }}
  void clear() {{
    std::memset(all_one, 0, 2 * sizeof(double) * channels);
    std::memset(one, 0, 2 * sizeof(float) * channels);
  }}
  void finish_block() {{
    for (int64_t channel = 0; channel < channels; channel++) {{
      all_one[channel] += one[channel];
      all_two[channel] += two[channel];
    }}
    std::memset(one, 0, 2 * sizeof(float) * channels);
  }}
  // Of one channel, over all threads, of which this one is the first.
  void add_up(int64_t channel, int parts, double* first, double* second) const {{
    *first = *second = 0;
    for (int part = 0; part < parts; part++) {{
      *first += all_one[part * 3 * channels + channel];
      *second += all_two[part * 3 * channels + channel];
    }}
  }}
}};
static inline fvec rectify(fvec some) {{ return some < 0.0f ? fvec{{}} : some; }}  // what is not a number stays so
static inline fvec block_some(fvec gradient, fvec results) {{ return results <= 0.0f ? fvec{{}} : gradient; }}
// Scratch: four numbers for each channel, and six more for each thread.
extern "C" void {FUNCTION}(const float* images, const float* weight, const float* bias, const float* other,
                           float* result, float* mean, float* inverse, const float* old_mean,
                           const float* old_variance, float* new_mean, float* new_variance, int64_t rows,
                           int64_t channels, double momentum, double epsilon, int rectifies, float* scratch,
                           int threads) {{
  float *samples = scratch, *factors = samples + channels;
  float* memory = scratch + 4 * channels;
  const int64_t count = least(SAMPLES, rows);
  std::memset(samples, 0, sizeof(float) * channels);
  for (int64_t sample = 0; sample < count; sample++) {{
    const float* row = images + sample * rows / count * channels;
    for (int64_t channel = 0; channel < channels; channel++) samples[channel] += row[channel] / count;
  }}
#pragma omp parallel num_threads(threads)
  {{
    const int part = omp_get_thread_num(), parts = omp_get_num_threads();
    const Rows own(rows, channels, part, parts);
    Sums sums(memory, channels, part);
    sums.clear();
    own.walk(
        [&](int64_t place) {{
          for (int64_t channel = 0; channel < channels; channel += LANES) {{
            const fvec some = take(images + place + channel) - take(samples + channel);
            put(sums.one + channel, take(sums.one + channel) + some);
            put(sums.two + channel, take(sums.two + channel) + some * some);
          }}
        }},
        [&] {{ sums.finish_block(); }});
#pragma omp barrier
    const Sums first(memory, channels, 0);
    for (int64_t channel = channels * part / parts; channel < channels * (part + 1) / parts; channel++) {{
      double one, two;
      first.add_up(channel, parts, &one, &two);
      one /= rows;
      const double variance = two / rows > one * one ? two / rows - one * one : two != two ? two : 0.0;
      const double found = samples[channel] + one, scale = 1.0 / __builtin_sqrt(variance + epsilon);
      mean[channel] = float(found);
      inverse[channel] = float(scale);
      factors[channel] = float(scale * weight[channel]);
      const double unbiased = variance * rows / (rows - 1.0);
      new_mean[channel] = float(momentum * found + (1.0 - momentum) * old_mean[channel]);
      new_variance[channel] = float(momentum * unbiased + (1.0 - momentum) * old_variance[channel]);
    }}
#pragma omp barrier
    own.walk_back([&](int64_t place) {{
      for (int64_t channel = 0; channel < channels; channel += LANES) {{
        const fvec apart = take(images + place + channel) - take(mean + channel);
        fvec some = apart * take(factors + channel) + take(bias + channel);
        if (other) some += take(other + place + channel);
        put(result + place + channel, rectifies ? rectify(some) : some);
      }}
    }});
  }}
}}
// Gradients of images, weight and bias. Where `results` are given, gradients count where they are positive; `blocked`
// gets those that count. The result, or what is blocked, may be the memory of the gradient.
extern "C" void {GRADIENT_FUNCTION}(const float* gradient, const float* results, const float* images,
                                    const float* weight, const float* mean, const float* inverse, float* blocked,
                                    float* result, float* weight_gradient, float* bias_gradient, int64_t rows,
                                    int64_t channels, float* scratch, int threads) {{
  float *factors = scratch, *slopes = factors + channels, *offsets = slopes + channels;
  float* memory = scratch + 4 * channels;
#pragma omp parallel num_threads(threads)
  {{
    const int part = omp_get_thread_num(), parts = omp_get_num_threads();
    const Rows own(rows, channels, part, parts);
    Sums sums(memory, channels, part);
    sums.clear();
    own.walk(
        [&](int64_t place) {{
          for (int64_t channel = 0; channel < channels; channel += LANES) {{
            fvec some = take(gradient + place + channel);
            if (results) some = block_some(some, take(results + place + channel));
            if (blocked) put(blocked + place + channel, some);
            put(sums.one + channel, take(sums.one + channel) + some);
            const fvec apart = take(images + place + channel) - take(mean + channel);
            put(sums.two + channel, take(sums.two + channel) + some * apart);
          }}
        }},
        [&] {{ sums.finish_block(); }});
#pragma omp barrier
    const Sums first(memory, channels, 0);
    for (int64_t channel = channels * part / parts; channel < channels * (part + 1) / parts; channel++) {{
      double one, two;
      first.add_up(channel, parts, &one, &two);
      const double scale = inverse[channel], factor = scale * weight[channel];
      bias_gradient[channel] = float(one);
      weight_gradient[channel] = float(two * scale);
      factors[channel] = float(factor);
      slopes[channel] = float(factor * scale * scale * two / rows);
      offsets[channel] = float(factor * one / rows);
    }}
#pragma omp barrier
    const float* from = blocked ? blocked : gradient;
    const float* mask = blocked ? nullptr : results;
    own.walk_back([&](int64_t place) {{
      for (int64_t channel = 0; channel < channels; channel += LANES) {{
        fvec some = take(from + place + channel);
        if (mask) some = block_some(some, take(mask + place + channel));
        const fvec apart = take(images + place + channel) - take(mean + channel);
        put(result + place + channel,
            some * take(factors + channel) - take(offsets + channel) - apart * take(slopes + channel));
      }}
    }});
  }}
}}
"""
