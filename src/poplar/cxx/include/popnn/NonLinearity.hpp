// Non-linearities. Part of openipu, written independently.
#ifndef openipu_popnn_NonLinearity_hpp
#define openipu_popnn_NonLinearity_hpp

#include <popnn/NonLinearityDef.hpp>
#include <popnn/codelets.hpp>

namespace popnn {

#define OPENIPU_TAIL                                                                               \
  poplar::program::Sequence &prog, const poplar::DebugContext &context = {},                       \
      const poplar::OptionFlags &options = {}

inline poplar::Tensor nonLinearity(poplar::Graph &graph, NonLinearityType type, poplar::Tensor t, OPENIPU_TAIL) {
  return openipu::call("popnn", "nonLinearity", prog, context, graph, name(type), t, openipu::ProgramHole(),
                       context.getPathName(), options)
      .tensor();
}
inline void nonLinearityInPlace(poplar::Graph &graph, NonLinearityType type, poplar::Tensor t, OPENIPU_TAIL) {
  openipu::call("popnn", "nonLinearityInPlace", prog, context, graph, name(type), t, openipu::ProgramHole(),
                context.getPathName(), options);
}
inline poplar::Tensor nonLinearityInputGradient(poplar::Graph &graph, NonLinearityType type, poplar::Tensor act,
                                                poplar::Tensor outGradient, OPENIPU_TAIL) {
  return openipu::call("popnn", "nonLinearityInputGradient", prog, context, graph, name(type), act, outGradient,
                       openipu::ProgramHole(), context.getPathName(), options)
      .tensor();
}
#define OPENIPU_NAMED(function, type)                                                              \
  inline poplar::Tensor function(poplar::Graph &graph, poplar::Tensor t, OPENIPU_TAIL) {           \
    return nonLinearity(graph, NonLinearityType::type, t, prog, context, options);                 \
  }                                                                                                \
  inline void function##InPlace(poplar::Graph &graph, poplar::Tensor t, OPENIPU_TAIL) {            \
    nonLinearityInPlace(graph, NonLinearityType::type, t, prog, context, options);                 \
  }
OPENIPU_NAMED(sigmoid, SIGMOID)
OPENIPU_NAMED(relu, RELU)
OPENIPU_NAMED(tanh, TANH)
OPENIPU_NAMED(gelu, GELU)
OPENIPU_NAMED(softmax, SOFTMAX)
OPENIPU_NAMED(softmaxStable, SOFTMAX_STABLE)
OPENIPU_NAMED(softmaxScaled, SOFTMAX_SCALED)
#undef OPENIPU_NAMED
#undef OPENIPU_TAIL

} // namespace popnn

#endif
