// Rows with one 1. Part of openipu, written independently.
#ifndef openipu_popops_EncodeOneHot_hpp
#define openipu_popops_EncodeOneHot_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline void encodeOneHot(poplar::Graph &graph, const poplar::Tensor &indices, const poplar::Tensor &encoded,
                         poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  openipu::call("popops", "encodeOneHot", prog, context, graph, indices, encoded, openipu::ProgramHole());
}
inline void encodeOneHot(poplar::Graph &graph, const poplar::Tensor &indices, const poplar::Tensor &encoded,
                         poplar::program::Sequence &prog, const poplar::Tensor &on, const poplar::Tensor &off,
                         const poplar::DebugContext &context = {}) {
  openipu::call("popops", "encodeOneHot", prog, context, graph, indices, encoded, openipu::ProgramHole(), on, off);
}

} // namespace popops

#endif
