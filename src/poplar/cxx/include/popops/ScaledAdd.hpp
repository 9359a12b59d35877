// a += s * b. Part of openipu, written independently.
#ifndef openipu_popops_ScaledAdd_hpp
#define openipu_popops_ScaledAdd_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

#define OPENIPU_TAIL                                                                               \
  poplar::program::Sequence &prog, const poplar::DebugContext &context = {},                       \
      const poplar::OptionFlags &options = {}
#define OPENIPU_REST openipu::ProgramHole(), context.getPathName(), options
#define OPENIPU_SCALED(function, scale)                                                            \
  inline void function(poplar::Graph &graph, poplar::Tensor a, poplar::Tensor b, scale s,          \
                       OPENIPU_TAIL) {                                                             \
    openipu::call("popops", #function, prog, context, graph, a, b, s, OPENIPU_REST);               \
  }                                                                                                \
  inline void function(poplar::Graph &graph, poplar::Tensor a, scale r, poplar::Tensor b, scale s, \
                       OPENIPU_TAIL) {                                                             \
    openipu::call("popops", #function, prog, context, graph, a, r, b, s, OPENIPU_REST);            \
  }
OPENIPU_SCALED(scaledAddTo, float)
OPENIPU_SCALED(scaledAddTo, poplar::Tensor)
OPENIPU_SCALED(scaledSubtractFrom, float)
OPENIPU_SCALED(scaledSubtractFrom, poplar::Tensor)
#undef OPENIPU_SCALED
#undef OPENIPU_TAIL
#undef OPENIPU_REST

} // namespace popops

#endif
