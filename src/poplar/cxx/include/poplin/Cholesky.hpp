// Factors of symmetric matrices. Part of openipu, written independently.
#ifndef openipu_poplin_Cholesky_hpp
#define openipu_poplin_Cholesky_hpp

#include <poplin/MatMul.hpp>

#include <vector>

namespace poplin {

inline poplar::Tensor cholesky(poplar::Graph &graph, const poplar::Tensor &a, bool lower,
                               poplar::program::Sequence &prog, const poplar::DebugContext &context = {},
                               const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr) {
  (void)options, (void)cache;
  return openipu::call("poplin", "cholesky", prog, context, graph, a, lower, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}
inline void choleskyInPlace(poplar::Graph &graph, const poplar::Tensor &a, bool lower, poplar::program::Sequence &prog,
                            const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {},
                            PlanningCache *cache = nullptr) {
  (void)options, (void)cache;
  openipu::call("poplin", "choleskyInPlace", prog, context, graph, a, lower, openipu::ProgramHole(),
                context.getPathName());
}
inline poplar::Tensor createCholeskyInput(poplar::Graph &graph, const poplar::Type &type,
                                          const std::vector<std::size_t> &shape, bool lower,
                                          const poplar::DebugContext &context = {},
                                          const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr) {
  (void)options, (void)cache;
  return openipu::callWith("poplin", "createCholeskyInput", nullptr, nullptr, context, graph, type,
                           openipu::numbers(shape), lower, context.getPathName())
      .tensor();
}

} // namespace poplin

#endif
