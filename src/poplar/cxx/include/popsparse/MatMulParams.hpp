// Sizes of a product with a sparse matrix. Part of openipu, written independently.
#ifndef openipu_popsparse_MatMulParams_hpp
#define openipu_popsparse_MatMulParams_hpp

#include <popsparse/SparsityParams.hpp>

#include <cmath>
#include <utility>
#include <vector>

namespace popsparse {

namespace dynamic {
// Groups (one), then sparse [m, k] times dense [k, n].
class MatMulParams {
public:
  static MatMulParams createWithNzRatio(const SparsityParams &sparsity, double nzRatio, std::size_t groups,
                                        std::size_t m, std::size_t k, std::size_t n) {
    return MatMulParams(sparsity, nzRatio, {groups, m, k, n});
  }
  static MatMulParams createWithNumNonZeroValues(const SparsityParams &sparsity, std::size_t numNonZeroElems,
                                                 std::size_t groups, std::size_t m, std::size_t k, std::size_t n) {
    return MatMulParams(sparsity, static_cast<double>(numNonZeroElems) / static_cast<double>((m * k)),
                        {groups, m, k, n});
  }
  const SparsityParams &getSparsityParams() const { return sparsity_; }
  double getNzRatio() const { return nzRatio_; }
  std::size_t getNumGroups() const { return numbers_[0]; }
  std::size_t getM() const { return numbers_[1]; }
  std::size_t getK() const { return numbers_[2]; }
  std::size_t getN() const { return numbers_[3]; }
  std::size_t getNumNonZeroValues() const {
    const double blocks = static_cast<double>((numbers_[1] * numbers_[2])) /
                          (sparsity_.blockDimensions[0] * sparsity_.blockDimensions[1]);
    return static_cast<std::size_t>(std::ceil(nzRatio_ * blocks - 1e-9)) * sparsity_.blockDimensions[0] *
           sparsity_.blockDimensions[1];
  }
  openipu::Named named() const {
    openipu::Named made =
        openipu::Named::make("popsparse.dynamic.MatMulParams.createWithNzRatio", sparsity_.named(), nzRatio_);
    for (std::size_t number : numbers_)
      made.add(number);
    return made;
  }

private:
  MatMulParams(const SparsityParams &sparsity, double nzRatio, std::vector<std::size_t> numbers)
      : sparsity_(sparsity), nzRatio_(nzRatio), numbers_(std::move(numbers)) {}
  SparsityParams sparsity_;
  double nzRatio_;
  std::vector<std::size_t> numbers_; // in the order of the arguments
};
} // namespace dynamic

namespace static_ {
class MatMulParams {
public:
  static MatMulParams createForSparseDense(std::size_t groups, std::size_t m, std::size_t k, std::size_t n) {
    return MatMulParams(groups, m, k, n, false);
  }
  static MatMulParams createForDenseSparse(std::size_t groups, std::size_t n, std::size_t k, std::size_t m) {
    return MatMulParams(groups, m, k, n, true);
  }
  std::size_t getNumGroups() const { return groups_; }
  std::size_t getM() const { return m_; }
  std::size_t getK() const { return k_; }
  std::size_t getN() const { return n_; }
  bool isTransposed() const { return transposed_; }

  openipu::Named named() const {
    if (transposed_)
      return openipu::Named::make("popsparse.static_.MatMulParams.createForDenseSparse", groups_, n_, k_, m_);
    return openipu::Named::make("popsparse.static_.MatMulParams.createForSparseDense", groups_, m_, k_, n_);
  }

private:
  MatMulParams(std::size_t groups, std::size_t m, std::size_t k, std::size_t n, bool transposed)
      : groups_(groups), m_(m), k_(k), n_(n), transposed_(transposed) {}
  std::size_t groups_, m_, k_, n_;
  bool transposed_;
};
} // namespace static_

} // namespace popsparse

#endif
