// Tensors of zeros. Part of openipu, written independently.
#ifndef openipu_popops_Zero_hpp
#define openipu_popops_Zero_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline void zero(poplar::Graph &graph, const poplar::Tensor &t, poplar::program::Sequence &prog,
                 const poplar::DebugContext &context = {}) {
  openipu::call("popops", "zero", prog, context, graph, t, openipu::ProgramHole(), context.getPathName());
}

} // namespace popops

#endif
