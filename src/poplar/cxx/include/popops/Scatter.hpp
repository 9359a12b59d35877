// Windows that are written at many places. Part of openipu, written independently.
#ifndef openipu_popops_Scatter_hpp
#define openipu_popops_Scatter_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

#include <vector>

namespace popops {

inline void scatter(poplar::Graph &graph, const poplar::Tensor &operand, const poplar::Tensor &indices,
                    const poplar::Tensor &updates, std::size_t indexVectorDim, std::vector<unsigned> updateWindowDims,
                    std::vector<std::size_t> insertWindowDims, std::vector<unsigned> scatterDimsToOperandDims,
                    poplar::program::Sequence &prog, const poplar::DebugContext &context = {},
                    const poplar::OptionFlags &options = {}) {
  (void)options;
  openipu::call("popops", "scatter", prog, context, graph, operand, indices, updates, indexVectorDim,
                openipu::numbers(updateWindowDims), openipu::numbers(insertWindowDims),
                openipu::numbers(scatterDimsToOperandDims), openipu::ProgramHole(), context.getPathName());
}

} // namespace popops

#endif
