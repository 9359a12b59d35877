// Dropout: multiplies by a mask that it samples on the way and never writes down, in one pass over memory, also in
// place.
#include "half_numbers.hpp"
#include "kernel.hpp"
#include "random_bits.hpp"

struct DropoutArguments {
  const float* values;
  float* results;
  const int32_t* seeds;
  int64_t seed_count, sample;
  int64_t rounding_sample;  // that rounds the factor of each element to half; none if it is negative
  int64_t rows, columns;
  float factor;
  int32_t quantile, threads;
};

namespace {

// By `factor` where the bits of an element are below `quantile`, and by 0 elsewhere.
template <bool ROUNDED>
inline FloatVector drop(FloatVector values, UintVector steps, UintVector roundings, int32_t quantile, float factor) {
  FloatVector factors = FloatVector{} + factor;
  if (ROUNDED) factors = (FloatVector)round_by_bits<TO_INFINITY>((UintVector)factors, mix(roundings));
  return values * ((IntVector)mix(steps) < quantile ? factors : FloatVector{});
}
template <bool ROUNDED>
void drop_row(const float* values, float* results, int64_t count, uint32_t key, uint32_t rounding_key, int32_t quantile,
              float factor) {
  UintVector steps = count_from(key), roundings = count_from(rounding_key);
  int64_t place = 0;
  for (; place + LANES <= count; place += LANES, steps += LANES * COLUMN_STEP, roundings += LANES * COLUMN_STEP)
    store(results + place, drop<ROUNDED>(load(values + place), steps, roundings, quantile, factor));
  if (place == count) return;
  FloatVector last{};
  std::memcpy(&last, values + place, 4 * (count - place));
  last = drop<ROUNDED>(last, steps, roundings, quantile, factor);
  std::memcpy(results + place, &last, 4 * (count - place));
}

}  // namespace

KERNEL(apply_dropout, DropoutArguments) {
  const DropoutArguments given = *arguments;
  const SampledRows sampled{given.seeds, given.seed_count, given.sample, 0, nullptr, given.rows, given.columns};
  walk_rows(sampled, given.threads, [=](int64_t start, int64_t size, uint32_t key) {
    const float* values = given.values + start;
    float* results = given.results + start;
    if (given.rounding_sample < 0) {
      drop_row<false>(values, results, size, key, 0, given.quantile, given.factor);
      return;
    }
    const int64_t line = start / given.columns;
    const uint32_t row_key = find_key(given.seeds[line / given.rows], given.rounding_sample, line % given.rows);
    const uint32_t rounding_key = row_key + uint32_t(start % given.columns) * COLUMN_STEP;
    drop_row<true>(values, results, size, key, rounding_key, given.quantile, given.factor);
  });
}
