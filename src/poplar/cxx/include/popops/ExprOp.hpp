// Elementwise operations by name. Part of openipu, written independently.
#ifndef openipu_popops_ExprOp_hpp
#define openipu_popops_ExprOp_hpp

#include <openipu/library.hpp>

namespace popops {
namespace expr {

enum class UnaryOpType {
  ABSOLUTE, ASIN, BITWISE_NOT, CBRT, CEIL, COS, COUNT_LEADING_ZEROS, ERF, EXPONENT, EXPONENT_MINUS_ONE, FLOOR,
  GELU_ERF, INVERSE, IS_FINITE, IS_INF, IS_NAN, LOGARITHM, LOGARITHM_ONE_PLUS, LOGICAL_NOT, NEGATE, POPCOUNT, RELU,
  ROUND, RSQRT, SIGMOID, SIGNUM, SIN, SQRT, SQUARE, TAN, TANH, TRUNC, NEARBY_INT
};
enum class BinaryOpType {
  ADD, ATAN2, BITWISE_AND, BITWISE_OR, BITWISE_XOR, BITWISE_XNOR, DIVIDE, EQUAL, GREATER_THAN_EQUAL, GREATER_THAN,
  INV_STD_DEV_TO_VARIANCE, LESS_THAN_EQUAL, LOGICAL_AND, LOGICAL_OR, LESS_THAN, MAXIMUM, MINIMUM, MULTIPLY, NOT_EQUAL,
  POWER, REMAINDER, SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_SIGN_EXTEND, SUBTRACT, VARIANCE_TO_INV_STD_DEV
};
enum class TernaryOpType { CLAMP, SELECT };

inline openipu::Named name(UnaryOpType op) {
  static const char *const names[] = {
      "ABSOLUTE", "ASIN", "BITWISE_NOT", "CBRT", "CEIL", "COS", "COUNT_LEADING_ZEROS", "ERF", "EXPONENT",
      "EXPONENT_MINUS_ONE", "FLOOR", "GELU_ERF", "INVERSE", "IS_FINITE", "IS_INF", "IS_NAN", "LOGARITHM",
      "LOGARITHM_ONE_PLUS", "LOGICAL_NOT", "NEGATE", "POPCOUNT", "RELU", "ROUND", "RSQRT", "SIGMOID", "SIGNUM", "SIN",
      "SQRT", "SQUARE", "TAN", "TANH", "TRUNC", "NEARBY_INT"};
  return openipu::Named(std::string("popops.expr.UnaryOpType.") + names[static_cast<int>(op)]);
}
inline openipu::Named name(BinaryOpType op) {
  static const char *const names[] = {
      "ADD", "ATAN2", "BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "BITWISE_XNOR", "DIVIDE", "EQUAL",
      "GREATER_THAN_EQUAL", "GREATER_THAN", "INV_STD_DEV_TO_VARIANCE", "LESS_THAN_EQUAL", "LOGICAL_AND", "LOGICAL_OR",
      "LESS_THAN", "MAXIMUM", "MINIMUM", "MULTIPLY", "NOT_EQUAL", "POWER", "REMAINDER", "SHIFT_LEFT", "SHIFT_RIGHT",
      "SHIFT_RIGHT_SIGN_EXTEND", "SUBTRACT", "VARIANCE_TO_INV_STD_DEV"};
  return openipu::Named(std::string("popops.expr.BinaryOpType.") + names[static_cast<int>(op)]);
}
inline openipu::Named name(TernaryOpType op) {
  return openipu::Named(std::string("popops.expr.TernaryOpType.") + (op == TernaryOpType::CLAMP ? "CLAMP" : "SELECT"));
}

} // namespace expr
} // namespace popops

#endif
