// A convolution with few channels, of one geometry: its sizes are constants, so that a compiler keeps a block of
// channels and rows in registers. It computes eight neighbouring pixels of a row as one vector, reads images as they
// lie, or from a copy with pads around it, and stores what a pool leaves over.
#include <memory>
#include "kernel.hpp"
#include "vectors.hpp"

#if !defined(CHANNELS)
#error "The constants of a geometry: CHANNELS, HEIGHT, WIDTH, RESULTS, KERNEL_ROWS, ... as `DIRECT_CONVOLUTION` says"
#endif

struct DirectConvolutionArguments {
  const float* images;
  const float* weight;  // blocks of results, channels and pixels of the filter, results of a block
  const float* bias;    // of whole blocks
  float* results;
  int64_t count;
  int32_t threads;
};

namespace {

constexpr int PIXELS = 8;
typedef float Pixels __attribute__((vector_size(4 * PIXELS), aligned(4)));
#if defined(__clang__)
#define EVERY_SECOND(v, n) __builtin_shufflevector(v, v, n, n + 2, n + 4, n + 6, n, n + 2, n + 4, n + 6)
#else
typedef int PixelPlaces __attribute__((vector_size(4 * PIXELS)));
#define EVERY_SECOND(v, n) __builtin_shuffle(v, PixelPlaces{n, n + 2, n + 4, n + 6, n, n + 2, n + 4, n + 6})
#endif

inline Pixels larger(Pixels one, Pixels other) {  // what is not a number stays so
  const Pixels most = one > other ? one : other;
  return one != one ? one : most;
}
inline Pixels rectify(Pixels values) { return values < Pixels{} ? Pixels{} : values; }
inline void store(float* to, Pixels values, int count) {
  if (count == PIXELS) {
    std::memcpy(to, &values, sizeof(Pixels));
    return;
  }
  float part[PIXELS];
  std::memcpy(part, &values, sizeof(Pixels));
  std::memcpy(to, part, sizeof(float) * count);
}

constexpr int IC = CHANNELS, IH = HEIGHT, IW = WIDTH, OC = RESULTS, KH = KERNEL_ROWS, KW = KERNEL_COLUMNS;
constexpr int PH = PAD_ROWS, PW = PAD_COLUMNS, OB = RESULTS_TOGETHER, RB = ROWS_TOGETHER;
constexpr bool POOL = POOLS, RELU = RECTIFIES;
constexpr int64_t PARALLEL_WORK = 1 << 18;  // multiplications: below, one thread is faster
constexpr int BH = IH + 2 * PH, BW = IW + 2 * PW, PART = POOL ? 2 : 1;
constexpr int H = (BH - KH + 1) / PART * PART, W = (BW - KW + 1) / PART * PART, YH = H / PART, YW = W / PART;
constexpr int BLOCKS = (OC + OB - 1) / OB;
constexpr bool COPY =
    PH > 0 || PW > 0 || W % 8 > 0 || H % RB > 0;  // otherwise no vector begins or ends outside of an image
constexpr int64_t WORK = int64_t(OC) * H * W * IC * KH * KW;
inline void compute(const float* __restrict x, const float* __restrict w, const float* __restrict b,
                    float* __restrict y, int channels) {
  for (int r = 0; r < H; r += RB)
    for (int c = 0; c < W; c += 8) {
      Pixels sum[OB][RB];
      UNROLL_ALL
      for (int i = 0; i < OB; i++) UNROLL_ALL
      for (int j = 0; j < RB; j++) sum[i][j] = Pixels{} + b[i];
      const float* weight = w;
      for (int ic = 0; ic < IC; ic++)
        for (int kh = 0; kh < KH; kh++) {
          const float* row = x + (ic * BH + r + kh) * BW + c;
          NO_UNROLL
          for (int kw = 0; kw < KW; kw++, weight += OB) {
            Pixels in[RB];
            UNROLL_ALL
            for (int j = 0; j < RB; j++) {
              std::memcpy(&in[j], row + j * BW + kw, sizeof(Pixels));
              HOLD_IN_REGISTER(in[j]);
            }
            UNROLL_ALL
            for (int i = 0; i < OB; i++) {
              float factor = weight[i];
              UNROLL_ALL
              for (int j = 0; j < RB; j++) sum[i][j] += factor * in[j];
            }
          }
        }
      int columns = W - c < 8 ? W - c : 8;
      UNROLL_ALL
      for (int i = 0; i < OB; i++) {
        if (i >= channels) break;
        UNROLL_ALL
        for (int j = 0; j < RB; j += PART) {
          if (r + j >= H) break;
          Pixels found = sum[i][j];
          if constexpr (POOL) {
            found = larger(found, sum[i][j + 1]);
            found = larger(EVERY_SECOND(found, 0), EVERY_SECOND(found, 1));
          }
          if constexpr (RELU) found = rectify(found);
          store(y + (i * YH + (r + j) / PART) * YW + c / PART, found, columns / PART);
        }
      }
    }
}

}  // namespace

KERNEL(convolve_directly, DirectConvolutionArguments) {
  const DirectConvolutionArguments given = *arguments;
#pragma omp parallel num_threads(given.threads) if (given.count * WORK > PARALLEL_WORK)
  {
    std::unique_ptr<float[]> copy(COPY ? new float[IC * BH * BW + RB * BW + PIXELS]() : nullptr);
    int64_t held = -1;
#pragma omp for schedule(static)
    for (int64_t part = 0; part < given.count * BLOCKS; part++) {
      const int64_t image = part / BLOCKS, block = part % BLOCKS;
      const float* source = given.images + image * IC * IH * IW;
      if (COPY && held != image) {
        for (int channel = 0; channel < IC; channel++)
          for (int row = 0; row < IH; row++)
            std::memcpy(&copy[(channel * BH + row + PH) * BW + PW], source + (channel * IH + row) * IW,
                        IW * sizeof(float));
        held = image;
      }
      compute(COPY ? copy.get() : source, given.weight + block * IC * KH * KW * OB, given.bias + block * OB,
              given.results + (image * OC + block * OB) * YH * YW, int(OC - block * OB));
    }
  }
}
