// Evenly spaced numbers, and grids of them. Part of openipu, written independently.
#ifndef openipu_poplin_MeshGrid_hpp
#define openipu_poplin_MeshGrid_hpp

#include <openipu/library.hpp>

#include <vector>

namespace poplin {

inline poplar::Tensor linspace(poplar::Graph &graph, const poplar::Type &type, float left, float right,
                               std::size_t count, const poplar::DebugContext &context = {}) {
  return openipu::callWith("poplin", "linspace", nullptr, nullptr, context, graph, type, left, right, count,
                           context.getPathName())
      .tensor();
}
inline std::vector<poplar::Tensor> meshgrid2d(poplar::Graph &graph, poplar::Tensor x, poplar::Tensor y) {
  return openipu::callWith("poplin", "meshgrid2d", nullptr, nullptr, {}, graph, x, y).tensors();
}

} // namespace poplin

#endif
