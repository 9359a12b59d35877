"""C++ for convolutions with few channels.

In: the `Geometry` of some convolutions. Out: one file with a function for each, by `name_kernel`. Its sizes are
constants, so that a compiler keeps a block of channels and rows in registers. It computes eight neighbouring pixels of
a row as one vector, reads images as they lie, or from a copy with pads around it, and stores what a pool leaves over.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from openipu.run.images.direct_convolutions import PIXELS, Geometry

_HEAD = f"""#include <cstdint>
#include <cstring>
#include <memory>
typedef float vec __attribute__((vector_size({4 * PIXELS}), aligned(4)));
#ifdef __clang__
#define EVERY_SECOND(v, n) __builtin_shufflevector(v, v, n, n + 2, n + 4, n + 6, n, n + 2, n + 4, n + 6)
#else
typedef int places __attribute__((vector_size({4 * PIXELS})));
#define EVERY_SECOND(v, n) __builtin_shuffle(v, places{{n, n + 2, n + 4, n + 6, n, n + 2, n + 4, n + 6}})
#endif
// In a register: a compiler would rather read it again for each product.
#if defined(__AVX512VL__)
#define HOLD(value) asm("" : "+v"(value))
#elif defined(__AVX__)
#define HOLD(value) asm("" : "+x"(value))
#else
#define HOLD(value)
#endif
static inline vec larger(vec a, vec b) {{ vec m = a > b ? a : b; return a != a ? a : m; }}  // not a number stays so
static inline vec rectify(vec a) {{ return a < vec{{}} ? vec{{}} : a; }}
static inline void store(float* to, vec value, int count) {{
  if (count == {PIXELS}) {{ std::memcpy(to, &value, sizeof(vec)); return; }}
  float part[{PIXELS}];
  std::memcpy(part, &value, sizeof(vec));
  if (count == {PIXELS // 2}) {{ std::memcpy(to, part, sizeof(vec) / 2); return; }}
  for (int i = 0; i < count; i++) to[i] = part[i];
}}
"""

_SIZES = """
namespace {name}_sizes {{
constexpr int IC = {channels}, IH = {height}, IW = {width}, OC = {results}, KH = {kernel_rows}, KW = {kernel_columns};
constexpr int PH = {pad_rows}, PW = {pad_columns}, OB = {block_channels}, RB = {block_rows};
constexpr bool POOL = {pool}, RELU = {relu};
"""

_CODE = """constexpr int BH = IH + 2 * PH, BW = IW + 2 * PW, PART = POOL ? 2 : 1;
constexpr int H = (BH - KH + 1) / PART * PART, W = (BW - KW + 1) / PART * PART, YH = H / PART, YW = W / PART;
constexpr int BLOCKS = (OC + OB - 1) / OB;
constexpr bool COPY = PH || PW || W % 8 || H % RB;  // otherwise no vector begins or ends outside of an image
constexpr int64_t WORK = int64_t(OC) * H * W * IC * KH * KW;
inline void compute(const float* __restrict x, const float* __restrict w, const float* __restrict b,
                    float* __restrict y, int channels) {
  for (int r = 0; r < H; r += RB)
    for (int c = 0; c < W; c += 8) {
      vec sum[OB][RB];
#pragma GCC unroll 8
      for (int i = 0; i < OB; i++)
#pragma GCC unroll 8
        for (int j = 0; j < RB; j++) sum[i][j] = vec{} + b[i];
      const float* weight = w;
      for (int ic = 0; ic < IC; ic++)
        for (int kh = 0; kh < KH; kh++) {
          const float* row = x + (ic * BH + r + kh) * BW + c;
#pragma GCC unroll 1
          for (int kw = 0; kw < KW; kw++, weight += OB) {
            vec in[RB];
#pragma GCC unroll 8
            for (int j = 0; j < RB; j++) {
              std::memcpy(&in[j], row + j * BW + kw, sizeof(vec));
              HOLD(in[j]);
            }
#pragma GCC unroll 8
            for (int i = 0; i < OB; i++) {
              float factor = weight[i];
#pragma GCC unroll 8
              for (int j = 0; j < RB; j++) sum[i][j] += factor * in[j];
            }
          }
        }
      int columns = W - c < 8 ? W - c : 8;
#pragma GCC unroll 8
      for (int i = 0; i < OB; i++) {
        if (i >= channels) break;
#pragma GCC unroll 8
        for (int j = 0; j < RB; j += PART) {
          if (r + j >= H) break;
          vec found = sum[i][j];
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
}
"""

_FUNCTION = """extern "C" void {name}(const float* x, const float* w, const float* b, float* y,
    int64_t images, int threads) {{
  using namespace {name}_sizes;
#pragma omp parallel num_threads(threads) if (images * WORK > (1 << 18))
  {{
    std::unique_ptr<float[]> copy(COPY ? new float[IC * BH * BW + RB * BW + 8]() : nullptr);
    int64_t held = -1;
#pragma omp for schedule(static)
    for (int64_t part = 0; part < images * BLOCKS; part++) {{
      int64_t image = part / BLOCKS, block = part % BLOCKS;
      const float* source = x + image * IC * IH * IW;
      if (COPY && held != image) {{
        for (int ic = 0; ic < IC; ic++)
          for (int r = 0; r < IH; r++)
            std::memcpy(&copy[(ic * BH + r + PH) * BW + PW], source + (ic * IH + r) * IW, IW * sizeof(float));
        held = image;
      }}
      compute(COPY ? copy.get() : source, w + block * IC * KH * KW * OB, b + block * OB,
              y + (image * OC + block * OB) * YH * YW, int(OC - block * OB));
    }}
  }}
}}
"""


def write_source(geometries: Sequence[Geometry]) -> str:
    """The file with a function for each."""
    parts = [_HEAD]
    for geometry in geometries:
        name, (channels, rows) = name_kernel(geometry), geometry.blocks
        sizes = _SIZES.format(
            name=name,
            channels=geometry.channels,
            height=geometry.height,
            width=geometry.width,
            results=geometry.results,
            kernel_rows=geometry.kernel[0],
            kernel_columns=geometry.kernel[1],
            pad_rows=geometry.pads[0],
            pad_columns=geometry.pads[1],
            block_channels=channels,
            block_rows=rows,
            pool=str(geometry.pool).lower(),
            relu=str(geometry.relu).lower(),
        )
        parts += [sizes, _CODE, _FUNCTION.format(name=name)]
    return "".join(parts)


def name_kernel(geometry: Geometry) -> str:
    """What the function for it is called."""
    return f"convolution_{sha256(repr(geometry).encode()).hexdigest()[:16]}"
