// Spreads tensors over tiles. Part of openipu, written independently.
#ifndef openipu_poputil_TileMapping_hpp
#define openipu_poputil_TileMapping_hpp

#include <openipu/library.hpp>

#include <vector>

namespace poputil {

inline void mapTensorLinearly(poplar::Graph &graph, const poplar::Tensor &t) {
  openipu::callWith("poputil", "mapTensorLinearly", nullptr, nullptr, {}, graph, t);
}
inline void mapTensorLinearly(poplar::Graph &graph, const poplar::Tensor &t, unsigned minElementsPerTile,
                              unsigned grainSize) {
  openipu::callWith("poputil", "mapTensorLinearly", nullptr, nullptr, {}, graph, t, minElementsPerTile, grainSize);
}
// As it would be spread: a clone is mapped, and asked where it lies.
inline poplar::Graph::TileToTensorMapping calcLinearTileMapping(poplar::Graph &graph, const poplar::Tensor &t) {
  const poplar::Tensor like = graph.addVariable(t.elementType(), t.shape(), "calcLinearTileMapping");
  mapTensorLinearly(graph, like);
  return graph.getTileMapping(like);
}

// From a tile on.
inline void mapTensorLinearlyWithOffset(poplar::Graph &graph, const poplar::Tensor &t, unsigned minElementsPerTile,
                                        unsigned grainSize, unsigned offset, bool ascendingOrder = true) {
  openipu::callWith("poputil", "mapTensorLinearlyWithOffset", nullptr, nullptr, {}, graph, t, minElementsPerTile,
                    grainSize, offset, ascendingOrder);
}
inline void mapTensorLinearlyWithOffset(poplar::Graph &graph, const poplar::Tensor &t, unsigned offset = 0,
                                        bool ascendingOrder = true) {
  openipu::callWith("poputil", "mapTensorLinearlyWithOffset", nullptr, nullptr, {}, graph, t, offset, ascendingOrder);
}
inline unsigned getTileImbalance(const poplar::Graph &graph, const poplar::Tensor &t, unsigned minElementsPerTile = 0,
                                 unsigned grainSize = 1) {
  return static_cast<unsigned>(
      openipu::callWith("poputil", "getTileImbalance", nullptr, nullptr, {}, graph, t, minElementsPerTile, grainSize)
          .result.integer);
}
#define OPENIPU_ASK(function)                                                                                      \
  inline bool function(const poplar::Graph &graph, const poplar::Tensor &t, unsigned dimension) {                  \
    return openipu::callWith("poputil", #function, nullptr, nullptr, {}, graph, t, dimension).result.integer != 0; \
  }
OPENIPU_ASK(dimIsSplitOverTiles)
OPENIPU_ASK(dimIsSplitOverIPUs)
#undef OPENIPU_ASK
inline poplar::Tensor createBroadcastOperand(poplar::Graph &graph, const poplar::Tensor &full, const poplar::Type &type,
                                             unsigned dim, bool ditherMapping = false,
                                             const poplar::DebugContext &context = {}) {
  return openipu::callWith("poputil", "createBroadcastOperand", nullptr, nullptr, context, graph, full, type, dim,
                           ditherMapping, context.getPathName())
      .tensor();
}
// A variable like a tensor, at the same places of another IPU.
inline poplar::Tensor cloneToIpu(poplar::Graph &graph, const poplar::Tensor &t, unsigned ipu,
                                 const poplar::DebugContext &context = {},
                                 poplar::TensorCloneMethod = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES) {
  return openipu::callWith("poputil", "createIpuCopy", nullptr, nullptr, context, graph, t, ipu, context.getPathName())
      .tensor();
}
// The same; the copy itself is left to the caller.
inline poplar::Tensor createIpuCopy(poplar::Graph &graph, const poplar::Tensor &t, unsigned ipu, poplar::Tensor &from,
                                    poplar::Tensor &to, const poplar::DebugContext &context = {},
                                    poplar::TensorCloneMethod = poplar::TensorCloneMethod::PRESERVE_ORDER_AND_ALIASES) {
  from = t;
  to = cloneToIpu(graph, t, ipu, context);
  return to;
}
inline poplar::Tensor copyToIpu(poplar::Graph &graph, const poplar::Tensor &t, poplar::program::Sequence &prog,
                                unsigned ipu, const poplar::DebugContext &context = {},
                                poplar::TensorCloneMethod = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES) {
  const poplar::Tensor made = cloneToIpu(graph, t, ipu, context);
  prog.add(poplar::program::Copy(t, made, false, context));
  return made;
}

} // namespace poputil

#endif
