// B-splines at points. Part of openipu, written independently.
#ifndef openipu_popops_SplineBasis_hpp
#define openipu_popops_SplineBasis_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline void splineBasis(poplar::Graph &graph, const poplar::Tensor &pseudo, const poplar::Tensor &kernelSize,
                        const poplar::Tensor &isOpenSpline, const poplar::Tensor &basis,
                        const poplar::Tensor &weightIndex, unsigned degree, poplar::program::Sequence &prog,
                        const poplar::DebugContext &context = {}) {
  openipu::call("popops", "splineBasis", prog, context, graph, pseudo, kernelSize, isOpenSpline, basis, weightIndex,
                degree, openipu::ProgramHole(), context.getPathName());
}

} // namespace popops

#endif
