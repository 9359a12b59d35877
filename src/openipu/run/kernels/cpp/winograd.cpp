// Convolutions with 3 x 3 filters by Winograd's algorithm, F(4 x 4, 3 x 3), for images with channels last. A window of
// 6 x 6 pixels gives 4 x 4 results by 36 multiplications for each pair of channels, where the plain sum takes 144. The
// points that results are interpolated from are 0, +-sqrt(1/2), +-sqrt(2) and infinity: errors are about twice those of
// the plain sum, where whole numbers would make them several times that. Channels come in multiples of the vector.
#include "kernel.hpp"
#include "vectors.hpp"

struct FilterTransformArguments {
  const float* filter;
  float* transformed;  // points, strips of results, channels, results of a strip
  int64_t results, channels;
  int64_t result_step, channel_step;  // from one result, or channel, of the filter to the next
  int32_t rotated;                    // by 180 degrees, for the gradient of images
  int32_t threads;
};

struct WinogradArguments {
  const float *images, *transformed;
  const float *bias, *other;  // or null; `other`: images that are added
  float* result;
  float* scratch;  // for each thread, all points of a block of windows, of images and of results in whole strips
  int64_t count, height, width, channels, results, pad;
  int64_t block;  // windows that are convolved together
  int32_t relu, threads;
};

struct WinogradStripsArguments {
  const float *images, *filter;
  const float* bias;  // or null
  float* result;
  float* scratch;  // all points of all windows; and for each thread, of a strip of the filter and a strip of results
  int64_t count, height, width, channels, results, pad;
  int64_t result_step, channel_step;
  int32_t rotated, threads;
};

struct FilterGradientArguments {
  const float *images, *gradient;
  float* result;   // results, channels, the nine pixels of the filter
  float* scratch;  // all points of a block of windows, of images and of gradients, and of the filter
  int64_t count, height, width, channels, results, pad, block;
  int32_t threads;
};

