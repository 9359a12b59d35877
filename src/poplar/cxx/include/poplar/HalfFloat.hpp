// The 16-bit floating-point type of codelets. Each operation is computed in float and rounded to nearest even.
// Part of openipu, written independently.
#ifndef openipu_poplar_HalfFloat_hpp
#define openipu_poplar_HalfFloat_hpp

#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>

namespace poplar {

class half {
public:
  half() = default;
  half(float value) : bits_(encode(value)) {}
  template <typename N, typename = typename std::enable_if<std::is_arithmetic<N>::value>::type>
  half(N value) : bits_(encode(static_cast<float>(value))) {}

  operator float() const { return decode(bits_); }

  static half fromBits(std::uint16_t bits) {
    half made;
    made.bits_ = bits;
    return made;
  }
  std::uint16_t bits() const { return bits_; }

  half operator-() const { return fromBits(bits_ ^ 0x8000u); }
  half operator+() const { return *this; }
  half &operator+=(half other) { return *this = half(float(*this) + float(other)); }
  half &operator-=(half other) { return *this = half(float(*this) - float(other)); }
  half &operator*=(half other) { return *this = half(float(*this) * float(other)); }
  half &operator/=(half other) { return *this = half(float(*this) / float(other)); }
  half &operator++() { return *this += half(1.0f); }
  half &operator--() { return *this -= half(1.0f); }
  half operator++(int) {
    half before = *this;
    ++*this;
    return before;
  }
  half operator--(int) {
    half before = *this;
    --*this;
    return before;
  }

private:
  std::uint16_t bits_;

  static float decode(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 31u;
    std::uint32_t fraction = bits & 1023u;
    std::uint32_t word;
    if (exponent == 31) {
      word = sign | 0x7f800000u | (fraction << 13);
    } else if (exponent != 0) {
      word = sign | ((exponent + 112u) << 23) | (fraction << 13);
    } else if (fraction == 0) {
      word = sign;
    } else { // a subnormal number has a normal form in float
      std::uint32_t shifted = 113;
      while (!(fraction & 1024u)) {
        fraction <<= 1;
        --shifted;
      }
      word = sign | (shifted << 23) | ((fraction & 1023u) << 13);
    }
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }

  static std::uint16_t encode(float value) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) // not a number stays one
      return static_cast<std::uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) // rounds to 65536 or more
      return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) { // normal in half
      const std::uint32_t odd = (magnitude >> 13) & 1u;
      return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
    }
    float positive; // adding a power of two lets the processor round the subnormal
    std::memcpy(&positive, &magnitude, sizeof positive);
    positive += 0.5f;
    std::uint32_t rounded;
    std::memcpy(&rounded, &positive, sizeof rounded);
    return static_cast<std::uint16_t>(sign | (rounded - 0x3f000000u));
  }
};

static_assert(sizeof(half) == 2, "a half takes two bytes");

namespace detail {
// half with half, or with an integer, is half; half with float or double is that.
template <typename N>
using with_half = typename std::conditional<std::is_floating_point<N>::value, N, half>::type;
template <typename N> using if_number = typename std::enable_if<std::is_arithmetic<N>::value>::type;
} // namespace detail

#define OPENIPU_HALF_ARITHMETIC(op)                                                                \
  inline half operator op(half a, half b) { return half(float(a) op float(b)); }                   \
  template <typename N, typename = detail::if_number<N>>                                           \
  inline detail::with_half<N> operator op(half a, N b) {                                           \
    return detail::with_half<N>(float(a) op b);                                                    \
  }                                                                                                \
  template <typename N, typename = detail::if_number<N>>                                           \
  inline detail::with_half<N> operator op(N a, half b) {                                           \
    return detail::with_half<N>(a op float(b));                                                    \
  }
OPENIPU_HALF_ARITHMETIC(+)
OPENIPU_HALF_ARITHMETIC(-)
OPENIPU_HALF_ARITHMETIC(*)
OPENIPU_HALF_ARITHMETIC(/)
#undef OPENIPU_HALF_ARITHMETIC

#define OPENIPU_HALF_COMPARISON(op)                                                                \
  inline bool operator op(half a, half b) { return float(a) op float(b); }                         \
  template <typename N, typename = detail::if_number<N>> inline bool operator op(half a, N b) {    \
    return float(a) op b;                                                                          \
  }                                                                                                \
  template <typename N, typename = detail::if_number<N>> inline bool operator op(N a, half b) {    \
    return a op float(b);                                                                          \
  }
OPENIPU_HALF_COMPARISON(==)
OPENIPU_HALF_COMPARISON(!=)
OPENIPU_HALF_COMPARISON(<)
OPENIPU_HALF_COMPARISON(<=)
OPENIPU_HALF_COMPARISON(>)
OPENIPU_HALF_COMPARISON(>=)
#undef OPENIPU_HALF_COMPARISON

inline std::ostream &operator<<(std::ostream &out, half value) { return out << float(value); }

} // namespace poplar

using poplar::half;

namespace std {
template <> class numeric_limits<poplar::half> {
public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr int digits = 11;
  static constexpr int digits10 = 3;
  static constexpr int max_exponent = 16;
  static constexpr int min_exponent = -13;
  static poplar::half max() { return poplar::half::fromBits(0x7bff); }
  static poplar::half lowest() { return poplar::half::fromBits(0xfbff); }
  static poplar::half min() { return poplar::half::fromBits(0x0400); }
  static poplar::half epsilon() { return poplar::half::fromBits(0x1400); }
  static poplar::half denorm_min() { return poplar::half::fromBits(0x0001); }
  static poplar::half infinity() { return poplar::half::fromBits(0x7c00); }
  static poplar::half quiet_NaN() { return poplar::half::fromBits(0x7e00); }
};
} // namespace std

#endif
