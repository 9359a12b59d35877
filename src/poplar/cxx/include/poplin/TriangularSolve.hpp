// Systems of equations with a triangular matrix. Part of openipu, written independently.
#ifndef openipu_poplin_TriangularSolve_hpp
#define openipu_poplin_TriangularSolve_hpp

#include <poplin/MatMul.hpp>

#include <vector>

namespace poplin {

inline poplar::Tensor
createTriangularSolveInputLHS(poplar::Graph &graph, const poplar::Type &inputType, const poplar::Type &outputType,
                              const std::vector<std::size_t> &aShape, const std::vector<std::size_t> &bShape,
                              bool leftSide, const poplar::DebugContext &context = {},
                              const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr) {
  (void)options, (void)cache;
  return openipu::callWith("poplin", "createTriangularSolveInputLHS", nullptr, nullptr, context, graph, inputType,
                           outputType, openipu::numbers(aShape), openipu::numbers(bShape), leftSide,
                           context.getPathName())
      .tensor();
}
inline poplar::Tensor
createTriangularSolveInputRHS(poplar::Graph &graph, const poplar::Type &inputType, const poplar::Type &outputType,
                              const std::vector<std::size_t> &aShape, const std::vector<std::size_t> &bShape,
                              bool leftSide, const poplar::DebugContext &context = {},
                              const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr) {
  (void)options, (void)cache;
  return openipu::callWith("poplin", "createTriangularSolveInputRHS", nullptr, nullptr, context, graph, inputType,
                           outputType, openipu::numbers(aShape), openipu::numbers(bShape), leftSide,
                           context.getPathName())
      .tensor();
}
inline poplar::Tensor triangularMask(poplar::Graph &graph, const poplar::Tensor &a, bool lower, bool unitDiagonal,
                                     poplar::program::Sequence &prog, const poplar::DebugContext &context = {}) {
  return openipu::call("poplin", "triangularMask", prog, context, graph, a, lower, unitDiagonal, openipu::ProgramHole(),
                       context.getPathName())
      .tensor();
}
inline poplar::Tensor triangularSolve(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,
                                      bool leftSide, bool lower, bool unitDiagonal, poplar::program::Sequence &prog,
                                      const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {},
                                      PlanningCache *cache = nullptr) {
  (void)options, (void)cache;
  return openipu::call("poplin", "triangularSolve", prog, context, graph, a, b, leftSide, lower, unitDiagonal,
                       openipu::ProgramHole(), context.getPathName())
      .tensor();
}

} // namespace poplin

#endif
