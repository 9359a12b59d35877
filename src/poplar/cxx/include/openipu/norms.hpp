// What the headers of norms have in common. Part of openipu.
#ifndef openipu_norms_hpp
#define openipu_norms_hpp

#include <openipu/library.hpp>

#define OPENIPU_STATISTICS_END                                                                     \
  bool unbiasedVarEstimate, bool stableAlgo = false,                                               \
      const poplar::Type &partialsType = poplar::FLOAT, const poplar::DebugContext &context = {},  \
      const poplar::OptionFlags &options = {}
#define OPENIPU_UNUSED (void)stableAlgo, (void)partialsType, (void)options

// All but the statistics; `module` is the Python module of the norm, `verb` what the functions' names begin with.
#define OPENIPU_NORM(module, verb, normalise)                                                      \
  inline poplar::Tensor verb##Whiten(                                                              \
      poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Tensor &mean,                \
      const poplar::Tensor &invStdDev, poplar::program::Sequence &prog,                            \
      const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {         \
    (void)options;                                                                                 \
    return openipu::call(module, #verb "Whiten", prog, context, graph, acts, mean, invStdDev,      \
                         openipu::ProgramHole(), context.getPathName())                            \
        .tensor();                                                                                 \
  }                                                                                                \
  inline openipu::TensorPair normalise(                                                            \
      poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Tensor &gamma,               \
      const poplar::Tensor &beta, const poplar::Tensor &mean, const poplar::Tensor &invStdDev,     \
      poplar::program::Sequence &prog, const poplar::DebugContext &context = {},                   \
      const poplar::OptionFlags &options = {}) {                                                   \
    (void)options;                                                                                 \
    return openipu::makePair(openipu::call(module, #normalise, prog, context, graph, acts, gamma,  \
                                           beta, mean, invStdDev, openipu::ProgramHole(),          \
                                           context.getPathName()));                                \
  }                                                                                                \
  inline openipu::TensorPair verb##ParamGradients(                                                 \
      poplar::Graph &graph, const poplar::Tensor &whitened, const poplar::Tensor &gradsIn,         \
      poplar::program::Sequence &prog, const poplar::Type &partialsType = poplar::FLOAT,           \
      const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {         \
    (void)partialsType, (void)options;                                                             \
    return openipu::makePair(openipu::call(module, #verb "ParamGradients", prog, context, graph,   \
                                           whitened, gradsIn, openipu::ProgramHole()));            \
  }                                                                                                \
  inline openipu::TensorPair verb##ParamGradients(                                                 \
      poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Tensor &gradsIn,             \
      const poplar::Tensor &mean, const poplar::Tensor &invStdDev,                                 \
      poplar::program::Sequence &prog, const poplar::Type &partialsType = poplar::FLOAT,           \
      const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {         \
    const poplar::Tensor whitened = verb##Whiten(graph, acts, mean, invStdDev, prog, context);     \
    return verb##ParamGradients(graph, whitened, gradsIn, prog, partialsType, context, options);   \
  }                                                                                                \
  inline void verb##ParamUpdate(poplar::Graph &graph, const poplar::Tensor &gammaDelta,            \
                                const poplar::Tensor &betaDelta, float scale, poplar::Tensor &gamma, \
                                poplar::Tensor &beta, poplar::program::Sequence &prog,             \
                                const poplar::DebugContext &context = {},                          \
                                const poplar::OptionFlags &options = {}) {                         \
    (void)options;                                                                                 \
    openipu::call(module, #verb "ParamUpdate", prog, context, graph, gammaDelta, betaDelta, scale, \
                  gamma, beta, openipu::ProgramHole(), context.getPathName());                     \
  }                                                                                                \
  inline void verb##ParamUpdate(poplar::Graph &graph, const poplar::Tensor &gammaDelta,            \
                                const poplar::Tensor &betaDelta, const poplar::Tensor &scale,      \
                                poplar::Tensor &gamma, poplar::Tensor &beta,                       \
                                poplar::program::Sequence &prog,                                   \
                                const poplar::DebugContext &context = {},                          \
                                const poplar::OptionFlags &options = {}) {                         \
    (void)options;                                                                                 \
    openipu::call(module, #verb "ParamUpdate", prog, context, graph, gammaDelta, betaDelta, scale, \
                  gamma, beta, openipu::ProgramHole(), context.getPathName());                     \
  }                                                                                                \
  inline poplar::Tensor verb##Gradients(                                                           \
      poplar::Graph &graph, const poplar::Tensor &whitened, const poplar::Tensor &gradsIn,         \
      const poplar::Tensor &invStdDev, const poplar::Tensor &gamma,                                \
      poplar::program::Sequence &prog, const poplar::Type &partialsType = poplar::FLOAT,           \
      const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {         \
    (void)partialsType, (void)options;                                                             \
    return openipu::call(module, #verb "Gradients", prog, context, graph, whitened, gradsIn,       \
                         invStdDev, gamma, openipu::ProgramHole())                                 \
        .tensor();                                                                                 \
  }                                                                                                \
  inline poplar::Tensor verb##Gradients(                                                           \
      poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Tensor &gradsIn,             \
      const poplar::Tensor &mean, const poplar::Tensor &invStdDev, const poplar::Tensor &gamma,    \
      poplar::program::Sequence &prog, const poplar::Type &partialsType = poplar::FLOAT,           \
      const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}) {         \
    const poplar::Tensor whitened = verb##Whiten(graph, acts, mean, invStdDev, prog, context);     \
    return verb##Gradients(graph, whitened, gradsIn, invStdDev, gamma, prog, partialsType, context, options); \
  }

#define OPENIPU_PLAIN_STATISTICS(module, verb)                                                     \
  inline openipu::TensorPair verb##Statistics(poplar::Graph &graph, const poplar::Tensor acts,     \
                                              float eps, poplar::program::Sequence &prog,          \
                                              OPENIPU_STATISTICS_END) {                            \
    OPENIPU_UNUSED;                                                                                \
    return openipu::makePair(openipu::call(module, #verb "Statistics", prog, context, graph, acts, \
                                           eps, openipu::ProgramHole(), unbiasedVarEstimate));     \
  }

#endif
