// Products with a sparse matrix. Results and prices are those of the dense product. Part of openipu, written
// independently.
#ifndef openipu_popsparse_MatMul_hpp
#define openipu_popsparse_MatMul_hpp

#include <openipu/sparse.hpp>
#include <popsparse/MatMulParams.hpp>
#include <popsparse/SparseStorageFormats.hpp>

namespace popsparse {

namespace dynamic {
inline SparseTensor createSparseDenseMatMulLHS(poplar::Graph &graph, const poplar::Type &type,
                                               const MatMulParams &params, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::makeSparse("dynamic", "createSparseDenseMatMulLHS", graph, context, type, params.named(), options);
}
inline poplar::Tensor createSparseDenseMatMulRHS(poplar::Graph &graph, const poplar::Type &type,
                                                 const MatMulParams &params, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::callWith("popsparse.dynamic", "createSparseDenseMatMulRHS", nullptr, nullptr, context, graph, type,
                           params.named(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor sparseDenseMatMul(poplar::Graph &graph, const SparseTensor &lhs, const poplar::Tensor &rhs,
                                        poplar::program::Sequence &prog, bool transposeLHS = false,
                                        bool transposeRHS = false, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::call("popsparse.dynamic", "sparseDenseMatMul", prog, context, graph, lhs.named(), rhs,
                       openipu::ProgramHole(), transposeLHS, transposeRHS, context.getPathName(), options)
      .tensor();
}
} // namespace dynamic

namespace static_ {
template <typename T>
SparseTensor createSparseDenseMatMulLHS(poplar::Graph &graph, const poplar::Type &type, const MatMulParams &params,
                                        const CSRMatrix<T> &csrLHS, OPENIPU_SPARSE_END) {
  (void)cache;
  return SparseTensor(openipu::makeSparse("static_", "createSparseDenseMatMulLHS", graph, context, type, params.named(),
                                          csrLHS.named(), options));
}
template <typename T>
SparseTensor createDenseSparseMatMulRHS(poplar::Graph &graph, const poplar::Type &type, const MatMulParams &params,
                                        const CSRMatrix<T> &csrRHS, OPENIPU_SPARSE_END) {
  (void)cache;
  return SparseTensor(openipu::makeSparse("static_", "createDenseSparseMatMulRHS", graph, context, type, params.named(),
                                          csrRHS.named(), options));
}
template <typename T>
inline poplar::Tensor createSparseDenseMatMulRHS(poplar::Graph &graph, const poplar::Type &type,
                                                 const MatMulParams &params, const CSRMatrix<T> &csrLHS,
                                                 OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::callWith("popsparse.static_", "createSparseDenseMatMulRHS", nullptr, nullptr, context, graph, type,
                           params.named(), csrLHS.named(), context.getPathName(), options)
      .tensor();
}
template <typename T>
inline poplar::Tensor createDenseSparseMatMulLHS(poplar::Graph &graph, const poplar::Type &type,
                                                 const MatMulParams &params, const CSRMatrix<T> &csrRHS,
                                                 OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::callWith("popsparse.static_", "createDenseSparseMatMulLHS", nullptr, nullptr, context, graph, type,
                           params.named(), csrRHS.named(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor sparseDenseMatMul(poplar::Graph &graph, const SparseTensor &lhs, const poplar::Tensor &rhs,
                                        poplar::program::Sequence &prog, bool transposeLHS = false,
                                        bool transposeRHS = false, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::call("popsparse.static_", "sparseDenseMatMul", prog, context, graph, lhs.named(), rhs,
                       openipu::ProgramHole(), transposeLHS, transposeRHS, context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor denseSparseMatMul(poplar::Graph &graph, const poplar::Tensor &lhs, const SparseTensor &rhs,
                                        poplar::program::Sequence &prog, bool transposeLHS = false,
                                        bool transposeRHS = false, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::call("popsparse.static_", "denseSparseMatMul", prog, context, graph, lhs, rhs.named(),
                       openipu::ProgramHole(), transposeLHS, transposeRHS, context.getPathName(), options)
      .tensor();
}
} // namespace static_

} // namespace popsparse

#endif
