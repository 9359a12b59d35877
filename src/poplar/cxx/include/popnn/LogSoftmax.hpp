// The logarithm of a softmax. Part of openipu, written independently.
#ifndef openipu_popnn_LogSoftmax_hpp
#define openipu_popnn_LogSoftmax_hpp

#include <openipu/library.hpp>
#include <popnn/codelets.hpp>

namespace popnn {

inline poplar::Tensor logSoftmax(poplar::Graph &graph, poplar::Tensor t, poplar::program::Sequence &prog,
                                 const poplar::DebugContext &context = {}) {
  return openipu::call("popnn", "logSoftmax", prog, context, graph, t, openipu::ProgramHole(), context.getPathName())
      .tensor();
}
inline void logSoftmaxInPlace(poplar::Graph &graph, poplar::Tensor t, poplar::program::Sequence &prog,
                              const poplar::DebugContext &context = {}) {
  openipu::call("popnn", "logSoftmaxInPlace", prog, context, graph, t, openipu::ProgramHole(), context.getPathName());
}

} // namespace popnn

#endif
