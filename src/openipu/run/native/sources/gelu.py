"""C++ for GELU by its tanh, and for its gradient: one function for any number of elements.

In: vectors of the machine's width (`draws.py`). Out: `bend_elements`, which writes the activation of the values,
or, where a gradient is given, the gradient of the values, also in place. `(1 + tanh(u)) / 2` is computed as the
logistic function of `2 u`, which takes one exponential and one division.
"""

from __future__ import annotations

import math

FUNCTION = "bend_elements"

_LINEAR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR
_HIGH_BITS = 355 / 512  # of the logarithm of 2: times a whole number, it is exact
_LEAST = -87.0  # below, e to this power is no ordinary number
_ROUNDER = 1.5 * 2**23  # added, it leaves the nearest whole number in the lowest bits
_SERIES = "".join(f"  sum = sum * rest + {1 / math.factorial(power)!r}f;\n" for power in range(6, -1, -1))

SOURCE = f"""
constexpr int64_t PIECE = 4096;  // elements that one thread takes at a time
// e to the power of numbers from {_LEAST} to 0: 2 to a whole number, times a series for the rest.
static inline fvec raise_some(fvec power) {{
  const fvec shifted = power * {1 / math.log(2)!r}f + {_ROUNDER!r}f;
  const fvec whole = shifted - {_ROUNDER!r}f;
  const fvec rest = (power - whole * {_HIGH_BITS!r}f) - whole * {math.log(2) - _HIGH_BITS!r}f;
  fvec sum = fvec{{}} + {1 / math.factorial(7)!r}f;
{_SERIES}  return sum * (fvec)(((ivec)shifted << 23) + (127 << 23));
}}
template <bool BACKWARD>
static inline fvec bend_some(fvec value, fvec gradient) {{
  const fvec square = value * value;
  const fvec inner = value * (square * {_CUBIC!r}f + {_LINEAR!r}f);
  const fvec distance = inner < 0.0f ? inner : -inner;
  const fvec raised = distance < {_LEAST!r}f ? fvec{{}} : raise_some(distance);
  const fvec share = 1.0f / (1.0f + raised);  // of the logistic function: at the distance of `inner`, above 0
  const fvec rest = raised * share, below = inner < 0.0f ? rest : share;
  if (!BACKWARD) return value * below;
  return gradient * (below + share * rest * value * (square * {3 * _CUBIC!r}f + {_LINEAR!r}f));
}}
template <bool BACKWARD>
static void bend_piece(const float* values, const float* gradients, float* results, int64_t count) {{
  for (int64_t place = 0; place < count; place += LANES) {{
    const int64_t bytes = 4 * (count - place < LANES ? count - place : LANES);
    fvec value{{}}, gradient{{}};
    if (bytes == sizeof(fvec)) {{
      std::memcpy(&value, values + place, sizeof(fvec));
      if (BACKWARD) std::memcpy(&gradient, gradients + place, sizeof(fvec));
      value = bend_some<BACKWARD>(value, gradient);
      std::memcpy(results + place, &value, sizeof(fvec));
    }} else {{
      std::memcpy(&value, values + place, bytes);
      if (BACKWARD) std::memcpy(&gradient, gradients + place, bytes);
      value = bend_some<BACKWARD>(value, gradient);
      std::memcpy(results + place, &value, bytes);
    }}
  }}
}}
extern "C" void {FUNCTION}(const float* values, const float* gradients, float* results, int64_t count, int threads) {{
  const int64_t pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads) schedule(static) if (pieces > 4)
  for (int64_t piece = 0; piece < pieces; piece++) {{
    const int64_t start = piece * PIECE, size = count - start < PIECE ? count - start : PIECE;
    if (gradients) bend_piece<true>(values + start, gradients + start, results + start, size);
    else bend_piece<false>(values + start, nullptr, results + start, size);
  }}
}}
"""
