// How many elements lie between levels. Part of openipu, written independently.
#ifndef openipu_popops_GatherStatistics_hpp
#define openipu_popops_GatherStatistics_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

namespace popops {

inline poplar::Tensor histogram(poplar::Graph &graph, const poplar::Tensor &input, const poplar::Tensor &levels,
                                bool absoluteOfInput, poplar::program::Sequence &prog,
                                const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {
  (void)options;
  return openipu::call("popops", "histogram", prog, context, graph, input, levels, absoluteOfInput,
                       openipu::ProgramHole())
      .tensor();
}
inline void histogram(poplar::Graph &graph, const poplar::Tensor &input, poplar::Tensor &output, bool updateOutput,
                      const poplar::Tensor &levels, bool absoluteOfInput, poplar::program::Sequence &prog,
                      const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {
  (void)options;
  openipu::call("popops", "histogram", prog, context, graph, input, output, updateOutput, levels, absoluteOfInput,
                openipu::ProgramHole());
}

} // namespace popops

#endif
