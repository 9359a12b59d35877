// Parameters of norms. Part of openipu, written independently.
#ifndef openipu_popnn_Norms_hpp
#define openipu_popnn_Norms_hpp

#include <openipu/library.hpp>
#include <popnn/codelets.hpp>

namespace popnn {

inline poplar::Tensor createNormGamma(poplar::Graph &graph, const poplar::Tensor &acts,
                                      const poplar::DebugContext &context = {}) {
  return openipu::callWith("popnn", "createNormGamma", nullptr, nullptr, context, graph, acts, context.getPathName())
      .tensor();
}
inline poplar::Tensor createNormBeta(poplar::Graph &graph, const poplar::Tensor &acts,
                                     const poplar::DebugContext &context = {}) {
  return openipu::callWith("popnn", "createNormBeta", nullptr, nullptr, context, graph, acts, context.getPathName())
      .tensor();
}
inline openipu::TensorPair createNormParams(poplar::Graph &graph, const poplar::Tensor &acts,
                                            const poplar::DebugContext &context = {}) {
  return openipu::makePair(
      openipu::callWith("popnn", "createNormParams", nullptr, nullptr, context, graph, acts, context.getPathName()));
}

} // namespace popnn

#endif
