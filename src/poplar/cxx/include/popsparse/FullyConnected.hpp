// Layers with sparse weights; the pattern may change from run to run. Part of openipu, written independently.
#ifndef openipu_popsparse_FullyConnected_hpp
#define openipu_popsparse_FullyConnected_hpp

#include <openipu/sparse.hpp>
#include <popsparse/FullyConnectedParams.hpp>

namespace popsparse {
namespace dynamic {

inline SparseTensor createFullyConnectedWeights(poplar::Graph &graph, const poplar::Type &type,
                                                const FullyConnectedParams &params, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::makeSparse("dynamic", "createFullyConnectedWeights", graph, context, type, params.named(), options);
}
inline poplar::Tensor createFullyConnectedInput(poplar::Graph &graph, const poplar::Type &type,
                                                const FullyConnectedParams &params, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::callWith("popsparse.dynamic", "createFullyConnectedInput", nullptr, nullptr, context, graph, type,
                           params.named(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor fullyConnectedFwd(poplar::Graph &graph, const SparseTensor &weights,
                                        const poplar::Tensor &activations, const FullyConnectedParams &params,
                                        poplar::program::Sequence &prog, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::call("popsparse.dynamic", "fullyConnectedFwd", prog, context, graph, weights.named(), activations,
                       params.named(), openipu::ProgramHole(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor fullyConnectedGradA(poplar::Graph &graph, const SparseTensor &weights,
                                          const poplar::Tensor &gradients, const FullyConnectedParams &params,
                                          poplar::program::Sequence &prog, OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::call("popsparse.dynamic", "fullyConnectedGradA", prog, context, graph, weights.named(), gradients,
                       params.named(), openipu::ProgramHole(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor fullyConnectedSparseGradW(poplar::Graph &graph, const poplar::Tensor sparsityMetaInfo,
                                                const poplar::Tensor &gradA, const poplar::Tensor &activations,
                                                const FullyConnectedParams &params, poplar::program::Sequence &prog,
                                                OPENIPU_SPARSE_END) {
  (void)cache;
  return openipu::call("popsparse.dynamic", "fullyConnectedSparseGradW", prog, context, graph, sparsityMetaInfo, gradA,
                       activations, params.named(), openipu::ProgramHole(), context.getPathName(), options)
      .tensor();
}

} // namespace dynamic
} // namespace popsparse

#endif
