"""C++ for convolutions with 3 x 3 filters, tile by tile: Winograd's algorithm, for any number of pixels and channels.

In: images, channel beside channel. Out: `spread_filter`, which brings a filter into the form of 6 x 6 places;
`convolve_tiles`, which does the same with tiles of images, multiplies them place by place, and brings 4 x 4 pixels of
the result back, with bias, addition and relu on the way; `sum_filter`, for the gradient of the filter. A tile takes 36
multiplications for each pair of channels where the plain sum takes 144. The points that results are interpolated from
are 0, +-sqrt(1/2), +-sqrt(2) and infinity: errors are about twice those of the plain sum, where whole numbers would
make them several times that.
"""

from __future__ import annotations

FILTER_FUNCTION = "spread_filter"
FUNCTION = "convolve_tiles"
STRIPS_FUNCTION = "convolve_strips"
GRADIENT_FUNCTION = "sum_filter"

SOURCE = f"""
#include <cstdint>
#include <cstring>
namespace tiles {{
#if defined(__AVX512F__)
constexpr int LANES = 16, MOST_ROWS = 12;  // 24 of 32 registers hold sums
#elif defined(__AVX__)
constexpr int LANES = 8, MOST_ROWS = 6;
#else
constexpr int LANES = 4, MOST_ROWS = 4;
#endif
constexpr int WIDE = 2 * LANES;
constexpr int STEP = 4, SIDE = 6, PLACES = SIDE * SIDE;  // of a tile: results that it gives, and pixels that it reads
constexpr float NEAR = 0.70710678118654752f, FAR = 1.41421356237309505f;  // points: their squares are 1 / 2 and 2
// The values of a filter's polynomial at the points, divided by what interpolating multiplies by.
constexpr float POINTS[SIDE][3] = {{{{1, 0, 0}},
                                    {{-2.0f / 3, -NEAR * 2 / 3, -1.0f / 3}},
                                    {{-2.0f / 3, NEAR * 2 / 3, -1.0f / 3}},
                                    {{1.0f / 6, FAR / 6, 1.0f / 3}},
                                    {{1.0f / 6, -FAR / 6, 1.0f / 3}},
                                    {{0, 0, 1}}}};
typedef float fvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
static inline fvec load(const float* from) {{
  fvec value;
  std::memcpy(&value, from, sizeof(fvec));
  return value;
}}
static inline void store(float* to, fvec value) {{ std::memcpy(to, &value, sizeof(fvec)); }}
// Each of these works on one dimension of a tile, whose values lie `step` apart.
static inline void spread_images(const fvec* from, int step, fvec* to, int stride) {{
  const fvec second = from[step], third = from[2 * step], fourth = from[3 * step], fifth = from[4 * step];
  to[0] = from[0] - third * 2.5f + fifth;
  const fvec even = fifth - third * 2.0f, odd = (fourth - second * 2.0f) * NEAR;
  to[stride] = even + odd;
  to[2 * stride] = even - odd;
  const fvec other_even = fifth - third * 0.5f, other_odd = (fourth - second * 0.5f) * FAR;
  to[3 * stride] = other_even + other_odd;
  to[4 * stride] = other_even - other_odd;
  to[5 * stride] = second - fourth * 2.5f + from[5 * step];
}}
static inline void gather_results(const fvec* from, int step, fvec* to, int stride) {{
  const fvec even = from[step] + from[2 * step], odd = (from[step] - from[2 * step]) * NEAR;
  const fvec other_even = from[3 * step] + from[4 * step], other_odd = (from[3 * step] - from[4 * step]) * FAR;
  to[0] = from[0] + even + other_even;
  to[stride] = odd + other_odd;
  to[2 * stride] = even * 0.5f + other_even * 2.0f;
  to[3 * stride] = odd * 0.5f + other_odd * 2.0f + from[5 * step];
}}
static inline void spread_gradient(const fvec* from, int step, fvec* to, int stride) {{  // `gather_results`, turned
  const fvec first = from[0], second = from[step], third = from[2 * step], fourth = from[3 * step];
  to[0] = first;
  const fvec even = first + third * 0.5f, odd = (second + fourth * 0.5f) * NEAR;
  to[stride] = even + odd;
  to[2 * stride] = even - odd;
  const fvec other_even = first + third * 2.0f, other_odd = (second + fourth * 2.0f) * FAR;
  to[3 * stride] = other_even + other_odd;
  to[4 * stride] = other_even - other_odd;
  to[5 * stride] = fourth;
}}
struct Shape {{
  int64_t images, height, width, channels, results, pad;
  int64_t rows, columns, down, across;  // pixels of a result, and tiles
  Shape(int64_t images, int64_t height, int64_t width, int64_t channels, int64_t results, int64_t pad)
      : images(images), height(height), width(width), channels(channels), results(results), pad(pad) {{
    rows = height + 2 * pad - 2, columns = width + 2 * pad - 2;
    down = (rows + STEP - 1) / STEP, across = (columns + STEP - 1) / STEP;
  }}
  int64_t count() const {{ return images * down * across; }}
}};
// Where a tile begins, in pixels of the result.
struct Tile {{
  int64_t image, top, left;
  Tile(const Shape& shape, int64_t number) {{
    const int64_t place = number % (shape.down * shape.across);
    image = number / (shape.down * shape.across);
    top = place / shape.across * STEP, left = place % shape.across * STEP;
  }}
}};
// Some pixels of a picture, those outside of it as zeros.
template <int SIZE>
static inline void read_pixels(const float* from, int64_t top, int64_t left, int64_t height, int64_t width,
                               int64_t channels, fvec* held) {{
  const float* first = from + (top * width + left) * channels;
  if (top >= 0 && left >= 0 && top + SIZE <= height && left + SIZE <= width) {{
#pragma GCC unroll 6
    for (int y = 0; y < SIZE; y++)
#pragma GCC unroll 6
      for (int x = 0; x < SIZE; x++) held[y * SIZE + x] = load(first + (y * width + x) * channels);
    return;
  }}
  for (int y = 0; y < SIZE; y++)
    for (int x = 0; x < SIZE; x++) {{
      const bool inside = top + y >= 0 && top + y < height && left + x >= 0 && left + x < width;
      held[y * SIZE + x] = inside ? load(first + (y * width + x) * channels) : fvec{{}};
    }}
}}
// The places of a tile, `plane` apart, of all its channels.
static void read_tile(const Shape& shape, const float* images, int64_t number, int64_t plane, float* to) {{
  const Tile tile(shape, number);
  const float* image = images + tile.image * shape.height * shape.width * shape.channels;
  for (int64_t channel = 0; channel < shape.channels; channel += LANES) {{
    fvec held[PLACES], turned[PLACES], row[SIDE];
    read_pixels<SIDE>(image + channel, tile.top - shape.pad, tile.left - shape.pad, shape.height, shape.width,
                      shape.channels, held);
#pragma GCC unroll 6
    for (int x = 0; x < SIDE; x++) spread_images(held + x, SIDE, turned + x, SIDE);
#pragma GCC unroll 6
    for (int y = 0; y < SIDE; y++) {{
      spread_images(turned + y * SIDE, 1, row, 1);
#pragma GCC unroll 6
      for (int x = 0; x < SIDE; x++) store(to + (y * SIDE + x) * plane + channel, row[x]);
    }}
  }}
}}
static void read_gradient(const Shape& shape, const float* gradient, int64_t number, int64_t plane, float* to) {{
  const Tile tile(shape, number);
  const float* image = gradient + tile.image * shape.rows * shape.columns * shape.results;
  for (int64_t channel = 0; channel < shape.results; channel += LANES) {{
    fvec held[STEP * STEP], turned[SIDE * STEP], row[SIDE];
    read_pixels<STEP>(image + channel, tile.top, tile.left, shape.rows, shape.columns, shape.results, held);
#pragma GCC unroll 4
    for (int x = 0; x < STEP; x++) spread_gradient(held + x, STEP, turned + x, STEP);
#pragma GCC unroll 6
    for (int y = 0; y < SIDE; y++) {{
      spread_gradient(turned + y * STEP, 1, row, 1);
#pragma GCC unroll 6
      for (int x = 0; x < SIDE; x++) store(to + (y * SIDE + x) * plane + channel, row[x]);
    }}
  }}
}}
// What becomes of the places of a tile, of some channels of the result.
static void write_tile(const Shape& shape, const float* from, int64_t number, int64_t plane, int64_t first,
                       int64_t until, const float* bias, const float* other, bool relu, float* result) {{
  const Tile tile(shape, number);
  for (int64_t channel = first; channel < until; channel += LANES) {{
    fvec held[SIDE * STEP], some[SIDE], row[STEP];
#pragma GCC unroll 6
    for (int x = 0; x < SIDE; x++) {{
#pragma GCC unroll 6
      for (int y = 0; y < SIDE; y++) some[y] = load(from + (y * SIDE + x) * plane + channel - first);
      gather_results(some, 1, held + x, SIDE);
    }}
    const fvec offset = bias ? load(bias + channel) : fvec{{}};
#pragma GCC unroll 4
    for (int y = 0; y < STEP; y++) {{
      gather_results(held + y * SIDE, 1, row, 1);
      if (tile.top + y >= shape.rows) break;
      const int64_t line = (tile.image * shape.rows + tile.top + y) * shape.columns + tile.left;
#pragma GCC unroll 4
      for (int x = 0; x < STEP; x++) {{
        if (tile.left + x >= shape.columns) break;
        const int64_t place = (line + x) * shape.results + channel;
        fvec value = row[x] + offset;
        if (other) value += load(other + place);
        if (relu) value = value < 0.0f ? fvec{{}} : value;  // what is no number stays so
        store(result + place, value);
      }}
    }}
  }}
}}
// ROWS rows of numbers by VECTORS vectors of columns, which stay in registers. Neighbours of a row lie `near` apart,
// those of a column `far`.
template <int ROWS, int VECTORS>
static void multiply(const float* __restrict left, int64_t near, int64_t far, const float* __restrict right,
                     int64_t right_stride, int64_t depth, float* __restrict to, int64_t stride, bool adds) {{
  fvec sums[ROWS][VECTORS], some[VECTORS];
#pragma GCC unroll 12
  for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 2
    for (int part = 0; part < VECTORS; part++) sums[row][part] = fvec{{}};
#pragma GCC unroll 2
  for (int64_t place = 0; place < depth; place++, left += near, right += right_stride) {{
#pragma GCC unroll 2
    for (int part = 0; part < VECTORS; part++) {{
      some[part] = load(right + part * LANES);
      __builtin_prefetch(right + 16 * right_stride + part * LANES);
    }}
#pragma GCC unroll 12
    for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 2
      for (int part = 0; part < VECTORS; part++) sums[row][part] += some[part] * left[row * far];
  }}
#pragma GCC unroll 12
  for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 2
    for (int part = 0; part < VECTORS; part++) {{
      float* at = to + row * stride + part * LANES;
      store(at, adds ? load(at) + sums[row][part] : sums[row][part]);
    }}
}}
template <int VECTORS>
static void multiply_rows(int64_t rows, const float* left, int64_t near, int64_t far, const float* right,
                          int64_t right_stride, int64_t depth, float* to, int64_t stride, bool adds) {{
  while (rows > 0) {{
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
  }}
}}
// How the numbers of a filter lie: steps between results and between channels, its nine pixels side by side; in the
// other direction for the gradient of images.
struct Filter {{
  const float* data;
  int64_t results, channels, result_step, channel_step;
  bool turned;
}};
// All places of one channel, for a strip of results.
static void spread_strip(const Filter& filter, int64_t first, int64_t channel, float* to, int64_t plane) {{
  const float* from = filter.data + first * filter.result_step + channel * filter.channel_step;
  float pixels[9][WIDE];
  for (int lane = 0; lane < WIDE; lane++, from += filter.result_step)
    for (int pixel = 0; pixel < 9; pixel++)
      pixels[pixel][lane] = first + lane < filter.results ? from[filter.turned ? 8 - pixel : pixel] : 0.0f;
  for (int half = 0; half < WIDE; half += LANES) {{
    fvec rows[SIDE][3];
    for (int y = 0; y < SIDE; y++)
      for (int x = 0; x < 3; x++) {{
        rows[y][x] = load(pixels[x] + half) * POINTS[y][0];
        rows[y][x] += load(pixels[3 + x] + half) * POINTS[y][1] + load(pixels[6 + x] + half) * POINTS[y][2];
      }}
    for (int y = 0; y < SIDE; y++)
      for (int x = 0; x < SIDE; x++)
        store(to + (y * SIDE + x) * plane + half,
              rows[y][0] * POINTS[x][0] + rows[y][1] * POINTS[x][1] + rows[y][2] * POINTS[x][2]);
  }}
}}
// `to`: places, strips of results, channels, results of a strip.
extern "C" void {FILTER_FUNCTION}(const float* filter, float* to, int64_t results, int64_t channels,
                                  int64_t result_step, int64_t channel_step, int turned, int threads) {{
  const Filter given{{filter, results, channels, result_step, channel_step, turned != 0}};
  const int64_t strips = (results + WIDE - 1) / WIDE, plane = strips * channels * WIDE;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t line = 0; line < strips * channels; line++)
    spread_strip(given, line / channels * WIDE, line % channels, to + line * WIDE, plane);
}}
// `scratch`: for each thread, all places of a block of tiles, of images and of results in whole strips.
extern "C" void {FUNCTION}(const float* images, const float* filter, const float* bias, const float* other,
                           float* result, float* scratch, int64_t count, int64_t height, int64_t width,
                           int64_t channels, int64_t results, int64_t pad, int64_t block, int relu, int threads) {{
  const Shape shape(count, height, width, channels, results, pad);
  const int64_t strips = (results + WIDE - 1) / WIDE, broad = strips * WIDE;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int part = 0; part < threads; part++) {{
    float *read = scratch + part * PLACES * block * (channels + broad), *made = read + PLACES * block * channels;
    const int64_t until = shape.count() * (part + 1) / threads;
    for (int64_t tile = shape.count() * part / threads; tile < until;) {{
      const int64_t blocks = (until - tile + block - 1) / block, some = (until - tile + blocks - 1) / blocks;
      for (int64_t row = 0; row < some; row++)
        read_tile(shape, images, tile + row, block * channels, read + row * channels);
      for (int64_t place = 0; place < PLACES; place++)
        for (int64_t strip = 0; strip < strips; strip++)
          multiply_rows<2>(some, read + place * block * channels, 1, channels,
                           filter + (place * strips + strip) * channels * WIDE, WIDE, channels,
                           made + place * block * broad + strip * WIDE, broad, false);
      for (int64_t row = 0; row < some; row++)
        write_tile(shape, made + row * broad, tile + row, block * broad, 0, results, bias, other, relu, result);
      tile += some;
    }}
  }}
}}
// The same for few tiles and a large filter, strip by strip of the results: what a strip of the filter becomes stays in
// the cache, and is written nowhere else. `scratch`: all places of all tiles of images; and for each thread, those of a
// strip of the filter and of a strip of results.
extern "C" void {STRIPS_FUNCTION}(const float* images, const float* filter, const float* bias, float* result,
                                  float* scratch, int64_t count, int64_t height, int64_t width, int64_t channels,
                                  int64_t results, int64_t pad, int64_t result_step, int64_t channel_step, int turned,
                                  int threads) {{
  const Shape shape(count, height, width, channels, results, pad);
  const Filter given{{filter, results, channels, result_step, channel_step, turned != 0}};
  const int64_t all = shape.count(), strips = (results + WIDE - 1) / WIDE, plane = channels * WIDE;
  float* own = scratch + PLACES * all * channels;
#pragma omp parallel num_threads(threads)
  {{
#pragma omp for schedule(static)
    for (int64_t tile = 0; tile < all; tile++)
      read_tile(shape, images, tile, all * channels, scratch + tile * channels);
#pragma omp for schedule(static)
    for (int part = 0; part < threads; part++) {{
      float *spread = own + part * PLACES * (channels + all) * WIDE, *made = spread + PLACES * plane;
      for (int64_t strip = strips * part / threads; strip < strips * (part + 1) / threads; strip++) {{
        const int64_t first = strip * WIDE, until = first + WIDE < results ? first + WIDE : results;
        for (int64_t channel = 0; channel < channels; channel++)
          spread_strip(given, first, channel, spread + channel * WIDE, plane);
        for (int64_t place = 0; place < PLACES; place++)
          multiply_rows<2>(all, scratch + place * all * channels, 1, channels, spread + place * plane, WIDE, channels,
                           made + place * all * WIDE, WIDE, false);
        for (int64_t tile = 0; tile < all; tile++)
          write_tile(shape, made + tile * WIDE, tile, all * WIDE, first, until, bias, nullptr, false, result);
      }}
    }}
  }}
}}
// The gradient of a filter: results, channels, its nine pixels. `scratch`: all places of a block of tiles, of images
// and of gradients, and of the filter.
extern "C" void {GRADIENT_FUNCTION}(const float* images, const float* gradient, float* result, float* scratch,
                                    int64_t count, int64_t height, int64_t width, int64_t channels, int64_t results,
                                    int64_t pad, int64_t block, int threads) {{
  const Shape shape(count, height, width, channels, results, pad);
  float *read = scratch, *given = read + PLACES * block * channels, *sums = given + PLACES * block * results;
#pragma omp parallel num_threads(threads)
  {{
    for (int64_t tile = 0; tile < shape.count(); tile += block) {{
      const int64_t some = shape.count() - tile < block ? shape.count() - tile : block;
#pragma omp for schedule(static)
      for (int64_t row = 0; row < some; row++) {{
        read_tile(shape, images, tile + row, block * channels, read + row * channels);
        read_gradient(shape, gradient, tile + row, block * results, given + row * results);
      }}
#pragma omp for schedule(static)
      for (int64_t place = 0; place < PLACES; place++) {{
        const float *left = given + place * block * results, *right = read + place * block * channels;
        float* to = sums + place * results * channels;
        int64_t column = 0;
        for (; column + WIDE <= channels; column += WIDE)
          multiply_rows<2>(results, left, results, 1, right + column, channels, some, to + column, channels, tile > 0);
        if (column < channels)
          multiply_rows<1>(results, left, results, 1, right + column, channels, some, to + column, channels, tile > 0);
      }}
    }}
#pragma omp for schedule(static)
    for (int64_t row = 0; row < results; row++)
      for (int64_t channel = 0; channel < channels; channel += LANES) {{
        fvec rows[3][SIDE], some[SIDE];
        float pixels[9][LANES];
        for (int x = 0; x < SIDE; x++) {{
          for (int y = 0; y < SIDE; y++)
            some[y] = load(sums + ((y * SIDE + x) * results + row) * channels + channel);
          for (int high = 0; high < 3; high++) {{
            rows[high][x] = some[0] * POINTS[0][high];
            for (int y = 1; y < SIDE; y++) rows[high][x] += some[y] * POINTS[y][high];
          }}
        }}
        for (int high = 0; high < 3; high++)
          for (int wide = 0; wide < 3; wide++) {{
            fvec sum = rows[high][0] * POINTS[0][wide];
            for (int x = 1; x < SIDE; x++) sum += rows[high][x] * POINTS[x][wide];
            store(pixels[3 * high + wide], sum);
          }}
        float* to = result + (row * channels + channel) * 9;
        for (int lane = 0; lane < LANES; lane++)
          for (int pixel = 0; pixel < 9; pixel++) to[lane * 9 + pixel] = pixels[pixel][lane];
      }}
  }}
}}
}}  // namespace tiles
"""
