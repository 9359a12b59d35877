// LSTM layers. Part of openipu, written independently.
#ifndef openipu_popnn_Lstm_hpp
#define openipu_popnn_Lstm_hpp

#include <poplar/exceptions.hpp>
#include <poplin/MatMul.hpp>
#include <popnn/LstmDef.hpp>
#include <popnn/NonLinearityDef.hpp>
#include <popnn/codelets.hpp>

#include <utility>
#include <vector>

namespace popnn {
namespace lstm {

struct LstmParams {
  poplar::Type dataType;
  std::size_t batchSize, timeSteps;
  std::vector<std::size_t> layerSizes; // input, output
  bool outputFullSequence = true, doInputWeightCalc = true, calcInputGradients = true, preserveFinalState = false;
  NonLinearityType activation, recurrentActivation;

  LstmParams(poplar::Type type, std::size_t batch, std::size_t steps, std::vector<std::size_t> sizes,
             NonLinearityType outer = NonLinearityType::TANH, NonLinearityType inner = NonLinearityType::SIGMOID)
      : dataType(type), batchSize(batch), timeSteps(steps), layerSizes(sizes), activation(outer),
        recurrentActivation(inner) {}

  openipu::Named named() const {
    if (layerSizes.size() != 2 || activation != NonLinearityType::TANH ||
        recurrentActivation != NonLinearityType::SIGMOID || !doInputWeightCalc)
      throw poplar::poplar_error("An LSTM layer here has an input and an output size, tanh and sigmoid, and its own input weights.");
    return openipu::Named::make("popnn.lstm.LstmParams", dataType, batchSize, timeSteps, layerSizes[0], layerSizes[1],
                                outputFullSequence);
  }
};
struct LstmState {
  poplar::Tensor output, cellState;
  std::vector<poplar::Tensor> list() const { return {output, cellState}; }
};
struct LstmWeights {
  poplar::Tensor inputWeights, outputWeights, biases;
  std::vector<poplar::Tensor> list() const { return {inputWeights, outputWeights, biases}; }
};

#define OPENIPU_END                                                                                \
  const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {},               \
                             poplin::PlanningCache *cache = nullptr
#define OPENIPU_UNUSED_END (void)options, (void)cache

inline poplar::Tensor createInput(poplar::Graph &graph, const LstmParams &params, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  return openipu::callWith("popnn.lstm", "createInput", nullptr, nullptr, context, graph, params.named(),
                           context.getPathName())
      .tensor();
}
inline LstmState createInitialState(poplar::Graph &graph, const LstmParams &params, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  const auto made =
      openipu::callWith("popnn._flat", "createLstmState", nullptr, nullptr, context, graph, params.named()).tensors();
  return {made.at(0), made.at(1)};
}
inline LstmWeights createWeights(poplar::Graph &graph, const LstmParams &params, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  const auto made =
      openipu::callWith("popnn._flat", "createLstmWeights", nullptr, nullptr, context, graph, params.named()).tensors();
  return {made.at(0), made.at(1), made.at(2)};
}
inline void zeroInitialState(poplar::Graph &graph, const LstmState &state, poplar::program::Sequence &prog,
                             const poplar::DebugContext &context = {}) {
  for (const poplar::Tensor &one : state.list())
    openipu::call("popops", "zero", prog, context, graph, one, openipu::ProgramHole());
}
inline std::pair<poplar::Tensor, poplar::Tensor>
lstmFwd(poplar::Graph &graph, const LstmParams &params, const LstmState &stateInit, const poplar::Tensor &in,
        const LstmWeights &weights, poplar::Tensor *intermediates, poplar::program::Sequence &prog, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  const auto made = openipu::call("popnn._flat", "lstmFwd", prog, context, graph, params.named(), stateInit.list(), in,
                                  weights.list(), intermediates != nullptr, openipu::ProgramHole())
                        .tensors();
  if (intermediates)
    *intermediates = made.at(2);
  return {made.at(0), made.at(1)};
}
namespace detail {
inline LstmState backward(poplar::Graph &graph, const LstmParams &params, poplar::program::Sequence &prog,
                          const LstmState &stateInit, const poplar::Tensor &intermediates, const LstmWeights &weights,
                          const poplar::Tensor &input, const poplar::Tensor &output, const poplar::Tensor &outputGrad,
                          const std::vector<poplar::Tensor> &ends, poplar::Tensor *inputGrad,
                          poplar::Tensor *bwdIntermediates, const poplar::DebugContext &context) {
  const auto made = openipu::call("popnn._flat", "lstmBwd", prog, context, graph, params.named(),
                                  openipu::ProgramHole(), stateInit.list(), intermediates, weights.list(), input,
                                  output, outputGrad, ends, inputGrad != nullptr)
                        .tensors();
  if (bwdIntermediates)
    *bwdIntermediates = made.at(2);
  if (inputGrad)
    *inputGrad = made.at(3);
  return {made.at(0), made.at(1)};
}
inline std::vector<poplar::Tensor> ends(const LstmState *last) {
  return last ? std::vector<poplar::Tensor>{last->output, last->cellState} : std::vector<poplar::Tensor>{};
}
inline std::vector<poplar::Tensor> ends(const poplar::Tensor *cell) {
  return cell ? std::vector<poplar::Tensor>{*cell} : std::vector<poplar::Tensor>{};
}
} // namespace detail

inline LstmWeights lstmWU(poplar::Graph &graph, const LstmParams &params, poplar::program::Sequence &prog,
                          const LstmState &stateInit, const poplar::Tensor &fwdIntermediates,
                          const poplar::Tensor &bwdIntermediates, const LstmWeights &weights,
                          const poplar::Tensor &input, const poplar::Tensor &output, OPENIPU_END) {
  OPENIPU_UNUSED_END;
  const auto made =
      openipu::call("popnn._flat", "lstmWU", prog, context, graph, params.named(), openipu::ProgramHole(),
                    stateInit.list(), fwdIntermediates, bwdIntermediates, weights.list(), input, output)
          .tensors();
  return {made.at(0), made.at(1), made.at(2)};
}

// The gradient of the last step may be of the whole state, or of the cell alone.
#define OPENIPU_BACKWARD(Last)                                                                     \
  inline LstmState lstmBwd(poplar::Graph &graph, const LstmParams &params,                         \
                           poplar::program::Sequence &prog, const LstmState &stateInit,            \
                           const poplar::Tensor &fwdIntermediates, const LstmWeights &weights,     \
                           const poplar::Tensor &input, const poplar::Tensor &output,              \
                           const poplar::Tensor &outputGrad, const Last *last,                     \
                           poplar::Tensor *inputGrad, poplar::Tensor *bwdIntermediates,            \
                           OPENIPU_END) {                                                          \
    OPENIPU_UNUSED_END;                                                                            \
    return detail::backward(graph, params, prog, stateInit, fwdIntermediates, weights, input,      \
                            output, outputGrad, detail::ends(last), inputGrad, bwdIntermediates,   \
                            context);                                                              \
  }                                                                                                \
  inline LstmState lstmBwdWithWU(poplar::Graph &graph, const LstmParams &params,                   \
                                 poplar::program::Sequence &prog, const LstmState &stateInit,      \
                                 const poplar::Tensor &fwdIntermediates,                           \
                                 const LstmWeights &weights, const poplar::Tensor &input,          \
                                 const poplar::Tensor &output, const poplar::Tensor &outputGrad,   \
                                 const Last *last, poplar::Tensor *inputGrad,                      \
                                 LstmWeights &weightsGrad, OPENIPU_END) {                          \
    poplar::Tensor between;                                                                        \
    const LstmState state = lstmBwd(graph, params, prog, stateInit, fwdIntermediates, weights,     \
                                    input, output, outputGrad, last, inputGrad, &between, context, \
                                    options, cache);                                               \
    weightsGrad = lstmWU(graph, params, prog, stateInit, fwdIntermediates, between, weights,       \
                         input, output, context, options, cache);                                  \
    return state;                                                                                  \
  }
OPENIPU_BACKWARD(LstmState)
OPENIPU_BACKWARD(poplar::Tensor)
#undef OPENIPU_BACKWARD
#undef OPENIPU_UNUSED_END
#undef OPENIPU_END

} // namespace lstm
} // namespace popnn

#endif
