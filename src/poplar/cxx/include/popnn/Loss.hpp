// Losses, and which output is the largest. Part of openipu, written independently.
#ifndef openipu_popnn_Loss_hpp
#define openipu_popnn_Loss_hpp

#include <openipu/library.hpp>
#include <popnn/codelets.hpp>

#include <utility>

namespace popnn {

enum LossType { SUM_SQUARED_LOSS, CROSS_ENTROPY_LOSS };

inline openipu::Named name(LossType type) {
  return openipu::Named(std::string("popnn.LossType.") +
                        (type == SUM_SQUARED_LOSS ? "SUM_SQUARED_LOSS" : "CROSS_ENTROPY_LOSS"));
}

inline poplar::program::Program calcLoss(poplar::Graph &graph, const poplar::Tensor &outputs,
                                         const poplar::Tensor &expected, const poplar::Tensor &loss,
                                         const poplar::Tensor &deltas, LossType type,
                                         const poplar::DebugContext &context = {},
                                         const poplar::OptionFlags &options = {}) {
  poplar::program::Sequence prog;
  openipu::call("popnn", "calcLoss", prog, context, graph, outputs, expected, loss, deltas, name(type),
                openipu::ProgramHole(), context.getPathName(), options);
  return prog;
}
inline poplar::program::Program calcLoss(poplar::Graph &graph, const poplar::Tensor &outputs,
                                         const poplar::Tensor &expected, const poplar::Tensor &loss,
                                         const poplar::Tensor &deltas, const poplar::Tensor &numCorrect, LossType type,
                                         const poplar::DebugContext &context = {},
                                         const poplar::OptionFlags &options = {}) {
  poplar::program::Sequence prog;
  openipu::call("popnn", "calcLoss", prog, context, graph, outputs, expected, loss, deltas, numCorrect, name(type),
                openipu::ProgramHole(), context.getPathName(), options);
  return prog;
}
inline poplar::program::Program calcAccuracy(poplar::Graph &graph, const poplar::Tensor &outputs,
                                             const poplar::Tensor &expected, const poplar::Tensor &numCorrect,
                                             const poplar::DebugContext &context = {}) {
  poplar::program::Sequence prog;
  openipu::call("popnn", "calcAccuracy", prog, context, graph, outputs, expected, numCorrect, openipu::ProgramHole(),
                context.getPathName());
  return prog;
}
#define OPENIPU_FIND(function)                                                                                        \
  inline poplar::Tensor function(poplar::Graph &graph, const poplar::Tensor &in, poplar::program::Sequence &prog,     \
                                 const poplar::DebugContext &context = {}) {                                          \
    return openipu::call("popnn", #function, prog, context, graph, in, openipu::ProgramHole(), context.getPathName()) \
        .tensor();                                                                                                    \
  }
OPENIPU_FIND(argMax)
OPENIPU_FIND(argMin)
#undef OPENIPU_FIND

inline std::pair<poplar::Tensor, poplar::Tensor> maxAndArgMax(poplar::Graph &graph, const poplar::Tensor &in,
                                                              poplar::program::Sequence &prog,
                                                              const poplar::DebugContext &context = {}) {
  const std::vector<poplar::Tensor> found =
      openipu::call("popnn", "maxAndArgMax", prog, context, graph, in, openipu::ProgramHole(), context.getPathName())
          .tensors();
  return {found.at(0), found.at(1)};
}

inline openipu::TensorPair minAndArgMin(poplar::Graph &graph, const poplar::Tensor &in, poplar::program::Sequence &prog,
                                        const poplar::DebugContext &context = {}) {
  return openipu::makePair(
      openipu::call("popnn", "minAndArgMin", prog, context, graph, in, openipu::ProgramHole(), context.getPathName()));
}
// The k largest of each row, and in `indices` where they are.
inline poplar::Tensor topK(poplar::Graph &graph, const poplar::Tensor &in, poplar::Tensor &indices, unsigned k,
                           bool sort, poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  const openipu::TensorPair found = openipu::makePair(openipu::call(
      "popnn._flat", "topK", prog, context, graph, in, k, sort, openipu::ProgramHole(), context.getPathName()));
  indices = found.second;
  return found.first;
}

} // namespace popnn

#endif
