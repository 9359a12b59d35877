// Expressions of elementwise operations. Part of openipu, written independently.
#ifndef openipu_popops_Expr_hpp
#define openipu_popops_Expr_hpp

#include <popops/ExprOp.hpp>

#include <type_traits>

namespace popops {
namespace expr {

class Expr {
public:
  const openipu::Named &named() const { return named_; }

protected:
  explicit Expr(openipu::Named named) : named_(std::move(named)) {}
  openipu::Named named_;
};

inline void put(openipu::Writer &out, const Expr &expr) { expr.named().write(out); }

class PlaceHolder : public Expr {
public:
  explicit PlaceHolder(unsigned index) : Expr(openipu::Named::make("popops.expr.PlaceHolder", index)) {}
};

class Const : public Expr {
public:
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  Const(T value) : Expr(openipu::Named::make("popops.expr.Const", value)) {}
};
class ConstHalf : public Expr {
public:
  explicit ConstHalf(float value) : Expr(openipu::Named::make("popops.expr.ConstHalf", value)) {}
};

// A number in place of an expression.
class Any : public Expr {
public:
  Any(const Expr &expr) : Expr(expr.named()) {}
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  Any(T value) : Expr(openipu::Named::make("popops.expr.Const", value)) {}
};

const PlaceHolder _1(1), _2(2), _3(3), _4(4), _5(5), _6(6), _7(7), _8(8), _9(9), _10(10),
    _11(11), _12(12), _13(13), _14(14), _15(15), _16(16), _17(17), _18(18), _19(19), _20(20);

class Cast : public Expr {
public:
  Cast(const Any &a, const poplar::Type &type) : Expr(openipu::Named::make("popops.expr.Cast", a.named(), type)) {}
};

class UnaryOp : public Expr {
public:
  UnaryOp(UnaryOpType type, const Any &a) : Expr(openipu::Named::make("popops.expr.UnaryOp", name(type), a.named())) {}

protected:
  using Expr::Expr;
};
class BinaryOp : public Expr {
public:
  BinaryOp(BinaryOpType type, const Any &a, const Any &b)
      : Expr(openipu::Named::make("popops.expr.BinaryOp", name(type), a.named(), b.named())) {}

protected:
  using Expr::Expr;
};
class TernaryOp : public Expr {
public:
  TernaryOp(TernaryOpType type, const Any &a, const Any &b, const Any &c)
      : Expr(openipu::Named::make("popops.expr.TernaryOp", name(type), a.named(), b.named(), c.named())) {}

protected:
  using Expr::Expr;
};
#define OPENIPU_UNARY(Name)                                                                        \
  class Name : public Expr {                                                                       \
  public:                                                                                          \
    explicit Name(const Any &a) : Expr(openipu::Named::make("popops.expr." #Name, a.named())) {}   \
  };
OPENIPU_UNARY(Abs)
OPENIPU_UNARY(Asin)
OPENIPU_UNARY(BitwiseNot)
OPENIPU_UNARY(Cbrt)
OPENIPU_UNARY(Ceil)
OPENIPU_UNARY(Cos)
OPENIPU_UNARY(Erf)
OPENIPU_UNARY(Exp)
OPENIPU_UNARY(Expm1)
OPENIPU_UNARY(Floor)
OPENIPU_UNARY(GeluErf)
OPENIPU_UNARY(Inv)
OPENIPU_UNARY(IsFinite)
OPENIPU_UNARY(IsInf)
OPENIPU_UNARY(IsNaN)
OPENIPU_UNARY(Log)
OPENIPU_UNARY(Log1p)
OPENIPU_UNARY(Neg)
OPENIPU_UNARY(Not)
OPENIPU_UNARY(Relu)
OPENIPU_UNARY(Round)
OPENIPU_UNARY(Rsqrt)
OPENIPU_UNARY(Sigmoid)
OPENIPU_UNARY(Signum)
OPENIPU_UNARY(Sin)
OPENIPU_UNARY(Sqrt)
OPENIPU_UNARY(Square)
OPENIPU_UNARY(Tan)
OPENIPU_UNARY(Tanh)
OPENIPU_UNARY(Trunc)
OPENIPU_UNARY(NearbyInt)
#undef OPENIPU_UNARY

#define OPENIPU_BINARY(Name)                                                                       \
  class Name : public Expr {                                                                       \
  public:                                                                                          \
    Name(const Any &a, const Any &b)                                                               \
        : Expr(openipu::Named::make("popops.expr." #Name, a.named(), b.named())) {}                \
  };
OPENIPU_BINARY(Add)
OPENIPU_BINARY(Atan2)
OPENIPU_BINARY(BitwiseAnd)
OPENIPU_BINARY(BitwiseOr)
OPENIPU_BINARY(BitwiseXor)
OPENIPU_BINARY(BitwiseXnor)
OPENIPU_BINARY(Divide)
OPENIPU_BINARY(Equal)
OPENIPU_BINARY(Gte)
OPENIPU_BINARY(Gt)
OPENIPU_BINARY(Lte)
OPENIPU_BINARY(Lt)
OPENIPU_BINARY(And)
OPENIPU_BINARY(Or)
OPENIPU_BINARY(Max)
OPENIPU_BINARY(Min)
OPENIPU_BINARY(Mul)
OPENIPU_BINARY(NotEqual)
OPENIPU_BINARY(Pow)
OPENIPU_BINARY(Rem)
OPENIPU_BINARY(Shl)
OPENIPU_BINARY(Shr)
OPENIPU_BINARY(ShrSE)
OPENIPU_BINARY(Sub)
OPENIPU_BINARY(InvStdDevToVariance)
OPENIPU_BINARY(VarianceToInvStdDev)
#undef OPENIPU_BINARY

#define OPENIPU_TERNARY(Name)                                                                      \
  class Name : public Expr {                                                                       \
  public:                                                                                          \
    Name(const Any &a, const Any &b, const Any &c)                                                 \
        : Expr(openipu::Named::make("popops.expr." #Name, a.named(), b.named(), c.named())) {}     \
  };
OPENIPU_TERNARY(Select)
OPENIPU_TERNARY(Clamp)
#undef OPENIPU_TERNARY

#define OPENIPU_OPERATOR(symbol, Name)                                                             \
  inline Name operator symbol(const Expr &a, const Expr &b) { return Name(a, b); }                 \
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>    \
  inline Name operator symbol(const Expr &a, T b) {                                                \
    return Name(a, b);                                                                             \
  }                                                                                                \
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>    \
  inline Name operator symbol(T a, const Expr &b) {                                                \
    return Name(a, b);                                                                             \
  }
OPENIPU_OPERATOR(+, Add)
OPENIPU_OPERATOR(-, Sub)
OPENIPU_OPERATOR(*, Mul)
OPENIPU_OPERATOR(/, Divide)
OPENIPU_OPERATOR(==, Equal)
OPENIPU_OPERATOR(!=, NotEqual)
OPENIPU_OPERATOR(>=, Gte)
OPENIPU_OPERATOR(>, Gt)
OPENIPU_OPERATOR(<=, Lte)
OPENIPU_OPERATOR(<, Lt)
OPENIPU_OPERATOR(&&, And)
OPENIPU_OPERATOR(||, Or)
OPENIPU_OPERATOR(%, Rem)
OPENIPU_OPERATOR(&, BitwiseAnd)
OPENIPU_OPERATOR(|, BitwiseOr)
OPENIPU_OPERATOR(^, BitwiseXor)
OPENIPU_OPERATOR(<<, Shl)
OPENIPU_OPERATOR(>>, Shr)
#undef OPENIPU_OPERATOR
inline Neg operator-(const Expr &a) { return Neg(a); }
inline Not operator!(const Expr &a) { return Not(a); }
inline BitwiseNot operator~(const Expr &a) { return BitwiseNot(a); }

} // namespace expr
} // namespace popops

#endif
