// Plain recurrent layers. Part of openipu, written independently.
#ifndef openipu_popnn_Recurrent_hpp
#define openipu_popnn_Recurrent_hpp

#include <poplin/MatMul.hpp>
#include <popnn/NonLinearityDef.hpp>
#include <popnn/codelets.hpp>

#include <tuple>
#include <vector>

namespace popnn {
namespace rnn {

inline poplar::Tensor createInput(poplar::Graph &graph, unsigned numSteps, unsigned batchSize, unsigned inputSize,
                                  unsigned outputSize, const poplar::Type &type,
                                  const poplar::Type &partialsType = poplar::FLOAT, bool inferenceOnly = false,
                                  const poplar::DebugContext &context = {}, poplin::PlanningCache *cache = nullptr) {
  (void)cache, (void)partialsType, (void)inferenceOnly;
  return openipu::callWith("popnn.rnn", "createInput", nullptr, nullptr, context, graph, numSteps, batchSize, inputSize,
                           outputSize, type, context.getPathName())
      .tensor();
}
inline poplar::Tensor createWeightsInput(poplar::Graph &graph, unsigned sequenceSize, unsigned batchSize,
                                         unsigned inputSize, unsigned outputSize, const poplar::Type &type,
                                         const poplar::Type &partialsType = poplar::FLOAT, bool inferenceOnly = false,
                                         const poplar::DebugContext &context = {},
                                         poplin::PlanningCache *cache = nullptr) {
  (void)cache, (void)partialsType, (void)inferenceOnly;
  return openipu::callWith("popnn.rnn", "createWeightsInput", nullptr, nullptr, context, graph, sequenceSize, batchSize,
                           inputSize, outputSize, type, context.getPathName())
      .tensor();
}
inline poplar::Tensor createWeightsFeedback(poplar::Graph &graph, unsigned batchSize, unsigned outputSize,
                                            const poplar::Type &type, const poplar::Type &partialsType = poplar::FLOAT,
                                            bool inferenceOnly = false, const poplar::DebugContext &context = {},
                                            poplin::PlanningCache *cache = nullptr) {
  (void)cache, (void)partialsType, (void)inferenceOnly;
  return openipu::callWith("popnn.rnn", "createWeightsFeedback", nullptr, nullptr, context, graph, batchSize,
                           outputSize, type, context.getPathName())
      .tensor();
}
inline poplar::Tensor createFwdState(poplar::Graph &graph, const poplar::Type &type, unsigned batchSize,
                                     unsigned outputSize, poplar::program::Sequence &prog, bool initState,
                                     bool inferenceOnly, const poplar::DebugContext &context = {},
                                     poplin::PlanningCache *cache = nullptr) {
  (void)inferenceOnly, (void)cache;
  return openipu::call("popnn.rnn", "createFwdState", prog, context, graph, type, batchSize, outputSize,
                       openipu::ProgramHole(), initState, context.getPathName())
      .tensor();
}
inline poplar::Tensor getOutputFromFwdState(const poplar::Tensor &fwdState) { return fwdState; }
inline poplar::Tensor createBwdState(poplar::Graph &graph, const poplar::Type &type, unsigned batchSize,
                                     unsigned outputSize, poplar::program::Sequence &prog,
                                     const poplar::DebugContext &context = {}, poplin::PlanningCache *cache = nullptr) {
  (void)cache;
  return openipu::call("popnn.rnn", "createBwdState", prog, context, graph, type, batchSize, outputSize,
                       openipu::ProgramHole(), context.getPathName())
      .tensor();
}
inline poplar::Tensor forwardWeightInput(poplar::Graph &graph, const poplar::Tensor &actIn,
                                         const poplar::Tensor &weights, poplar::program::Sequence &prog,
                                         const poplar::Type &partialsType = poplar::FLOAT, bool inferenceOnly = false,
                                         const poplar::DebugContext &context = {},
                                         poplin::PlanningCache *cache = nullptr) {
  (void)partialsType, (void)inferenceOnly, (void)cache;
  return openipu::call("popnn.rnn", "forwardWeightInput", prog, context, graph, actIn, weights, openipu::ProgramHole())
      .tensor();
}
inline poplar::Tensor forwardIterate(poplar::Graph &graph, const poplar::Tensor &feedFwdIn,
                                     const poplar::Tensor &initState, const poplar::Tensor &feedbackWeights,
                                     const poplar::Tensor &biases, poplar::program::Sequence &prog,
                                     popnn::NonLinearityType nonLinearityType,
                                     const poplar::Type &partialsType = poplar::FLOAT, bool inferenceOnly = false,
                                     const poplar::DebugContext &context = {}, poplin::PlanningCache *cache = nullptr) {
  (void)partialsType, (void)inferenceOnly, (void)cache;
  return openipu::call("popnn.rnn", "forwardIterate", prog, context, graph, feedFwdIn, initState, feedbackWeights,
                       biases, openipu::ProgramHole(), name(nonLinearityType))
      .tensor();
}
// The gradient of the input, and the new backward state.
inline openipu::TensorPair
backwardGradientStep(poplar::Graph &graph, const poplar::Tensor &nextLayerGrad, const poplar::Tensor &bwdState,
                     const poplar::Tensor &actOut, const poplar::Tensor &weightsInput,
                     const poplar::Tensor &weightsFeedback, poplar::program::Sequence &prog,
                     popnn::NonLinearityType nonLinearityType, const poplar::Type &partialsType = poplar::FLOAT,
                     const poplar::DebugContext &context = {}, poplin::PlanningCache *cache = nullptr) {
  (void)partialsType, (void)cache;
  return openipu::makePair(openipu::call("popnn.rnn", "backwardGradientStep", prog, context, graph, nextLayerGrad,
                                         bwdState, actOut, weightsInput, weightsFeedback, openipu::ProgramHole(),
                                         name(nonLinearityType)));
}
inline poplar::Tensor backwardGradientStep(poplar::Graph &graph, const poplar::Tensor &nextLayerGrad,
                                           const poplar::Tensor &bwdState, const poplar::Tensor &actOut,
                                           const poplar::Tensor &weightsFeedback, poplar::program::Sequence &prog,
                                           popnn::NonLinearityType nonLinearityType,
                                           const poplar::Type &partialsType = poplar::FLOAT,
                                           const poplar::DebugContext &context = {},
                                           poplin::PlanningCache *cache = nullptr) {
  (void)partialsType, (void)cache;
  return openipu::call("popnn.rnn", "backwardGradientStep", prog, context, graph, nextLayerGrad, bwdState, actOut,
                       weightsFeedback, openipu::ProgramHole(), name(nonLinearityType))
      .tensor();
}
inline void paramDeltaUpdate(poplar::Graph &graph, const poplar::Tensor &bwdState, const poplar::Tensor &actIn,
                             const poplar::Tensor &prevOut, poplar::Tensor &weightsInputDeltasAcc,
                             poplar::Tensor &weightsFeedbackDeltasAcc, poplar::Tensor &biasDeltasAcc,
                             poplar::program::Sequence &prog, const poplar::Type &partialsType = poplar::FLOAT,
                             const poplar::DebugContext &context = {}, poplin::PlanningCache *cache = nullptr) {
  (void)partialsType, (void)cache;
  openipu::call("popnn.rnn", "paramDeltaUpdate", prog, context, graph, bwdState, actIn, prevOut, weightsInputDeltasAcc,
                weightsFeedbackDeltasAcc, biasDeltasAcc, openipu::ProgramHole());
}
// With `weightedIn`, the input times its weights is there already.
inline poplar::Tensor rnnFwdSequence(poplar::Graph &graph, poplar::program::Sequence &prog,
                                     const poplar::Tensor &fwdStateInit, const poplar::Tensor *weightedIn,
                                     const poplar::Tensor &biases, const poplar::Tensor &feedFwdWeights,
                                     const poplar::Tensor &feedbackWeights, const poplar::Tensor &prevLayerActs,
                                     const popnn::NonLinearityType &nonLinearityType, const poplar::Type &partialsType,
                                     bool inferenceOnly, const poplar::DebugContext &context = {},
                                     poplin::PlanningCache *cache = nullptr) {
  (void)partialsType, (void)inferenceOnly, (void)cache;
  return openipu::call("popnn.rnn", "rnnFwdSequence", prog, context, graph, openipu::ProgramHole(), fwdStateInit,
                       weightedIn ? *weightedIn : poplar::Tensor(), biases, feedFwdWeights, feedbackWeights,
                       prevLayerActs, name(nonLinearityType))
      .tensor();
}
// Gradients of the input, of both weights and of the biases; empty tensors where they are not asked for.
inline std::tuple<poplar::Tensor, poplar::Tensor, poplar::Tensor, poplar::Tensor>
rnnBwdSequence(poplar::Graph &graph, bool doWU, bool ignoreInputGradientCalc, poplar::program::Sequence &prog,
               const poplar::Tensor &fwdStateInit, const poplar::Tensor &fwdState, const poplar::Tensor &biases,
               const poplar::Tensor &feedFwdWeights, const poplar::Tensor &feedbackWeights,
               const poplar::Tensor &outGradient, const poplar::Tensor &actIn,
               const popnn::NonLinearityType &nonLinearityType, const poplar::Type &partialsType,
               const poplar::DebugContext &context = {}, poplin::PlanningCache *cache = nullptr) {
  (void)partialsType, (void)cache;
  const openipu::Results made = openipu::call(
      "popnn.rnn", "rnnBwdSequence", prog, context, graph, doWU, ignoreInputGradientCalc, openipu::ProgramHole(),
      fwdStateInit, fwdState, biases, feedFwdWeights, feedbackWeights, outGradient, actIn, name(nonLinearityType));
  std::vector<poplar::Tensor> found;
  for (const openipu::Value &entry : made.result.list)
    found.push_back(entry.isNone() ? poplar::Tensor() : openipu::readTensor(entry));
  return std::make_tuple(found.at(0), found.at(1), found.at(2), found.at(3));
}

} // namespace rnn
} // namespace popnn

#endif
