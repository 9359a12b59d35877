// Random numbers. Part of openipu, written independently.
#ifndef openipu_poprand_RandomGen_hpp
#define openipu_poprand_RandomGen_hpp

#include <openipu/library.hpp>
#include <poprand/codelets.hpp>

#include <cstdint>

namespace poprand {

#define OPENIPU_HEAD poplar::Graph &graph, const poplar::Tensor *seed, std::uint32_t modifier
#define OPENIPU_TAIL poplar::program::Sequence &prog, const poplar::DebugContext &context = {}
#define OPENIPU_SEED graph, seed ? *seed : poplar::Tensor(), modifier
#define OPENIPU_REST openipu::ProgramHole(), context.getPathName()
#define OPENIPU_DRAW(function, first, second)                                                               \
  inline poplar::Tensor function(OPENIPU_HEAD, const poplar::Tensor &reference, const poplar::Type &type,   \
                                 double first, double second, OPENIPU_TAIL) {                               \
    return openipu::call("poprand", #function, prog, context, OPENIPU_SEED, reference, type, first, second, \
                         OPENIPU_REST)                                                                      \
        .tensor();                                                                                          \
  }
OPENIPU_DRAW(uniform, minVal, maxVal)
OPENIPU_DRAW(normal, mean, stdDev)
#undef OPENIPU_DRAW

inline poplar::Tensor truncatedNormal(OPENIPU_HEAD, const poplar::Tensor &reference, const poplar::Type &type,
                                      double mean, double stdDev, double alpha, OPENIPU_TAIL) {
  return openipu::call("poprand", "truncatedNormal", prog, context, OPENIPU_SEED, reference, type, mean, stdDev, alpha,
                       OPENIPU_REST)
      .tensor();
}
inline poplar::Tensor bernoulli(OPENIPU_HEAD, const poplar::Tensor &reference, const poplar::Type &type, double prob,
                                OPENIPU_TAIL) {
  return openipu::call("poprand", "bernoulli", prog, context, OPENIPU_SEED, reference, type, prob, OPENIPU_REST)
      .tensor();
}
inline poplar::Tensor dropout(OPENIPU_HEAD, const poplar::Tensor &input, const poplar::Tensor &reference,
                              double keepProbability, double scale, OPENIPU_TAIL) {
  return openipu::call("poprand", "dropout", prog, context, OPENIPU_SEED, input, reference, keepProbability, scale,
                       OPENIPU_REST)
      .tensor();
}
inline poplar::Tensor shapedDropout(OPENIPU_HEAD, const poplar::Tensor &input, const poplar::Tensor &reference,
                                    double keepProbability, double scale, OPENIPU_TAIL) {
  return openipu::call("poprand", "shapedDropout", prog, context, OPENIPU_SEED, input, reference, keepProbability,
                       scale, OPENIPU_REST)
      .tensor();
}
inline poplar::Tensor logUniform(OPENIPU_HEAD, const poplar::Tensor &reference, const poplar::Type &type, double minVal,
                                 double maxVal, poplar::program::Sequence &prog, double base = 2.718281828459045,
                                 const poplar::DebugContext &context = {}) {
  return openipu::call("poprand", "logUniform", prog, context, OPENIPU_SEED, reference, type, minVal, maxVal,
                       openipu::ProgramHole(), base, context.getPathName())
      .tensor();
}
inline void setSeed(poplar::Graph &graph, const poplar::Tensor &seed, std::uint32_t modifier, OPENIPU_TAIL) {
  openipu::call("poprand", "setSeed", prog, context, graph, seed, modifier, OPENIPU_REST);
}
#undef OPENIPU_HEAD
#undef OPENIPU_TAIL
#undef OPENIPU_SEED
#undef OPENIPU_REST

} // namespace poprand

#endif
