// Conversions of element types. Part of openipu, written independently.
#ifndef openipu_popops_Cast_hpp
#define openipu_popops_Cast_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor cast(poplar::Graph &graph, const poplar::Tensor &from, const poplar::Type &type,
                           poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "cast", prog, context, graph, from, type, openipu::ProgramHole(), context.getPathName())
      .tensor();
}
inline poplar::program::Program cast(poplar::Graph &graph, poplar::Tensor from, poplar::Tensor to,
                                     const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "cast", nullptr, nullptr, context, graph, from, to, context.getPathName()).program();
}

} // namespace popops

#endif
