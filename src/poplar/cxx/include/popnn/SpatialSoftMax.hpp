// The expected place of the largest activation. Part of openipu, written independently.
#ifndef openipu_popnn_SpatialSoftMax_hpp
#define openipu_popnn_SpatialSoftMax_hpp

#include <openipu/library.hpp>
#include <popnn/codelets.hpp>

#include <utility>

namespace popnn {

inline std::pair<poplar::Tensor, poplar::Tensor> spatialSoftMax2D(poplar::Graph &graph,
                                                                  poplar::program::Sequence &prog,
                                                                  const poplar::Tensor &fields, float temperature,
                                                                  bool disableSoftmax = false,
                                                                  const poplar::DebugContext &context = {}) {
  const auto made = openipu::call("popnn", "spatialSoftMax2D", prog, context, graph, openipu::ProgramHole(), fields,
                                  temperature, disableSoftmax, context.getPathName())
                        .tensors();
  return {made.at(0), made.at(1)};
}

} // namespace popnn

#endif
