// Sorting. Part of openipu, written independently.
#ifndef openipu_popops_Sort_hpp
#define openipu_popops_Sort_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor sort(poplar::Graph &graph, const poplar::Tensor &t, unsigned dim, poplar::program::Sequence &prog,
                           const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "sort", prog, context, graph, t, dim, openipu::ProgramHole(), context.getPathName())
      .tensor();
}
inline void sortInPlace(poplar::Graph &graph, const poplar::Tensor &t, unsigned dim, poplar::program::Sequence &prog,
                        const poplar::DebugContext &context = {}) {
  openipu::call("popops", "sortInPlace", prog, context, graph, t, dim, openipu::ProgramHole(), context.getPathName());
}
inline poplar::Tensor sortKeyValue(poplar::Graph &graph, const poplar::Tensor &keys, const poplar::Tensor &values,
                                   unsigned dim, poplar::program::Sequence &prog,
                                   const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "sortKeyValue", prog, context, graph, keys, values, dim, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}

inline void sortKeyValueInPlace(poplar::Graph &graph, const poplar::Tensor &keys, const poplar::Tensor &values,
                                unsigned dim, poplar::program::Sequence &prog,
                                const poplar::DebugContext &context = {}) {
  openipu::call("popops", "sortKeyValueInPlace", prog, context, graph, keys, values, dim, openipu::ProgramHole(),
                context.getPathName());
}

} // namespace popops

#endif
