// Norms of channels in training, for images with channels last, and their gradients. A norm normalizes, adds other
// images and rectifies in one pass over memory, behind one more that sums up. Each thread sums up rows of channels, and
// then goes back over the same rows from the last one on, which are still in its cache.
#include <cmath>
#include "kernel.hpp"
#include "vectors.hpp"

struct NormArguments {
  const float *images, *weight, *bias;
  const float* other;  // images that are added, or null
  float *result, *mean, *inverse;
  const float *old_mean, *old_variance;
  float *new_mean, *new_variance;
  float* scratch;  // four numbers for each channel, and six more for each thread
  int64_t rows, channels;
  double momentum, epsilon;
  int32_t rectifies, threads;
};

struct NormGradientArguments {
  const float* gradient;
  const float* results;  // gradients count where these are positive; null: everywhere
  const float *images, *weight, *mean, *inverse;
  float* blocked;  // gets the gradients that count, or null
  float* result;   // of images; this, or `blocked`, may be the memory of the gradient
  float *weight_gradient, *bias_gradient;
  float* scratch;  // as above
  int64_t rows, channels;
  int32_t threads;
};

namespace {

constexpr int64_t SUMMED = 1 << 16;  // numbers that are added up in float32 before they go to a sum in float64
constexpr int64_t SAMPLES = 16;      // rows from whose mean numbers are counted, so that squares stay small
struct Rows {
  int64_t first, last, channels;
  Rows(int64_t rows, int64_t channels, int part, int parts)
      : first(rows * part / parts), last(rows * (part + 1) / parts), channels(channels) {}
  // Calls visit(place) for each row's first number, in blocks; behind each block, finish().
  template <typename Visit, typename Finish>
  void walk(Visit visit, Finish finish) const {
    const int64_t block = SUMMED / channels > 1 ? SUMMED / channels : 1;
    for (int64_t start = first; start < last; start += block) {
      for (int64_t row = start; row < smaller(start + block, last); row++) visit(row * channels);
      finish();
    }
  }
  // The same from the last block on.
  template <typename Visit>
  void walk_back(Visit visit) const {
    const int64_t block = SUMMED / channels > 1 ? SUMMED / channels : 1;
    for (int64_t end = last; end > first; end -= block)
      for (int64_t row = end - block > first ? end - block : first; row < end; row++) visit(row * channels);
  }
};
// Two sums for each channel: of a block in float32, and of all blocks of a thread in float64.
struct Sums {
  float *one, *two;
  double *all_one, *all_two;
  int64_t channels;
  Sums(float* memory, int64_t channels, int part) : channels(channels) {
    all_one = reinterpret_cast<double*>(memory) + part * 3 * channels, all_two = all_one + channels;
    one = reinterpret_cast<float*>(all_two + channels), two = one + channels;
  }
  void clear() {
    std::memset(all_one, 0, 2 * sizeof(double) * channels);
    std::memset(one, 0, 2 * sizeof(float) * channels);
  }
  void finish_block() {
    for (int64_t channel = 0; channel < channels; channel++) {
      all_one[channel] += one[channel];
      all_two[channel] += two[channel];
    }
    std::memset(one, 0, 2 * sizeof(float) * channels);
  }
  // Of one channel, over all threads, of which this one is the first.
  void add_up(int64_t channel, int parts, double* first, double* second) const {
    *first = *second = 0;
    for (int part = 0; part < parts; part++) {
      *first += all_one[part * 3 * channels + channel];
      *second += all_two[part * 3 * channels + channel];
    }
  }
};
inline FloatVector rectify(FloatVector some) {
  return some < 0.0f ? FloatVector{} : some;
}  // what is not a number stays so
inline FloatVector block_some(FloatVector gradient, FloatVector results) {
  return results <= 0.0f ? FloatVector{} : gradient;
}

}  // namespace

