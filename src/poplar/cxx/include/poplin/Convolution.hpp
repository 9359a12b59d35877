// Convolutions. Part of openipu, written independently.
#ifndef openipu_poplin_Convolution_hpp
#define openipu_poplin_Convolution_hpp

#include <poplin/ConvParams.hpp>
#include <poplin/MatMul.hpp>

namespace poplin {

#define OPENIPU_END \
  const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr
#define OPENIPU_OPERAND(function)                                                                   \
  inline poplar::Tensor function(poplar::Graph &graph, const ConvParams &params, OPENIPU_END) {     \
    (void)cache;                                                                                    \
    return openipu::callWith("poplin", #function, nullptr, nullptr, context, graph, params.named(), \
                             context.getPathName(), options)                                        \
        .tensor();                                                                                  \
  }
OPENIPU_OPERAND(createInput)
OPENIPU_OPERAND(createWeights)
OPENIPU_OPERAND(createConvOutput)
#undef OPENIPU_OPERAND

inline poplar::Tensor createBiases(poplar::Graph &graph, const poplar::Tensor &activations, OPENIPU_END) {
  (void)cache;
  return openipu::callWith("poplin", "createBiases", nullptr, nullptr, context, graph, activations,
                           context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor convolution(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Tensor &weights,
                                  const ConvParams &params, bool transposeAndFlipWeights,
                                  poplar::program::Sequence &prog, OPENIPU_END) {
  (void)cache;
  return openipu::call("poplin", "convolution", prog, context, graph, in, weights, params.named(),
                       transposeAndFlipWeights, openipu::ProgramHole(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor calculateWeightDeltas(poplar::Graph &graph, const poplar::Tensor &zDeltas,
                                            const poplar::Tensor &activations, const ConvParams &params,
                                            poplar::program::Sequence &prog, OPENIPU_END) {
  (void)cache;
  return openipu::call("poplin", "calculateWeightDeltas", prog, context, graph, zDeltas, activations, params.named(),
                       openipu::ProgramHole(), context.getPathName(), options)
      .tensor();
}
inline void addBias(poplar::Graph &graph, const poplar::Tensor &activations, const poplar::Tensor &biases,
                    poplar::program::Sequence &prog, const poplar::DebugContext &context = {},
                    const poplar::OptionFlags &options = {}) {
  openipu::call("poplin", "addBias", prog, context, graph, activations, biases, openipu::ProgramHole(),
                context.getPathName(), options);
}
inline void convolutionWithOutput(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Tensor &weights,
                                  const poplar::Tensor &out, const ConvParams &params, bool transposeAndFlipWeights,
                                  poplar::program::Sequence &prog, OPENIPU_END) {
  (void)cache;
  openipu::call("poplin", "convolutionWithOutput", prog, context, graph, in, weights, out, params.named(),
                transposeAndFlipWeights, openipu::ProgramHole(), context.getPathName(), options);
}
inline void weightsTransposeChansFlipXY(poplar::Graph &graph, const poplar::Tensor &weightsIn,
                                        const poplar::Tensor &weightsOut, poplar::program::Sequence &prog,
                                        const poplar::DebugContext &context = {}) {
  openipu::call("poplin", "weightsTransposeChansFlipXY", prog, context, graph, weightsIn, weightsOut,
                openipu::ProgramHole(), context.getPathName());
}
#define OPENIPU_SCALED(scale)                                                                                          \
  inline void convolutionWeightUpdate(poplar::Graph &graph, const poplar::Tensor &zDeltas,                             \
                                      const poplar::Tensor &weights, const poplar::Tensor &activations,                \
                                      ConvParams params, scale s, poplar::program::Sequence &prog, OPENIPU_END) {      \
    (void)options, (void)cache;                                                                                        \
    openipu::call("poplin", "convolutionWeightUpdate", prog, context, graph, zDeltas, weights, activations,            \
                  params.named(), s, openipu::ProgramHole(), context.getPathName());                                   \
  }                                                                                                                    \
  inline void convolutionBiasUpdate(poplar::Graph &graph, const poplar::Tensor &zDeltas, const poplar::Tensor &biases, \
                                    scale s, const poplar::OptionFlags &, poplar::program::Sequence &prog,             \
                                    const poplar::DebugContext &context = {}) {                                        \
    openipu::call("poplin", "convolutionBiasUpdate", prog, context, graph, zDeltas, biases, s, openipu::ProgramHole(), \
                  context.getPathName());                                                                              \
  }
OPENIPU_SCALED(const poplar::Tensor &)
OPENIPU_SCALED(float)
#undef OPENIPU_SCALED
#undef OPENIPU_END

using ConvPlanParams = std::tuple<const poplar::Target *, const ConvParams, const poplar::OptionFlags *>;
template <typename Convs> void preplanConvolutions(const Convs &, PlanningCache &) {}

} // namespace poplin

#endif
