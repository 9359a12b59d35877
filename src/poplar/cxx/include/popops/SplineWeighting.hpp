// Features weighted by B-splines. Part of openipu, written independently.
#ifndef openipu_popops_SplineWeighting_hpp
#define openipu_popops_SplineWeighting_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor splineWeighting(poplar::Graph &graph, const poplar::Tensor &input, const poplar::Tensor &weight,
                                      const poplar::Tensor &basis, const poplar::Tensor &weightIndex,
                                      poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "splineWeighting", prog, context, graph, input, weight, basis, weightIndex,
                       openipu::ProgramHole(), context.getPathName())
      .tensor();
}

} // namespace popops

#endif
