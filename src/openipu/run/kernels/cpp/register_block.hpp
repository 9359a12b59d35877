// The block of a product's result that stays in registers: so many rows by two vectors of columns, with one vector of
// two and one number beside it.
#pragma once
#include "vectors.hpp"

namespace {

constexpr int BLOCK_ROWS = LANES == 16 ? 12 : LANES == 8 ? 6 : 4, BLOCK_COLUMNS = 2 * LANES;
constexpr int AHEAD = 16;  // rows of operands that are fetched before they are used

// Rows or columns of the result for one of some threads, in whole blocks.
struct Share {
  int64_t from, to;
  Share(int64_t size, int64_t block, int64_t part, int64_t parts) {
    const int64_t blocks = (size + block - 1) / block;
    from = blocks * part / parts * block, to = smaller(size, blocks * (part + 1) / parts * block);
  }
};

}  // namespace