namespace {

// Rows of a product that stay in registers: with AVX-512, 24 of 32 hold sums.
constexpr int MOST_ROWS = LANES == 16 ? 12 : LANES == 8 ? 6 : 4;
constexpr int STRIP = 2 * LANES;
constexpr int RESULT_SIDE = 4, INPUT_SIDE = 6,
              POINTS = INPUT_SIDE * INPUT_SIDE;  // of a window: results that it gives, and pixels that it reads
constexpr float NEAR = 0.70710678118654752f, FAR = 1.41421356237309505f;  // points: their squares are 1 / 2 and 2
// The values of a filter's polynomial at the points, divided by what interpolating multiplies by.
constexpr float FILTER_TRANSFORM[INPUT_SIDE][3] = {{1, 0, 0},
                                                   {-2.0f / 3, -NEAR * 2 / 3, -1.0f / 3},
                                                   {-2.0f / 3, NEAR * 2 / 3, -1.0f / 3},
                                                   {1.0f / 6, FAR / 6, 1.0f / 3},
                                                   {1.0f / 6, -FAR / 6, 1.0f / 3},
                                                   {0, 0, 1}};
// Each of these works on one dimension of a window, whose values lie `step` apart.
inline void transform_images(const FloatVector* from, int step, FloatVector* to, int stride) {
  const FloatVector second = from[step], third = from[2 * step], fourth = from[3 * step], fifth = from[4 * step];
  to[0] = from[0] - third * 2.5f + fifth;
  const FloatVector even = fifth - third * 2.0f, odd = (fourth - second * 2.0f) * NEAR;
  to[stride] = even + odd;
  to[2 * stride] = even - odd;
  const FloatVector other_even = fifth - third * 0.5f, other_odd = (fourth - second * 0.5f) * FAR;
  to[3 * stride] = other_even + other_odd;
  to[4 * stride] = other_even - other_odd;
  to[5 * stride] = second - fourth * 2.5f + from[5 * step];
}
inline void transform_results(const FloatVector* from, int step, FloatVector* to, int stride) {
  const FloatVector even = from[step] + from[2 * step], odd = (from[step] - from[2 * step]) * NEAR;
  const FloatVector other_even = from[3 * step] + from[4 * step], other_odd = (from[3 * step] - from[4 * step]) * FAR;
  to[0] = from[0] + even + other_even;
  to[stride] = odd + other_odd;
  to[2 * stride] = even * 0.5f + other_even * 2.0f;
  to[3 * stride] = odd * 0.5f + other_odd * 2.0f + from[5 * step];
}
inline void transform_gradient(const FloatVector* from, int step, FloatVector* to,
                               int stride) {  // `transform_results`, transposed
  const FloatVector first = from[0], second = from[step], third = from[2 * step], fourth = from[3 * step];
  to[0] = first;
  const FloatVector even = first + third * 0.5f, odd = (second + fourth * 0.5f) * NEAR;
  to[stride] = even + odd;
  to[2 * stride] = even - odd;
  const FloatVector other_even = first + third * 2.0f, other_odd = (second + fourth * 2.0f) * FAR;
  to[3 * stride] = other_even + other_odd;
  to[4 * stride] = other_even - other_odd;
  to[5 * stride] = fourth;
}
struct Shape {
  int64_t images, height, width, channels, results, pad;
  int64_t rows, columns, down, across;  // pixels of a result, and windows
  Shape(int64_t images, int64_t height, int64_t width, int64_t channels, int64_t results, int64_t pad)
      : images(images), height(height), width(width), channels(channels), results(results), pad(pad) {
    rows = height + 2 * pad - 2, columns = width + 2 * pad - 2;
    down = (rows + RESULT_SIDE - 1) / RESULT_SIDE, across = (columns + RESULT_SIDE - 1) / RESULT_SIDE;
  }
  int64_t count() const { return images * down * across; }
};
// Where a window begins, in pixels of the result.
struct Window {
  int64_t image, top, left;
  Window(const Shape& shape, int64_t number) {
    const int64_t point = number % (shape.down * shape.across);
    image = number / (shape.down * shape.across);
    top = point / shape.across * RESULT_SIDE, left = point % shape.across * RESULT_SIDE;
  }
};
// Some pixels of a picture, those outside of it as zeros.
template <int SIZE>
inline void read_pixels(const float* from, int64_t top, int64_t left, int64_t height, int64_t width, int64_t channels,
                        FloatVector* held) {
  const float* first = from + (top * width + left) * channels;
  if (top >= 0 && left >= 0 && top + SIZE <= height && left + SIZE <= width) {
    UNROLL_ALL
    for (int y = 0; y < SIZE; y++) UNROLL_ALL
    for (int x = 0; x < SIZE; x++) held[y * SIZE + x] = load(first + (y * width + x) * channels);
    return;
  }
  for (int y = 0; y < SIZE; y++)
    for (int x = 0; x < SIZE; x++) {
      const bool inside = top + y >= 0 && top + y < height && left + x >= 0 && left + x < width;
      held[y * SIZE + x] = inside ? load(first + (y * width + x) * channels) : FloatVector{};
    }
}
// The points of a window, `plane` apart, of all its channels.
void read_window(const Shape& shape, const float* images, int64_t number, int64_t plane, float* to) {
  const Window window(shape, number);
  const float* image = images + window.image * shape.height * shape.width * shape.channels;
  for (int64_t channel = 0; channel < shape.channels; channel += LANES) {
    FloatVector held[POINTS], columns_done[POINTS], row[INPUT_SIDE];
    read_pixels<INPUT_SIDE>(image + channel, window.top - shape.pad, window.left - shape.pad, shape.height, shape.width,
                            shape.channels, held);
    UNROLL_ALL
    for (int x = 0; x < INPUT_SIDE; x++) transform_images(held + x, INPUT_SIDE, columns_done + x, INPUT_SIDE);
    UNROLL_ALL
    for (int y = 0; y < INPUT_SIDE; y++) {
      transform_images(columns_done + y * INPUT_SIDE, 1, row, 1);
      UNROLL_ALL
      for (int x = 0; x < INPUT_SIDE; x++) store(to + (y * INPUT_SIDE + x) * plane + channel, row[x]);
    }
  }
}
void read_gradient(const Shape& shape, const float* gradient, int64_t number, int64_t plane, float* to) {
  const Window window(shape, number);
  const float* image = gradient + window.image * shape.rows * shape.columns * shape.results;
  for (int64_t channel = 0; channel < shape.results; channel += LANES) {
    FloatVector held[RESULT_SIDE * RESULT_SIDE], columns_done[INPUT_SIDE * RESULT_SIDE], row[INPUT_SIDE];
    read_pixels<RESULT_SIDE>(image + channel, window.top, window.left, shape.rows, shape.columns, shape.results, held);
    UNROLL_ALL
    for (int x = 0; x < RESULT_SIDE; x++) transform_gradient(held + x, RESULT_SIDE, columns_done + x, RESULT_SIDE);
    UNROLL_ALL
    for (int y = 0; y < INPUT_SIDE; y++) {
      transform_gradient(columns_done + y * RESULT_SIDE, 1, row, 1);
      UNROLL_ALL
      for (int x = 0; x < INPUT_SIDE; x++) store(to + (y * INPUT_SIDE + x) * plane + channel, row[x]);
    }
  }
}
// What becomes of the points of a window, of some channels of the result.
void write_window(const Shape& shape, const float* from, int64_t number, int64_t plane, int64_t first, int64_t until,
                  const float* bias, const float* other, bool relu, float* result) {
  const Window window(shape, number);
  for (int64_t channel = first; channel < until; channel += LANES) {
    FloatVector held[INPUT_SIDE * RESULT_SIDE], some[INPUT_SIDE], row[RESULT_SIDE];
    UNROLL_ALL
    for (int x = 0; x < INPUT_SIDE; x++) {
      UNROLL_ALL
      for (int y = 0; y < INPUT_SIDE; y++) some[y] = load(from + (y * INPUT_SIDE + x) * plane + channel - first);
      transform_results(some, 1, held + x, INPUT_SIDE);
    }
    const FloatVector offset = bias ? load(bias + channel) : FloatVector{};
    UNROLL_ALL
    for (int y = 0; y < RESULT_SIDE; y++) {
      transform_results(held + y * INPUT_SIDE, 1, row, 1);
      if (window.top + y >= shape.rows) break;
      const int64_t line = (window.image * shape.rows + window.top + y) * shape.columns + window.left;
      UNROLL_ALL
      for (int x = 0; x < RESULT_SIDE; x++) {
        if (window.left + x >= shape.columns) break;
        const int64_t point = (line + x) * shape.results + channel;
        FloatVector value = row[x] + offset;
        if (other) value += load(other + point);
        if (relu) value = value < 0.0f ? FloatVector{} : value;  // what is no number stays so
        store(result + point, value);
      }
    }
  }
}
// ROWS rows of numbers by VECTORS vectors of columns, which stay in registers. Neighbours of a row lie `near` apart,
// those of a column `far`.
template <int ROWS, int VECTORS>
void multiply(const float* __restrict left, int64_t near, int64_t far, const float* __restrict right,
              int64_t right_stride, int64_t depth, float* __restrict to, int64_t stride, bool adds) {
  FloatVector sums[ROWS][VECTORS], some[VECTORS];
  UNROLL_ALL
  for (int row = 0; row < ROWS; row++) UNROLL_ALL
  for (int part = 0; part < VECTORS; part++) sums[row][part] = FloatVector{};
  UNROLL(2)
  for (int64_t place = 0; place < depth; place++, left += near, right += right_stride) {
    UNROLL_ALL
    for (int part = 0; part < VECTORS; part++) {
      some[part] = load(right + part * LANES);
      __builtin_prefetch(right + 16 * right_stride + part * LANES);
    }
    UNROLL_ALL
    for (int row = 0; row < ROWS; row++) UNROLL_ALL
    for (int part = 0; part < VECTORS; part++) sums[row][part] += some[part] * left[row * far];
  }
  UNROLL_ALL
  for (int row = 0; row < ROWS; row++) UNROLL_ALL
  for (int part = 0; part < VECTORS; part++) {
    float* at = to + row * stride + part * LANES;
    store(at, adds ? load(at) + sums[row][part] : sums[row][part]);
  }
}
template <int VECTORS>
void multiply_rows(int64_t rows, const float* left, int64_t near, int64_t far, const float* right, int64_t right_stride,
                   int64_t depth, float* to, int64_t stride, bool adds) {
  while (rows > 0) {
    int done = 1;
    if (rows >= MOST_ROWS)
      multiply<MOST_ROWS, VECTORS>(left, near, far, right, right_stride, depth, to, stride, adds), done = MOST_ROWS;
    else if (MOST_ROWS > 8 && rows >= 8)
      multiply<8, VECTORS>(left, near, far, right, right_stride, depth, to, stride, adds), done = 8;
    else if (rows >= 4)
      multiply<4, VECTORS>(left, near, far, right, right_stride, depth, to, stride, adds), done = 4;
    else
      multiply<1, VECTORS>(left, near, far, right, right_stride, depth, to, stride, adds);
    rows -= done, left += done * far, to += done * stride;
  }
}
// How the numbers of a filter lie: steps between results and between channels, its nine pixels side by side; in the
// other direction for the gradient of images.
struct Filter {
  const float* data;
  int64_t results, channels, result_step, channel_step;
  bool rotated;
};
// All points of one channel, for a strip of results.
void transform_strip(const Filter& filter, int64_t first, int64_t channel, float* to, int64_t plane) {
  const float* from = filter.data + first * filter.result_step + channel * filter.channel_step;
  float pixels[9][STRIP];
  for (int lane = 0; lane < STRIP; lane++, from += filter.result_step)
    for (int pixel = 0; pixel < 9; pixel++)
      pixels[pixel][lane] = first + lane < filter.results ? from[filter.rotated ? 8 - pixel : pixel] : 0.0f;
  for (int half = 0; half < STRIP; half += LANES) {
    FloatVector rows[INPUT_SIDE][3];
    for (int y = 0; y < INPUT_SIDE; y++)
      for (int x = 0; x < 3; x++) {
        rows[y][x] = load(pixels[x] + half) * FILTER_TRANSFORM[y][0];
        rows[y][x] +=
            load(pixels[3 + x] + half) * FILTER_TRANSFORM[y][1] + load(pixels[6 + x] + half) * FILTER_TRANSFORM[y][2];
      }
    for (int y = 0; y < INPUT_SIDE; y++)
      for (int x = 0; x < INPUT_SIDE; x++)
        store(to + (y * INPUT_SIDE + x) * plane + half, rows[y][0] * FILTER_TRANSFORM[x][0] +
                                                            rows[y][1] * FILTER_TRANSFORM[x][1] +
                                                            rows[y][2] * FILTER_TRANSFORM[x][2]);
  }
}

}  // namespace

