// Products of matrices. Part of openipu, written independently.
#ifndef openipu_poplin_MatMul_hpp
#define openipu_poplin_MatMul_hpp

#include <openipu/library.hpp>
#include <poplin/codelets.hpp>

#include <tuple>
#include <vector>

namespace poplin {

class PlanningCache {}; // the engine keeps its own
namespace matmul {
using PlanningCache = poplin::PlanningCache;
}

#define OPENIPU_END \
  const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr
#define OPENIPU_PRODUCT(function)                                                                          \
  inline poplar::Tensor function(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,   \
                                 poplar::program::Sequence &prog, const poplar::Type &type, OPENIPU_END) { \
    (void)cache;                                                                                           \
    return openipu::call("poplin", #function, prog, context, graph, a, b, openipu::ProgramHole(), type,    \
                         context.getPathName(), options)                                                   \
        .tensor();                                                                                         \
  }                                                                                                        \
  inline poplar::Tensor function(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,   \
                                 poplar::program::Sequence &prog, OPENIPU_END) {                           \
    return function(graph, a, b, prog, a.elementType(), context, options, cache);                          \
  }
OPENIPU_PRODUCT(matMul)
OPENIPU_PRODUCT(matMulGrouped)
#undef OPENIPU_PRODUCT

inline void matMulWithOutput(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,
                             poplar::Tensor &out, poplar::program::Sequence &prog, OPENIPU_END) {
  (void)cache;
  openipu::call("poplin", "matMulWithOutput", prog, context, graph, a, b, out, openipu::ProgramHole(),
                context.getPathName(), options);
}

// c += k * a * b
#define OPENIPU_ACCUMULATE(function, number)                                                             \
  inline void function(poplar::Graph &graph, const poplar::Tensor &c, number k, const poplar::Tensor &a, \
                       const poplar::Tensor &b, poplar::program::Sequence &prog, OPENIPU_END) {          \
    (void)cache;                                                                                         \
    openipu::call("poplin", #function, prog, context, graph, c, k, a, b, openipu::ProgramHole(),         \
                  context.getPathName(), options);                                                       \
  }
OPENIPU_ACCUMULATE(matMulAcc, float)
OPENIPU_ACCUMULATE(matMulAcc, const poplar::Tensor &)
OPENIPU_ACCUMULATE(matMulGroupedAcc, float)
OPENIPU_ACCUMULATE(matMulGroupedAcc, const poplar::Tensor &)
#undef OPENIPU_ACCUMULATE

#define OPENIPU_OPERAND(function) OPENIPU_OPERAND_OF(function, type)
#define OPENIPU_OPERAND_OF(function, chosen)                                                                          \
  inline poplar::Tensor function(poplar::Graph &graph, const poplar::Type &type, const std::vector<std::size_t> &a,   \
                                 const std::vector<std::size_t> &b, OPENIPU_END) {                                    \
    (void)cache;                                                                                                      \
    return openipu::callWith("poplin", #function, nullptr, nullptr, context, graph, type, openipu::numbers(a),        \
                             openipu::numbers(b), context.getPathName(), options)                                     \
        .tensor();                                                                                                    \
  }                                                                                                                   \
  inline poplar::Tensor function(poplar::Graph &graph, const poplar::Type &type, const poplar::Type &outputType,      \
                                 const std::vector<std::size_t> &a, const std::vector<std::size_t> &b, OPENIPU_END) { \
    (void)type, (void)outputType;                                                                                     \
    return function(graph, chosen, a, b, context, options, cache);                                                    \
  }
OPENIPU_OPERAND(createMatMulInputLHS)
OPENIPU_OPERAND(createMatMulInputRHS)
OPENIPU_OPERAND(createMatMulGroupedInputLHS)
OPENIPU_OPERAND(createMatMulGroupedInputRHS)
OPENIPU_OPERAND_OF(createMatMulOutput, outputType)
OPENIPU_OPERAND_OF(createMatMulGroupedOutput, outputType)
#undef OPENIPU_OPERAND
#undef OPENIPU_OPERAND_OF

inline void matMulGroupedWithOutput(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,
                                    poplar::Tensor &out, poplar::program::Sequence &prog, OPENIPU_END) {
  (void)cache;
  openipu::call("poplin", "matMulGroupedWithOutput", prog, context, graph, a, b, out, openipu::ProgramHole(),
                context.getPathName(), options);
}
#define OPENIPU_ARRANGE(function)                                                                                \
  inline poplar::Tensor function(poplar::Graph &graph, const std::vector<std::size_t> &aShape,                   \
                                 const poplar::Tensor &b, poplar::program::Sequence &prog, OPENIPU_END) {        \
    (void)options, (void)cache;                                                                                  \
    return openipu::call("poplin", #function, prog, context, graph, openipu::numbers(aShape), b,                 \
                         openipu::ProgramHole(), context.getPathName())                                          \
        .tensor();                                                                                               \
  }                                                                                                              \
  inline poplar::Tensor function(poplar::Graph &graph, const std::vector<std::size_t> &aShape,                   \
                                 const poplar::Tensor &b, poplar::program::Sequence &prog, const poplar::Type &, \
                                 OPENIPU_END) {                                                                  \
    return function(graph, aShape, b, prog, context, options, cache);                                            \
  }
OPENIPU_ARRANGE(preArrangeMatMulInputRHS)
OPENIPU_ARRANGE(preArrangeMatMulGroupedInputRHS)
#undef OPENIPU_ARRANGE
inline poplar::Tensor transposeGroupedMatrix(const poplar::Tensor &a) { return a.dimShuffle({0, 2, 1}); }
#undef OPENIPU_END

// Plans are made when a program is planned; these are here to be passed on.
struct MatMulParams {
  poplar::Type inputType, outputType;
  std::vector<std::size_t> aShape, bShape;
};
using MatMulPlanParams = std::tuple<const poplar::Target *, const MatMulParams, const poplar::OptionFlags *>;
template <typename MatMuls> void preplanMatMuls(const MatMuls &, PlanningCache &) {}

} // namespace poplin

#endif
