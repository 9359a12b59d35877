// Entries by index. Part of openipu, written independently.
#ifndef openipu_popops_Gather_hpp
#define openipu_popops_Gather_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

struct GatherParams {};

inline poplar::Tensor gather(poplar::Graph &graph, const poplar::Tensor &input, const poplar::Tensor &indices,
                             unsigned axis, poplar::program::Sequence &prog, GatherParams = {},
                             const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "gather", prog, context, graph, input, indices, axis, openipu::ProgramHole(), nullptr,
                       context.getPathName())
      .tensor();
}

} // namespace popops

#endif
