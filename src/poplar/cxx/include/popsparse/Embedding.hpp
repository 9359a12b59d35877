// Rows of a sparse matrix. Part of openipu, written independently.
#ifndef openipu_popsparse_Embedding_hpp
#define openipu_popsparse_Embedding_hpp

#include <openipu/sparse.hpp>
#include <popsparse/FullyConnectedParams.hpp>

namespace popsparse {
namespace dynamic {

inline poplar::Tensor createIndicesTensor(poplar::Graph &graph, const FullyConnectedParams &params,
                                          std::size_t numIndices, const poplar::OptionFlags &options = {},
                                          const poplar::DebugContext &context = {}) {
  return openipu::callWith("popsparse.dynamic", "createIndicesTensor", nullptr, nullptr, context, graph, params.named(),
                           numIndices, context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor createSliceTensor(poplar::Graph &graph, const poplar::Type &type,
                                        const FullyConnectedParams &params, std::size_t numIndices,
                                        OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::callWith("popsparse.dynamic", "createSliceTensor", nullptr, nullptr, context, graph, type,
                           params.named(), numIndices, context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor embeddingSlice(poplar::Graph &graph, const SparseTensor &t, const poplar::Tensor &indices,
                                     poplar::program::Sequence &prog, const FullyConnectedParams &params,
                                     OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::call("popsparse.dynamic", "embeddingSlice", prog, context, graph, t.named(), indices,
                       openipu::ProgramHole(), params.named(), context.getPathName(), options)
      .tensor();
}
inline void embeddingUpdateAdd(poplar::Graph &graph, const SparseTensor &t, const poplar::Tensor &slices,
                               const poplar::Tensor &indices, const poplar::Tensor &scale,
                               poplar::program::Sequence &prog, const FullyConnectedParams &params,
                               OPENIPU_SPARSE_END) {
  (void)cache;
  openipu::call("popsparse.dynamic", "embeddingUpdateAdd", prog, context, graph, t.named(), slices, indices, scale,
                openipu::ProgramHole(), params.named(), context.getPathName(), options);
}

} // namespace dynamic
} // namespace popsparse

#endif
