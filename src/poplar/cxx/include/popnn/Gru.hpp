// GRU layers. Part of openipu, written independently.
#ifndef openipu_popnn_Gru_hpp
#define openipu_popnn_Gru_hpp

#include <poplar/exceptions.hpp>
#include <poplin/MatMul.hpp>
#include <popnn/GruDef.hpp>
#include <popnn/NonLinearityDef.hpp>
#include <popnn/codelets.hpp>

#include <vector>

namespace popnn {
namespace gru {

struct GruParams {
  poplar::Type dataType;
  std::size_t batchSize, timeSteps;
  std::vector<std::size_t> layerSizes; // input, output
  bool outputFullSequence = true, calcInputGradients = true, resetAfter = false;
  NonLinearityType activation, recurrentActivation;

  GruParams(poplar::Type type, std::size_t batch, std::size_t steps, std::vector<std::size_t> sizes,
            NonLinearityType outer = NonLinearityType::TANH, NonLinearityType inner = NonLinearityType::SIGMOID)
      : dataType(type), batchSize(batch), timeSteps(steps), layerSizes(sizes), activation(outer),
        recurrentActivation(inner) {}

  openipu::Named named() const {
    if (layerSizes.size() != 2 || activation != NonLinearityType::TANH ||
        recurrentActivation != NonLinearityType::SIGMOID)
      throw poplar::poplar_error("A GRU layer here has an input and an output size, tanh and sigmoid.");
    return openipu::Named::make("popnn.gru.GruParams", dataType, batchSize, timeSteps, layerSizes[0], layerSizes[1],
                                outputFullSequence, resetAfter);
  }
};
struct GruWeights {
  poplar::Tensor inputWeights, outputWeights, biases;
  std::vector<poplar::Tensor> list() const { return {inputWeights, outputWeights, biases}; }
};

#define OPENIPU_END                                                                                \
  const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {},               \
                             poplin::PlanningCache *cache = nullptr
#define OPENIPU_UNUSED_END (void)options, (void)cache

#define OPENIPU_CREATE(function)                                                                   \
  inline poplar::Tensor function(poplar::Graph &graph, const GruParams &params, OPENIPU_END) {     \
    OPENIPU_UNUSED_END;                                                                            \
    return openipu::callWith("popnn.gru", #function, nullptr, nullptr, context, graph,             \
                             params.named(), context.getPathName())                                \
        .tensor();                                                                                 \
  }
OPENIPU_CREATE(createInput)
OPENIPU_CREATE(createInitialState)
#undef OPENIPU_CREATE

inline GruWeights createWeights(poplar::Graph &graph, const GruParams &params, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  const auto made =
      openipu::callWith("popnn._flat", "createGruWeights", nullptr, nullptr, context, graph, params.named()).tensors();
  return {made.at(0), made.at(1), made.at(2)};
}
inline poplar::Tensor gruFwd(poplar::Graph &graph, const GruParams &params, const poplar::Tensor &outputInit,
                             const poplar::Tensor &in, const GruWeights &weights, poplar::Tensor *intermediates,
                             poplar::program::Sequence &prog, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  const auto made = openipu::call("popnn._flat", "gruFwd", prog, context, graph, params.named(), outputInit, in,
                                  weights.list(), intermediates != nullptr, openipu::ProgramHole())
                        .tensors();
  if (intermediates)
    *intermediates = made.at(1);
  return made.at(0);
}
inline poplar::Tensor gruBwd(poplar::Graph &graph, const GruParams &params, poplar::program::Sequence &prog,
                             const poplar::Tensor &outputInit, const poplar::Tensor &fwdIntermediates,
                             const GruWeights &weights, const poplar::Tensor &input, const poplar::Tensor &output,
                             const poplar::Tensor &outputGrad, poplar::Tensor *inputGrad,
                             poplar::Tensor *bwdIntermediates, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  const auto made =
      openipu::call("popnn._flat", "gruBwd", prog, context, graph, params.named(), openipu::ProgramHole(), outputInit,
                    fwdIntermediates, weights.list(), input, output, outputGrad, inputGrad != nullptr)
          .tensors();
  if (bwdIntermediates)
    *bwdIntermediates = made.at(1);
  if (inputGrad)
    *inputGrad = made.at(2);
  return made.at(0);
}
inline GruWeights gruWU(poplar::Graph &graph, const GruParams &params, poplar::program::Sequence &prog,
                        const poplar::Tensor &outputInit, const poplar::Tensor &fwdIntermediates,
                        const poplar::Tensor &bwdIntermediates, const GruWeights &weights, const poplar::Tensor &input,
                        const poplar::Tensor &output, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  const auto made = openipu::call("popnn._flat", "gruWU", prog, context, graph, params.named(),
                                  openipu::ProgramHole(), outputInit, fwdIntermediates, bwdIntermediates,
                                  weights.list(), input, output)
                        .tensors();
  return {made.at(0), made.at(1), made.at(2)};
}
inline poplar::Tensor gruBwdWithWU(poplar::Graph &graph, const GruParams &params, poplar::program::Sequence &prog,
                                   const poplar::Tensor &outputInit, const poplar::Tensor &fwdIntermediates,
                                   const GruWeights &weights, const poplar::Tensor &input,
                                   const poplar::Tensor &output, const poplar::Tensor &outputGrad,
                                   poplar::Tensor *inputGrad, GruWeights &weightsGrad, OPENIPU_END) {
  poplar::Tensor between;
  const poplar::Tensor state = gruBwd(graph, params, prog, outputInit, fwdIntermediates, weights, input, output,
                                      outputGrad, inputGrad, &between, context, options, cache);
  weightsGrad = gruWU(graph, params, prog, outputInit, fwdIntermediates, between, weights, input, output, context,
                      options, cache);
  return state;
}
#undef OPENIPU_UNUSED_END
#undef OPENIPU_END

} // namespace gru
} // namespace popnn

#endif
