// Norms of each channel, in parts. Part of openipu, written independently.
#ifndef openipu_poplin_Norms_hpp
#define openipu_poplin_Norms_hpp

#include <openipu/library.hpp>
#include <poplin/codelets.hpp>

namespace poplin {

inline poplar::Tensor createNormGamma(poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Type &type,
                                      const poplar::DebugContext &context = {}) {
  return openipu::callWith("poplin", "createNormGamma", nullptr, nullptr, context, graph, acts, type,
                           context.getPathName())
      .tensor();
}
inline poplar::Tensor createNormGamma(poplar::Graph &graph, const poplar::Tensor &acts,
                                      const poplar::DebugContext &context = {}) {
  return openipu::callWith("poplin", "createNormGamma", nullptr, nullptr, context, graph, acts, context.getPathName())
      .tensor();
}
inline poplar::Tensor createNormBeta(poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Type &type,
                                     const poplar::DebugContext &context = {}) {
  return openipu::callWith("poplin", "createNormBeta", nullptr, nullptr, context, graph, acts, type,
                           context.getPathName())
      .tensor();
}
inline poplar::Tensor createNormBeta(poplar::Graph &graph, const poplar::Tensor &acts,
                                     const poplar::DebugContext &context = {}) {
  return openipu::callWith("poplin", "createNormBeta", nullptr, nullptr, context, graph, acts, context.getPathName())
      .tensor();
}
inline openipu::TensorPair createNormParams(poplar::Graph &graph, const poplar::Tensor &acts,
                                            const poplar::DebugContext &context = {}) {
  return openipu::makePair(
      openipu::callWith("poplin", "createNormParams", nullptr, nullptr, context, graph, acts, context.getPathName()));
}
inline openipu::TensorPair normStatistics(poplar::Graph &graph, const poplar::Tensor &acts, float eps,
                                          poplar::program::Sequence &prog, bool unbiasedVarEstimate,
                                          bool stableAlgo = false, const poplar::Type &partialsType = poplar::FLOAT,
                                          const poplar::DebugContext &context = {}) {
  (void)stableAlgo, (void)partialsType;
  return openipu::makePair(openipu::call("poplin", "normStatistics", prog, context, graph, acts, eps,
                                         openipu::ProgramHole(), unbiasedVarEstimate));
}
inline poplar::Tensor normWhiten(poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Tensor &mean,
                                 const poplar::Tensor &iStdDev, poplar::program::Sequence &prog,
                                 const poplar::DebugContext &context = {}) {
  return openipu::call("poplin", "normWhiten", prog, context, graph, acts, mean, iStdDev, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}
inline poplar::Tensor normalise(poplar::Graph &graph, const poplar::Tensor &actsWhitened, const poplar::Tensor &gamma,
                                const poplar::Tensor &beta, poplar::program::Sequence &prog,
                                const poplar::DebugContext &context = {}) {
  return openipu::call("poplin", "normalise", prog, context, graph, actsWhitened, gamma, beta, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}
inline openipu::TensorPair normParamGradients(poplar::Graph &graph, const poplar::Tensor &actsWhitened,
                                              const poplar::Tensor &gradsIn, poplar::program::Sequence &prog,
                                              const poplar::Type &partialsType = poplar::FLOAT,
                                              const poplar::DebugContext &context = {}) {
  (void)partialsType;
  return openipu::makePair(openipu::call("poplin", "normParamGradients", prog, context, graph, actsWhitened, gradsIn,
                                         openipu::ProgramHole()));
}
inline poplar::Tensor normGradients(poplar::Graph &graph, const poplar::Tensor &gradsIn, const poplar::Tensor &gamma,
                                    poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  return openipu::call("poplin", "normGradients", prog, context, graph, gradsIn, gamma, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}
inline poplar::Tensor normStatisticsGradients(poplar::Graph &graph, const poplar::Tensor &actsWhitened,
                                              const poplar::Tensor &gradsIn, const poplar::Tensor &invStdDev,
                                              poplar::program::Sequence &prog,
                                              const poplar::Type &partialsType = poplar::FLOAT,
                                              const poplar::DebugContext &context = {}) {
  (void)partialsType;
  return openipu::call("poplin", "normStatisticsGradients", prog, context, graph, actsWhitened, gradsIn, invStdDev,
                       openipu::ProgramHole())
      .tensor();
}

} // namespace poplin

#endif
