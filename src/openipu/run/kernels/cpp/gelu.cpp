// GELU by its tanh approximation, and its gradient, also in place. `(1 + tanh(u)) / 2` is computed as the logistic
// function of `2 u`, which takes one exponential and one division.
#include "kernel.hpp"
#include "vectors.hpp"

struct GeluArguments {
  const float* values;
  const float* gradients;  // of the activation; null: compute the activation itself
  float* results;
  int64_t count;
  int32_t threads;
};

namespace {

constexpr int64_t PIECE = 4096;  // elements that one thread takes at a time
constexpr double LOG2_E = 1.4426950408889634, LOG_2 = 0.69314718055994531;
constexpr float HIGH_BITS = 355.0f / 512;  // of the logarithm of 2: times a whole number, it is exact
constexpr float LOW_BITS = float(LOG_2 - 355.0 / 512);
constexpr float ROUNDER = 12582912.0f;  // 1.5 * 2^23: added, it leaves the nearest whole number in the lowest bits
constexpr float LOWEST_POWER = -87.0f;  // below, e to this power is no normal number
constexpr float LINEAR = 1.5957691216057308f;  // 2 * sqrt(2 / pi)
constexpr float CUBIC = float(0.044715 * 1.5957691216057308), CUBIC_SLOPE = float(3 * 0.044715 * 1.5957691216057308);

// e to powers from LOWEST_POWER to 0: 2 to a whole number, times a series for the rest.
inline FloatVector exponential(FloatVector power) {
  const FloatVector shifted = power * float(LOG2_E) + ROUNDER;
  const FloatVector whole = shifted - ROUNDER;
  const FloatVector rest = (power - whole * HIGH_BITS) - whole * LOW_BITS;
  FloatVector sum = FloatVector{} + float(1.0 / 5040);
  sum = sum * rest + float(1.0 / 720);
  sum = sum * rest + float(1.0 / 120);
  sum = sum * rest + float(1.0 / 24);
  sum = sum * rest + float(1.0 / 6);
  sum = sum * rest + 0.5f;
  sum = sum * rest + 1.0f;
  sum = sum * rest + 1.0f;
  return sum * (FloatVector)(((IntVector)shifted << 23) + (127 << 23));
}
template <bool BACKWARD>
inline FloatVector gelu(FloatVector value, FloatVector gradient) {
  const FloatVector square = value * value;
  const FloatVector inner = value * (square * CUBIC + LINEAR);
  const FloatVector distance = inner < 0.0f ? inner : -inner;
  const FloatVector raised = distance < LOWEST_POWER ? FloatVector{} : exponential(distance);
  const FloatVector share = 1.0f / (1.0f + raised);  // the logistic function of the absolute value
  const FloatVector rest = raised * share, logistic = inner < 0.0f ? rest : share;
  if (!BACKWARD) return value * logistic;
  return gradient * (logistic + share * rest * value * (square * CUBIC_SLOPE + LINEAR));
}
template <bool BACKWARD>
void compute_piece(const float* values, const float* gradients, float* results, int64_t count) {
  for (int64_t place = 0; place < count; place += LANES) {
    const int64_t bytes = 4 * smaller(LANES, count - place);
    FloatVector value{}, gradient{};
    if (bytes == sizeof(FloatVector)) {
      store(results + place, gelu<BACKWARD>(load(values + place), BACKWARD ? load(gradients + place) : gradient));
      continue;
    }
    std::memcpy(&value, values + place, bytes);
    if (BACKWARD) std::memcpy(&gradient, gradients + place, bytes);
    value = gelu<BACKWARD>(value, gradient);
    std::memcpy(results + place, &value, bytes);
  }
}

}  // namespace

KERNEL(compute_gelu, GeluArguments) {
  const GeluArguments given = *arguments;
  const int64_t pieces = (given.count + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(given.threads) schedule(static) if (pieces > 4)
  for (int64_t piece = 0; piece < pieces; piece++) {
    const int64_t start = piece * PIECE, size = smaller(PIECE, given.count - start);
    if (given.gradients)
      compute_piece<true>(given.values + start, given.gradients + start, given.results + start, size);
    else
      compute_piece<false>(given.values + start, nullptr, given.results + start, size);
  }
}
