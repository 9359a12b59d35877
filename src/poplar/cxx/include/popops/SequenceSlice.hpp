// Parts of sequences of different lengths. Part of openipu, written independently.
#ifndef openipu_popops_SequenceSlice_hpp
#define openipu_popops_SequenceSlice_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline void sequenceSlice(poplar::Graph &graph, const poplar::Tensor &tIn, const poplar::Tensor &tOut,
                          const poplar::Tensor &tN, const poplar::Tensor &tInOffset, const poplar::Tensor &tOutOffset,
                          bool zeroUnused, poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  openipu::call("popops", "sequenceSlice", prog, context, graph, tIn, tOut, tN, tInOffset, tOutOffset, zeroUnused,
                openipu::ProgramHole(), context.getPathName());
}

} // namespace popops

#endif
