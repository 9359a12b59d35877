// Entries by index, and slices at many places. Part of openipu, written independently.
#ifndef openipu_popops_Gather_hpp
#define openipu_popops_Gather_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

#include <vector>

namespace popops {

struct GatherParams {
  std::size_t maxElementsPerTile = 65535; // without effect: tensors are spread evenly
  GatherParams() {}
  GatherParams(std::size_t most) : maxElementsPerTile(most) {}
};

inline poplar::Tensor createGatherInput(poplar::Graph &graph, const poplar::Type &type,
                                        const std::vector<std::size_t> &shape, unsigned axis, GatherParams = {},
                                        const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createGatherInput", nullptr, nullptr, context, graph, type,
                           openipu::numbers(shape), axis, context.getPathName())
      .tensor();
}
inline poplar::Tensor createGatherInput(poplar::Graph &graph, const poplar::Type &type,
                                        const std::vector<std::size_t> &shape,
                                        const std::vector<std::size_t> &sliceSizes, std::vector<unsigned> startIndexMap,
                                        const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createGatherInput", nullptr, nullptr, context, graph, type,
                           openipu::numbers(shape), openipu::numbers(sliceSizes), openipu::numbers(startIndexMap),
                           context.getPathName())
      .tensor();
}
inline poplar::Tensor gather(poplar::Graph &graph, const poplar::Tensor &input, const poplar::Tensor &indices,
                             unsigned axis, poplar::program::Sequence &prog, GatherParams = {},
                             const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {
  (void)options;
  return openipu::call("popops", "gather", prog, context, graph, input, indices, axis, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}
inline poplar::Tensor gather(poplar::Graph &graph, const poplar::Tensor &input, const poplar::Tensor &indices,
                             std::size_t indexVectorDim, const std::vector<std::size_t> &offsetDims,
                             const std::vector<std::size_t> &sliceSizes,
                             const std::vector<std::size_t> &collapsedSliceDims,
                             const std::vector<unsigned> &startIndexMap, poplar::program::Sequence &prog,
                             const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {
  (void)options;
  return openipu::call("popops", "gather", prog, context, graph, input, indices, indexVectorDim,
                       openipu::numbers(offsetDims), openipu::numbers(sliceSizes), openipu::numbers(collapsedSliceDims),
                       openipu::numbers(startIndexMap), openipu::ProgramHole(), context.getPathName())
      .tensor();
}

} // namespace popops

#endif
