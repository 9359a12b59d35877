// Conversions of element types. Part of openipu, written independently.
#ifndef openipu_popops_Cast_hpp
#define openipu_popops_Cast_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor cast(poplar::Graph &graph, const poplar::Tensor &from, const poplar::Type &type,
                           poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "cast", prog, context, graph, from, type, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}
inline void castWithOutput(poplar::Graph &graph, const poplar::Tensor &from, const poplar::Tensor &to,
                           poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  openipu::call("popops", "castWithOutput", prog, context, graph, from, to, openipu::ProgramHole(),
                context.getPathName());
}
inline poplar::program::Program cast(poplar::Graph &graph, poplar::Tensor from, poplar::Tensor to,
                                     const poplar::DebugContext &context = {}) {
  poplar::program::Sequence prog;
  castWithOutput(graph, from, to, prog, context);
  return prog;
}

} // namespace popops

#endif
