// From a matrix on the host to what a sparse tensor holds, and back. Part of openipu, written independently.
#ifndef openipu_popsparse_SparsePartitioner_hpp
#define openipu_popsparse_SparsePartitioner_hpp

#include <popsparse/FullyConnectedParams.hpp>
#include <popsparse/MatMulParams.hpp>
#include <popsparse/PlanningCache.hpp>
#include <popsparse/SparseStorageFormats.hpp>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace popsparse {
namespace dynamic {

template <typename T> struct SparsityDataImpl {
  std::vector<std::size_t> metaInfo; // for a tensor of UNSIGNED_INT
  std::vector<T> nzValues;
};

template <typename T> class Partitioner {
public:
  Partitioner(const FullyConnectedParams &params, const poplar::Type &type, const poplar::Target &,
              const poplar::OptionFlags &options, PlanningCache * = nullptr, std::string = "")
      : params_(params.named()), block_(params.getSparsityParams().blockDimensions), type_(type), options_(options) {}
  Partitioner(const MatMulParams &params, const poplar::Type &type, const poplar::Target &,
              const poplar::OptionFlags &options, PlanningCache * = nullptr, std::string = "")
      : params_(params.named()), block_(params.getSparsityParams().blockDimensions), type_(type), options_(options) {}

  SparsityDataImpl<T> createSparsityDataImpl(const COOMatrix<T> &matrix) const { return divide(matrix.named()); }
  SparsityDataImpl<T> createSparsityDataImpl(const CSRMatrix<T> &matrix) const { return divide(matrix.named()); }
  SparsityDataImpl<T> createSparsityDataImpl(const CSCMatrix<T> &matrix) const { return divide(matrix.named()); }
  COOMatrix<T> sparsityDataImplToCOOMatrix(const SparsityDataImpl<T> &data) const {
    return collect<COOMatrix<T>>("COO", data);
  }
  CSRMatrix<T> sparsityDataImplToCSRMatrix(const SparsityDataImpl<T> &data) const {
    return collect<CSRMatrix<T>>("CSR", data);
  }
  CSCMatrix<T> sparsityDataImplToCSCMatrix(const SparsityDataImpl<T> &data) const {
    return collect<CSCMatrix<T>>("CSC", data);
  }

private:
  SparsityDataImpl<T> divide(const openipu::Named &matrix) const {
    const openipu::Value made =
        openipu::callWith("popsparse._flat", "partition", nullptr, nullptr, {}, params_, type_, options_, matrix)
            .result;
    return {std::vector<std::size_t>(made.at(0).numbers.begin(), made.at(0).numbers.end()), read(made.at(1).text)};
  }
  template <typename Matrix> Matrix collect(const char *kind, const SparsityDataImpl<T> &data) const {
    const openipu::Value made = openipu::callWith("popsparse._flat", "collect", nullptr, nullptr, {}, params_, type_,
                                                  options_, kind, openipu::numbers(data.metaInfo),
                                                  std::vector<double>(data.nzValues.begin(), data.nzValues.end()))
                                    .result;
    const auto sizes = [&made](std::size_t place) {
      return std::vector<std::size_t>(made.at(place).numbers.begin(), made.at(place).numbers.end());
    };
    return Matrix(static_cast<std::size_t>(made.at(0).integer), static_cast<std::size_t>(made.at(1).integer),
                  read(made.at(2).text), sizes(3), sizes(4), block_);
  }
  static std::vector<T> read(const std::string &bytes) {
    std::vector<double> numbers(bytes.size() / sizeof(double));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
    return std::vector<T>(numbers.begin(), numbers.end());
  }

  openipu::Named params_;
  std::array<std::size_t, 2> block_;
  poplar::Type type_;
  poplar::OptionFlags options_;
};

} // namespace dynamic
} // namespace popsparse

#endif