KERNEL(transform_filter, FilterTransformArguments) {
  const FilterTransformArguments given = *arguments;
  const int64_t results = given.results, channels = given.channels;
  const Filter filter{given.filter, results, channels, given.result_step, given.channel_step, given.rotated != 0};
  const int64_t strips = (results + STRIP - 1) / STRIP, plane = strips * channels * STRIP;
#pragma omp parallel for num_threads(given.threads) schedule(static)
  for (int64_t line = 0; line < strips * channels; line++)
    transform_strip(filter, line / channels * STRIP, line % channels, given.transformed + line * STRIP, plane);
}

KERNEL(convolve_winograd, WinogradArguments) {
  const WinogradArguments given = *arguments;
  const int64_t channels = given.channels, results = given.results, block = given.block;
  const Shape shape(given.count, given.height, given.width, given.channels, given.results, given.pad);
  const int64_t strips = (results + STRIP - 1) / STRIP, broad = strips * STRIP;
#pragma omp parallel for num_threads(given.threads) schedule(static, 1)
  for (int part = 0; part < given.threads; part++) {
    float *read = given.scratch + part * POINTS * block * (channels + broad), *made = read + POINTS * block * channels;
    const int64_t until = shape.count() * (part + 1) / given.threads;
    for (int64_t window = shape.count() * part / given.threads; window < until;) {
      const int64_t blocks = (until - window + block - 1) / block, some = (until - window + blocks - 1) / blocks;
      for (int64_t row = 0; row < some; row++)
        read_window(shape, given.images, window + row, block * channels, read + row * channels);
      for (int64_t point = 0; point < POINTS; point++)
        for (int64_t strip = 0; strip < strips; strip++)
          multiply_rows<2>(some, read + point * block * channels, 1, channels,
                           given.transformed + (point * strips + strip) * channels * STRIP, STRIP, channels,
                           made + point * block * broad + strip * STRIP, broad, false);
      for (int64_t row = 0; row < some; row++)
        write_window(shape, made + row * broad, window + row, block * broad, 0, results, given.bias, given.other,
                     given.relu != 0, given.result);
      window += some;
    }
  }
}

