// One less, in one element of each row. Part of openipu, written independently.
#ifndef openipu_popops_UpdateScalarInRows_hpp
#define openipu_popops_UpdateScalarInRows_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline void updateScalarInRows(poplar::Graph &graph, const poplar::Tensor &params, const poplar::Tensor &indices,
                               poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  openipu::call("popops", "updateScalarInRows", prog, context, graph, params, indices, openipu::ProgramHole(),
                context.getPathName());
}

} // namespace popops

#endif
