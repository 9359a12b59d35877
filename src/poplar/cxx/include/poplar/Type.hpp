// Element types. Part of openipu, written independently.
#ifndef openipu_poplar_Type_hpp
#define openipu_poplar_Type_hpp

#include <poplar/HalfFloat.hpp>

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>

namespace poplar {

class Type {
public:
  constexpr Type() : code_(0) {}
  constexpr explicit Type(unsigned char code) : code_(code) {}
  std::string toString() const;
  unsigned code() const { return code_; }
  std::size_t bytes() const; // on a tile

private:
  unsigned char code_;
};

inline bool operator==(Type a, Type b) { return a.code() == b.code(); }
inline bool operator!=(Type a, Type b) { return a.code() != b.code(); }
inline bool operator<(Type a, Type b) { return a.code() < b.code(); }
inline std::ostream &operator<<(std::ostream &out, Type type) { return out << type.toString(); }

// The order is that of poplar/server/wire.py.
constexpr Type UNSPECIFIED_TYPE(0);
constexpr Type BOOL(1), CHAR(2), UNSIGNED_CHAR(3), SIGNED_CHAR(4), SHORT(5), UNSIGNED_SHORT(6), INT(7), UNSIGNED_INT(8),
    LONG(9), UNSIGNED_LONG(10), LONGLONG(11), UNSIGNED_LONGLONG(12), QUARTER(13), HALF(14), FLOAT(15);

// The type on a device that holds values of a type of the host.
template <typename T> struct equivalent_device_type;
#define OPENIPU_DEVICE_TYPE(type, device)                                                          \
  template <> struct equivalent_device_type<type> {                                                \
    const Type &value = device;                                                                    \
  };
OPENIPU_DEVICE_TYPE(bool, BOOL)
OPENIPU_DEVICE_TYPE(char, CHAR)
OPENIPU_DEVICE_TYPE(unsigned char, UNSIGNED_CHAR)
OPENIPU_DEVICE_TYPE(signed char, SIGNED_CHAR)
OPENIPU_DEVICE_TYPE(short, SHORT)
OPENIPU_DEVICE_TYPE(unsigned short, UNSIGNED_SHORT)
OPENIPU_DEVICE_TYPE(int, INT)
OPENIPU_DEVICE_TYPE(unsigned, UNSIGNED_INT)
OPENIPU_DEVICE_TYPE(long, LONG)
OPENIPU_DEVICE_TYPE(unsigned long, UNSIGNED_LONG)
OPENIPU_DEVICE_TYPE(long long, LONGLONG)
OPENIPU_DEVICE_TYPE(unsigned long long, UNSIGNED_LONGLONG)
OPENIPU_DEVICE_TYPE(half, HALF)
OPENIPU_DEVICE_TYPE(float, FLOAT)
OPENIPU_DEVICE_TYPE(double, FLOAT)
#undef OPENIPU_DEVICE_TYPE

} // namespace poplar

namespace std {
template <> struct hash<poplar::Type> {
  size_t operator()(poplar::Type type) const { return type.code(); }
};
} // namespace std

#endif
