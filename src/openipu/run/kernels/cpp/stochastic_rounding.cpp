// Stochastic rounding to half: samples random bits and rounds in one pass over memory, to half, or to float32 numbers
// that half has, also in place. Bit by bit the same as `numerics/rounding.py`.
#include "half_numbers.hpp"
#include "kernel.hpp"
#include "random_bits.hpp"

struct RoundingArguments {
  const float* values;
  void* results;  // float32 or half
  const int32_t* seeds;
  const int64_t* places;  // of rows, or null where they follow one another
  int64_t seed_count, sample, first_row, rows, columns;
  int32_t overflow, wide, threads;
};

namespace {

template <int OVERFLOW_KIND, typename Result>
void round_row(const float* values, Result* results, int64_t count, uint32_t key) {
  UintVector steps = count_from(key);
  int64_t place = 0;
  for (; place + LANES <= count; place += LANES, steps += LANES * COLUMN_STEP)
    store(results + place, round_by_bits<OVERFLOW_KIND>((UintVector)load(values + place), mix(steps)));
  if (place == count) return;
  UintVector codes{};
  std::memcpy(&codes, values + place, 4 * (count - place));
  Result last[LANES];
  store(last, round_by_bits<OVERFLOW_KIND>(codes, mix(steps)));
  std::memcpy(results + place, last, sizeof(Result) * (count - place));
}
template <int OVERFLOW_KIND, typename Result>
void round_rows(const RoundingArguments& given) {
  const float* values = given.values;
  Result* results = static_cast<Result*>(given.results);
  const SampledRows sampled{given.seeds,  given.seed_count, given.sample, given.first_row,
                            given.places, given.rows,       given.columns};
  walk_rows(sampled, given.threads, [=](int64_t start, int64_t size, uint32_t key) {
    round_row<OVERFLOW_KIND>(values + start, results + start, size, key);
  });
}

}  // namespace

KERNEL(round_stochastically, RoundingArguments) {
  constexpr void (*KINDS[3][2])(const RoundingArguments&) = {
      {round_rows<TO_INFINITY, uint16_t>, round_rows<TO_INFINITY, float>},
      {round_rows<SATURATE, uint16_t>, round_rows<SATURATE, float>},
      {round_rows<TO_NAN, uint16_t>, round_rows<TO_NAN, float>}};
  KINDS[arguments->overflow][arguments->wide](*arguments);
}
