// Connectionist temporal classification: loss and gradient. Part of openipu, written independently.
#ifndef openipu_popnn_CTCLoss_hpp
#define openipu_popnn_CTCLoss_hpp

#include <openipu/library.hpp>
#include <popnn/codelets.hpp>

#include <utility>

namespace popnn {
namespace ctc {

class Plan {}; // the engine makes its own
inline openipu::Named name(const Plan &) { return openipu::Named::make("popnn.ctc.Plan"); }

inline Plan plan(const poplar::Graph &, const poplar::Type &, const poplar::Type &, unsigned, unsigned, unsigned,
                 unsigned, const poplar::OptionFlags & = {}) {
  return Plan();
}
inline poplar::Tensor createDataInput(poplar::Graph &graph, const poplar::Type &type, std::size_t batchSize,
                                      std::size_t maxTime, std::size_t numClasses, const Plan &plan,
                                      const poplar::DebugContext &context = {}) {
  return openipu::callWith("popnn.ctc", "createDataInput", nullptr, nullptr, context, graph, type, batchSize, maxTime,
                           numClasses, name(plan), context.getPathName())
      .tensor();
}
inline poplar::Tensor createLabelsInput(poplar::Graph &graph, const poplar::Type &type, std::size_t batchSize,
                                        std::size_t maxLabelLength, const Plan &plan,
                                        const poplar::DebugContext &context = {}) {
  return openipu::callWith("popnn.ctc", "createLabelsInput", nullptr, nullptr, context, graph, type, batchSize,
                           maxLabelLength, name(plan), context.getPathName())
      .tensor();
}

#define OPENIPU_CTC(result, function, ending)                                                      \
  inline result function(poplar::Graph &graph, const poplar::Type &outType,                        \
                         const poplar::Tensor &data, const poplar::Tensor &labels,                 \
                         const poplar::Tensor &dataLengths, const poplar::Tensor &labelLengths,    \
                         poplar::program::Sequence &prog, unsigned blankClass, const Plan &plan,   \
                         const poplar::DebugContext &context = {},                                 \
                         const poplar::OptionFlags &options = {}) {                                \
    (void)options;                                                                                 \
    const openipu::Results made = openipu::call(                                                   \
        "popnn.ctc", #function, prog, context, graph, outType, data, labels, dataLengths,          \
        labelLengths, openipu::ProgramHole(), blankClass, name(plan), context.getPathName());      \
    ending                                                                                         \
  }
using LossAndGradient = std::pair<poplar::Tensor, poplar::Tensor>;
#define OPENIPU_BOTH                                                                               \
  const auto both = made.tensors();                                                                \
  return LossAndGradient(both.at(0), both.at(1));
OPENIPU_CTC(LossAndGradient, calcLossAndGradientLogProbabilities, OPENIPU_BOTH)
OPENIPU_CTC(LossAndGradient, calcLossAndGradientLogits, OPENIPU_BOTH)
OPENIPU_CTC(poplar::Tensor, calcCTCLossLogProbabilities, return made.tensor();)
OPENIPU_CTC(poplar::Tensor, calcCTCLossLogits, return made.tensor();)
#undef OPENIPU_BOTH
#undef OPENIPU_CTC

} // namespace ctc
} // namespace popnn

#endif