// The same for few windows and a large filter, strip by strip of the results: a transformed strip of the filter stays
// in the cache, and is written nowhere else.
KERNEL(convolve_winograd_strips, WinogradStripsArguments) {
  const WinogradStripsArguments given = *arguments;
  const int64_t channels = given.channels, results = given.results;
  const Shape shape(given.count, given.height, given.width, given.channels, given.results, given.pad);
  const Filter filter{given.filter, results, channels, given.result_step, given.channel_step, given.rotated != 0};
  const int64_t all = shape.count(), strips = (results + STRIP - 1) / STRIP, plane = channels * STRIP;
  float* own = given.scratch + POINTS * all * channels;
#pragma omp parallel num_threads(given.threads)
  {
#pragma omp for schedule(static)
    for (int64_t window = 0; window < all; window++)
      read_window(shape, given.images, window, all * channels, given.scratch + window * channels);
#pragma omp for schedule(static)
    for (int part = 0; part < given.threads; part++) {
      float *transformed = own + part * POINTS * (channels + all) * STRIP, *made = transformed + POINTS * plane;
      for (int64_t strip = strips * part / given.threads; strip < strips * (part + 1) / given.threads; strip++) {
        const int64_t first = strip * STRIP, until = first + STRIP < results ? first + STRIP : results;
        for (int64_t channel = 0; channel < channels; channel++)
          transform_strip(filter, first, channel, transformed + channel * STRIP, plane);
        for (int64_t point = 0; point < POINTS; point++)
          multiply_rows<2>(all, given.scratch + point * all * channels, 1, channels, transformed + point * plane, STRIP,
                           channels, made + point * all * STRIP, STRIP, false);
        for (int64_t window = 0; window < all; window++)
          write_window(shape, made + window * STRIP, window, all * STRIP, first, until, given.bias, nullptr, false,
                       given.result);
      }
    }
  }
}

