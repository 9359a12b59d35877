// Images of three channels become normalised ones of four. Part of openipu, written independently.
#ifndef openipu_popops_NormaliseImage_hpp
#define openipu_popops_NormaliseImage_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor createNormaliseImageInput(poplar::Graph &graph, const poplar::Type &type,
                                                const poplar::ArrayRef<std::size_t> shape,
                                                const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createNormaliseImageInput", nullptr, nullptr, context, graph, type,
                           openipu::numbers(shape), context.getPathName())
      .tensor();
}
inline poplar::Tensor normaliseImage(poplar::Graph &graph, poplar::program::Sequence &prog, poplar::Tensor in,
                                     float inScale, poplar::Tensor offsets, poplar::Tensor scales,
                                     const poplar::DebugContext &context = {}) {
  return openipu::call("popops", "normaliseImage", prog, context, graph, openipu::ProgramHole(), in, inScale, offsets,
                       scales, context.getPathName())
      .tensor();
}

} // namespace popops

#endif
