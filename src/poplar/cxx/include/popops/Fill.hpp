// Tensors of one value. Part of openipu, written independently.
#ifndef openipu_popops_Fill_hpp
#define openipu_popops_Fill_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

template <typename T>
inline void fill(poplar::Graph &graph, const poplar::Tensor &t, poplar::program::Sequence &prog, T value,
                 const poplar::DebugContext &context = {}) {
  openipu::call("popops", "fill", prog, context, graph, t, openipu::ProgramHole(), value, context.getPathName());
}

} // namespace popops

#endif
