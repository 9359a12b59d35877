// One element of each row. Part of openipu, written independently.
#ifndef openipu_popops_SelectScalarFromRows_hpp
#define openipu_popops_SelectScalarFromRows_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor selectScalarFromRows(poplar::Graph &graph, const poplar::Tensor &params,
                                           const poplar::Tensor &indices, poplar::program::Sequence &prog,
                                           const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "selectScalarFromRows", prog, context, graph, params, indices, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}

} // namespace popops

#endif