KERNEL(normalize_channels, NormArguments) {
  const NormArguments given = *arguments;
  const float *images = given.images, *weight = given.weight, *bias = given.bias, *other = given.other;
  float *result = given.result, *mean = given.mean, *inverse = given.inverse;
  const int64_t rows = given.rows, channels = given.channels;
  const bool rectifies = given.rectifies != 0;
  float *samples = given.scratch, *factors = samples + channels;
  float* memory = given.scratch + 4 * channels;
  const int64_t count = smaller(SAMPLES, rows);
  std::memset(samples, 0, sizeof(float) * channels);
  for (int64_t sample = 0; sample < count; sample++) {
    const float* row = images + sample * rows / count * channels;
    for (int64_t channel = 0; channel < channels; channel++) samples[channel] += row[channel] / count;
  }
#pragma omp parallel num_threads(given.threads)
  {
    const int part = omp_get_thread_num(), parts = omp_get_num_threads();
    const Rows own(rows, channels, part, parts);
    Sums sums(memory, channels, part);
    sums.clear();
    own.walk(
        [&](int64_t place) {
          for (int64_t channel = 0; channel < channels; channel += LANES) {
            const FloatVector some = load(images + place + channel) - load(samples + channel);
            store(sums.one + channel, load(sums.one + channel) + some);
            store(sums.two + channel, load(sums.two + channel) + some * some);
          }
        },
        [&] { sums.finish_block(); });
#pragma omp barrier
    const Sums first(memory, channels, 0);
    for (int64_t channel = channels * part / parts; channel < channels * (part + 1) / parts; channel++) {
      double one, two;
      first.add_up(channel, parts, &one, &two);
      one /= rows;
      const double variance = two / rows > one * one ? two / rows - one * one : two != two ? two : 0.0;
      const double found = samples[channel] + one, scale = 1.0 / std::sqrt(variance + given.epsilon);
      mean[channel] = float(found);
      inverse[channel] = float(scale);
      factors[channel] = float(scale * weight[channel]);
      const double unbiased = variance * rows / (rows - 1.0);
      given.new_mean[channel] = float(given.momentum * found + (1.0 - given.momentum) * given.old_mean[channel]);
      given.new_variance[channel] =
          float(given.momentum * unbiased + (1.0 - given.momentum) * given.old_variance[channel]);
    }
#pragma omp barrier
    own.walk_back([&](int64_t place) {
      for (int64_t channel = 0; channel < channels; channel += LANES) {
        const FloatVector apart = load(images + place + channel) - load(mean + channel);
        FloatVector some = apart * load(factors + channel) + load(bias + channel);
        if (other) some += load(other + place + channel);
        store(result + place + channel, rectifies ? rectify(some) : some);
      }
    });
  }
}

KERNEL(differentiate_norm, NormGradientArguments) {
  const NormGradientArguments given = *arguments;
  const float *gradient = given.gradient, *results = given.results, *images = given.images;
  const float *weight = given.weight, *mean = given.mean, *inverse = given.inverse;
  float *blocked = given.blocked, *result = given.result;
  const int64_t rows = given.rows, channels = given.channels;
  float *factors = given.scratch, *slopes = factors + channels, *offsets = slopes + channels;
  float* memory = given.scratch + 4 * channels;
#pragma omp parallel num_threads(given.threads)
  {
    const int part = omp_get_thread_num(), parts = omp_get_num_threads();
    const Rows own(rows, channels, part, parts);
    Sums sums(memory, channels, part);
    sums.clear();
    own.walk(
        [&](int64_t place) {
          for (int64_t channel = 0; channel < channels; channel += LANES) {
            FloatVector some = load(gradient + place + channel);
            if (results) some = block_some(some, load(results + place + channel));
            if (blocked) store(blocked + place + channel, some);
            store(sums.one + channel, load(sums.one + channel) + some);
            const FloatVector apart = load(images + place + channel) - load(mean + channel);
            store(sums.two + channel, load(sums.two + channel) + some * apart);
          }
        },
        [&] { sums.finish_block(); });
#pragma omp barrier
    const Sums first(memory, channels, 0);
    for (int64_t channel = channels * part / parts; channel < channels * (part + 1) / parts; channel++) {
      double one, two;
      first.add_up(channel, parts, &one, &two);
      const double scale = inverse[channel], factor = scale * weight[channel];
      given.bias_gradient[channel] = float(one);
      given.weight_gradient[channel] = float(two * scale);
      factors[channel] = float(factor);
      slopes[channel] = float(factor * scale * scale * two / rows);
      offsets[channel] = float(factor * one / rows);
    }
#pragma omp barrier
    const float* from = blocked ? blocked : gradient;
    const float* mask = blocked ? nullptr : results;
    own.walk_back([&](int64_t place) {
      for (int64_t channel = 0; channel < channels; channel += LANES) {
        FloatVector some = load(from + place + channel);
        if (mask) some = block_some(some, load(mask + place + channel));
        const FloatVector apart = load(images + place + channel) - load(mean + channel);
        store(result + place + channel,
              some * load(factors + channel) - load(offsets + channel) - apart * load(slopes + channel));
      }
    });
  }
}
