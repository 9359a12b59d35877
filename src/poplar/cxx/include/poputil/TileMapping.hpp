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

} // namespace poputil

#endif
