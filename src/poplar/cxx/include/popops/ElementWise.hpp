// Elementwise functions. Part of openipu, written independently.
#ifndef openipu_popops_ElementWise_hpp
#define openipu_popops_ElementWise_hpp

#include <popops/Expr.hpp>
#include <popops/codelets.hpp>

#include <type_traits>
#include <vector>

namespace popops {

#define OPENIPU_TAIL                                                                               \
  poplar::program::Sequence &prog, const poplar::DebugContext &context = {},                       \
      const poplar::OptionFlags &options = {}
#define OPENIPU_REST openipu::ProgramHole(), context.getPathName(), options
#define OPENIPU_IF_NUMBER(T) typename = typename std::enable_if<std::is_arithmetic<T>::value>::type

// Expressions: _1 is the first tensor.
inline poplar::Tensor map(poplar::Graph &graph, const expr::Expr &expr, const std::vector<poplar::Tensor> &ts,
                          OPENIPU_TAIL) {
  return openipu::call("popops", "map", prog, context, graph, expr.named(), ts, OPENIPU_REST).tensor();
}
inline void mapInPlace(poplar::Graph &graph, const expr::Expr &expr, const std::vector<poplar::Tensor> &ts,
                       OPENIPU_TAIL) {
  openipu::call("popops", "mapInPlace", prog, context, graph, expr.named(), ts, OPENIPU_REST);
}
inline void mapWithOutput(poplar::Graph &graph, const expr::Expr &expr, const std::vector<poplar::Tensor> &ts,
                          const poplar::Tensor &out, OPENIPU_TAIL) {
  openipu::call("popops", "mapWithOutput", prog, context, graph, expr.named(), ts, out, OPENIPU_REST);
}
inline poplar::Tensor map(poplar::Graph &graph, expr::UnaryOpType op, const poplar::Tensor &t, OPENIPU_TAIL) {
  return map(graph, expr::UnaryOp(op, expr::_1), {t}, prog, context, options);
}
inline poplar::Tensor map(poplar::Graph &graph, expr::BinaryOpType op, const poplar::Tensor &a,
                          const poplar::Tensor &b, OPENIPU_TAIL) {
  return map(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, prog, context, options);
}
inline poplar::Tensor map(poplar::Graph &graph, expr::TernaryOpType op, const poplar::Tensor &a,
                          const poplar::Tensor &b, const poplar::Tensor &c, OPENIPU_TAIL) {
  return map(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, prog, context, options);
}
inline void mapInPlace(poplar::Graph &graph, expr::UnaryOpType op, const poplar::Tensor &t, OPENIPU_TAIL) {
  mapInPlace(graph, expr::UnaryOp(op, expr::_1), {t}, prog, context, options);
}
inline void mapInPlace(poplar::Graph &graph, expr::BinaryOpType op, const poplar::Tensor &a, const poplar::Tensor &b,
                       OPENIPU_TAIL) {
  mapInPlace(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, prog, context, options);
}
inline void mapInPlace(poplar::Graph &graph, expr::TernaryOpType op, const poplar::Tensor &a, const poplar::Tensor &b,
                       const poplar::Tensor &c, OPENIPU_TAIL) {
  mapInPlace(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, prog, context, options);
}

#define OPENIPU_UNARY(name)                                                                        \
  inline poplar::Tensor name(poplar::Graph &graph, const poplar::Tensor &a, OPENIPU_TAIL) {        \
    return openipu::call("popops", #name, prog, context, graph, a, OPENIPU_REST).tensor();         \
  }                                                                                                \
  inline void name##InPlace(poplar::Graph &graph, const poplar::Tensor &a, OPENIPU_TAIL) {         \
    openipu::call("popops", #name "InPlace", prog, context, graph, a, OPENIPU_REST);               \
  }                                                                                                \
  inline void name##WithOutput(poplar::Graph &graph, const poplar::Tensor &a,                      \
                               const poplar::Tensor &out, OPENIPU_TAIL) {                          \
    openipu::call("popops", #name "WithOutput", prog, context, graph, a, out, OPENIPU_REST);       \
  }
OPENIPU_UNARY(abs)
OPENIPU_UNARY(asin)
OPENIPU_UNARY(bitwiseNot)
OPENIPU_UNARY(cbrt)
OPENIPU_UNARY(ceil)
OPENIPU_UNARY(countLeadingZeros)
OPENIPU_UNARY(cos)
OPENIPU_UNARY(erf)
OPENIPU_UNARY(exp)
OPENIPU_UNARY(exp2)
OPENIPU_UNARY(expm1)
OPENIPU_UNARY(floor)
OPENIPU_UNARY(geluErf)
OPENIPU_UNARY(inv)
OPENIPU_UNARY(isFinite)
OPENIPU_UNARY(isInf)
OPENIPU_UNARY(isNaN)
OPENIPU_UNARY(log)
OPENIPU_UNARY(log1p)
OPENIPU_UNARY(logicalNot)
OPENIPU_UNARY(neg)
OPENIPU_UNARY(popcount)
OPENIPU_UNARY(relu)
OPENIPU_UNARY(round)
OPENIPU_UNARY(rsqrt)
OPENIPU_UNARY(sigmoid)
OPENIPU_UNARY(signum)
OPENIPU_UNARY(sin)
OPENIPU_UNARY(sqrt)
OPENIPU_UNARY(square)
OPENIPU_UNARY(tan)
OPENIPU_UNARY(tanh)
OPENIPU_UNARY(trunc)
OPENIPU_UNARY(nearbyint)
#undef OPENIPU_UNARY

#define OPENIPU_BINARY(name)                                                                       \
  inline poplar::Tensor name(poplar::Graph &graph, const poplar::Tensor &a,                        \
                             const poplar::Tensor &b, OPENIPU_TAIL) {                              \
    return openipu::call("popops", #name, prog, context, graph, a, b, OPENIPU_REST).tensor();      \
  }                                                                                                \
  template <typename T, OPENIPU_IF_NUMBER(T)>                                                      \
  inline poplar::Tensor name(poplar::Graph &graph, const poplar::Tensor &a, T b, OPENIPU_TAIL) {   \
    return openipu::call("popops", #name, prog, context, graph, a, b, OPENIPU_REST).tensor();      \
  }                                                                                                \
  template <typename T, OPENIPU_IF_NUMBER(T)>                                                      \
  inline poplar::Tensor name(poplar::Graph &graph, T a, const poplar::Tensor &b, OPENIPU_TAIL) {   \
    return openipu::call("popops", #name, prog, context, graph, a, b, OPENIPU_REST).tensor();      \
  }                                                                                                \
  inline void name##InPlace(poplar::Graph &graph, const poplar::Tensor &a,                         \
                            const poplar::Tensor &b, OPENIPU_TAIL) {                               \
    openipu::call("popops", #name "InPlace", prog, context, graph, a, b, OPENIPU_REST);            \
  }                                                                                                \
  template <typename T, OPENIPU_IF_NUMBER(T)>                                                      \
  inline void name##InPlace(poplar::Graph &graph, const poplar::Tensor &a, T b, OPENIPU_TAIL) {    \
    openipu::call("popops", #name "InPlace", prog, context, graph, a, b, OPENIPU_REST);            \
  }                                                                                                \
  inline void name##WithOutput(poplar::Graph &graph, const poplar::Tensor &a,                      \
                               const poplar::Tensor &b, const poplar::Tensor &out, OPENIPU_TAIL) { \
    openipu::call("popops", #name "WithOutput", prog, context, graph, a, b, out, OPENIPU_REST);    \
  }
OPENIPU_BINARY(add)
OPENIPU_BINARY(atan2)
OPENIPU_BINARY(bitwiseAnd)
OPENIPU_BINARY(bitwiseOr)
OPENIPU_BINARY(bitwiseXor)
OPENIPU_BINARY(bitwiseXnor)
OPENIPU_BINARY(div)
OPENIPU_BINARY(eq)
OPENIPU_BINARY(gteq)
OPENIPU_BINARY(gt)
OPENIPU_BINARY(invStdDevToVariance)
OPENIPU_BINARY(lteq)
OPENIPU_BINARY(logicalAnd)
OPENIPU_BINARY(logicalOr)
OPENIPU_BINARY(lt)
OPENIPU_BINARY(max)
OPENIPU_BINARY(min)
OPENIPU_BINARY(mul)
OPENIPU_BINARY(neq)
OPENIPU_BINARY(pow)
OPENIPU_BINARY(rem)
OPENIPU_BINARY(shiftLeft)
OPENIPU_BINARY(shiftRight)
OPENIPU_BINARY(shiftRightSignExtend)
OPENIPU_BINARY(sub)
OPENIPU_BINARY(varianceToInvStdDev)
#undef OPENIPU_BINARY

#define OPENIPU_TERNARY(name)                                                                      \
  inline poplar::Tensor name(poplar::Graph &graph, const poplar::Tensor &a,                        \
                             const poplar::Tensor &b, const poplar::Tensor &c, OPENIPU_TAIL) {     \
    return openipu::call("popops", #name, prog, context, graph, a, b, c, OPENIPU_REST).tensor();   \
  }                                                                                                \
  inline void name##InPlace(poplar::Graph &graph, const poplar::Tensor &a,                         \
                            const poplar::Tensor &b, const poplar::Tensor &c, OPENIPU_TAIL) {      \
    openipu::call("popops", #name "InPlace", prog, context, graph, a, b, c, OPENIPU_REST);         \
  }                                                                                                \
  inline void name##WithOutput(poplar::Graph &graph, const poplar::Tensor &a,                      \
                               const poplar::Tensor &b, const poplar::Tensor &c,                   \
                               const poplar::Tensor &out, OPENIPU_TAIL) {                          \
    openipu::call("popops", #name "WithOutput", prog, context, graph, a, b, c, out, OPENIPU_REST); \
  }
#define OPENIPU_TERNARY_FORMS(name, First, Second, Third)                                          \
  inline poplar::Tensor name(poplar::Graph &graph, First a, Second b, Third c, OPENIPU_TAIL) {     \
    return openipu::call("popops", #name, prog, context, graph, a, b, c, OPENIPU_REST).tensor();   \
  }                                                                                                \
  inline void name##WithOutput(poplar::Graph &graph, First a, Second b, Third c,                   \
                               const poplar::Tensor &out, OPENIPU_TAIL) {                          \
    openipu::call("popops", #name "WithOutput", prog, context, graph, a, b, c, out, OPENIPU_REST); \
  }
OPENIPU_TERNARY_FORMS(select, float, const poplar::Tensor &, const poplar::Tensor &)
OPENIPU_TERNARY_FORMS(select, const poplar::Tensor &, float, const poplar::Tensor &)
OPENIPU_TERNARY_FORMS(select, float, float, const poplar::Tensor &)
OPENIPU_TERNARY_FORMS(clamp, const poplar::Tensor &, float, float)
OPENIPU_TERNARY_FORMS(clamp, const poplar::Tensor &, const poplar::Tensor &, float)
OPENIPU_TERNARY_FORMS(clamp, const poplar::Tensor &, float, const poplar::Tensor &)
#undef OPENIPU_TERNARY_FORMS
inline void clampInPlace(poplar::Graph &graph, const poplar::Tensor &a, float b, float c, OPENIPU_TAIL) {
  openipu::call("popops", "clampInPlace", prog, context, graph, a, b, c, OPENIPU_REST);
}
inline void selectInPlace(poplar::Graph &graph, const poplar::Tensor &a, float b, const poplar::Tensor &c, OPENIPU_TAIL) {
  openipu::call("popops", "selectInPlace", prog, context, graph, a, b, c, OPENIPU_REST);
}
OPENIPU_TERNARY(select)
OPENIPU_TERNARY(clamp)
#undef OPENIPU_TERNARY
#undef OPENIPU_TAIL
#undef OPENIPU_REST
#undef OPENIPU_IF_NUMBER

} // namespace popops

#endif