KERNEL(sum_filter_gradient, FilterGradientArguments) {
  const FilterGradientArguments given = *arguments;
  const int64_t channels = given.channels, results = given.results, block = given.block;
  const Shape shape(given.count, given.height, given.width, given.channels, given.results, given.pad);
  float *read = given.scratch, *of_results = read + POINTS * block * channels,
        *sums = of_results + POINTS * block * results;
#pragma omp parallel num_threads(given.threads)
  {
    for (int64_t window = 0; window < shape.count(); window += block) {
      const int64_t some = shape.count() - window < block ? shape.count() - window : block;
#pragma omp for schedule(static)
      for (int64_t row = 0; row < some; row++) {
        read_window(shape, given.images, window + row, block * channels, read + row * channels);
        read_gradient(shape, given.gradient, window + row, block * results, of_results + row * results);
      }
#pragma omp for schedule(static)
      for (int64_t point = 0; point < POINTS; point++) {
        const float *left = of_results + point * block * results, *right = read + point * block * channels;
        float* to = sums + point * results * channels;
        int64_t column = 0;
        for (; column + STRIP <= channels; column += STRIP)
          multiply_rows<2>(results, left, results, 1, right + column, channels, some, to + column, channels,
                           window > 0);
        if (column < channels)
          multiply_rows<1>(results, left, results, 1, right + column, channels, some, to + column, channels,
                           window > 0);
      }
    }
#pragma omp for schedule(static)
    for (int64_t row = 0; row < results; row++)
      for (int64_t channel = 0; channel < channels; channel += LANES) {
        FloatVector rows[3][INPUT_SIDE], some[INPUT_SIDE];
        float pixels[9][LANES];
        for (int x = 0; x < INPUT_SIDE; x++) {
          for (int y = 0; y < INPUT_SIDE; y++)
            some[y] = load(sums + ((y * INPUT_SIDE + x) * results + row) * channels + channel);
          for (int high = 0; high < 3; high++) {
            rows[high][x] = some[0] * FILTER_TRANSFORM[0][high];
            for (int y = 1; y < INPUT_SIDE; y++) rows[high][x] += some[y] * FILTER_TRANSFORM[y][high];
          }
        }
        for (int high = 0; high < 3; high++)
          for (int wide = 0; wide < 3; wide++) {
            FloatVector sum = rows[high][0] * FILTER_TRANSFORM[0][wide];
            for (int x = 1; x < INPUT_SIDE; x++) sum += rows[high][x] * FILTER_TRANSFORM[x][wide];
            store(pixels[3 * high + wide], sum);
          }
        float* to = given.result + (row * channels + channel) * 9;
        for (int lane = 0; lane < LANES; lane++)
          for (int pixel = 0; pixel < 9; pixel++) to[lane * 9 + pixel] = pixels[pixel][lane];
      }
  }
}
