// Is there anything that is no number? Part of openipu, written independently.
#ifndef openipu_popops_NaN_hpp
#define openipu_popops_NaN_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor hasNaN(poplar::Graph &graph, const poplar::Tensor &src, poplar::program::Sequence &prog,
                             const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "hasNaN", prog, context, graph, src, openipu::ProgramHole(), context.getPathName())
      .tensor();
}
inline poplar::Tensor hasNaNOrInf(poplar::Graph &graph, const poplar::Tensor &src, poplar::program::Sequence &prog,
                                  const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "hasNaNOrInf", prog, context, graph, src, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}

} // namespace popops

#endif
