// 0, 1, 2, … Part of openipu, written independently.
#ifndef openipu_popops_NumericalIotas_hpp
#define openipu_popops_NumericalIotas_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

template <typename T>
inline void iota(poplar::Graph &graph, const poplar::Tensor &t, T start, poplar::program::Sequence &prog,
                 const poplar::DebugContext &context = {}) {
  openipu::call("popops", "iota", prog, context, graph, t, start, openipu::ProgramHole(), context.getPathName());
}

} // namespace popops

#endif
