// Is a whole tensor true? Part of openipu, written independently.
#ifndef openipu_popops_AllTrue_hpp
#define openipu_popops_AllTrue_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor allTrue(poplar::Graph &graph, poplar::Tensor a, poplar::program::Sequence &prog,
                              const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "allTrue", prog, context, graph, a, openipu::ProgramHole(), context.getPathName())
      .tensor();
}

} // namespace popops

#endif
