// What one compiled file of codelets says about itself, for the runner. Part of openipu.
#ifndef openipu_poplar_Codelet_hpp
#define openipu_poplar_Codelet_hpp

#include <poplar/Vertex.hpp>

#include <utility>

namespace openipu {

// The letters are written into the description of a library; the reader is poplar/native/description.py.
enum Kind : char { STATE = 's', INPUT = 'i', OUTPUT = 'o', INOUT = 'b' };
enum Form : char { SCALAR = '1', VECTOR = 'v', ROWS = 'r', POINTERS = 'p', OPAQUE = '?' };

struct FieldEntry {
  const char *name;
  Kind kind;
  Form form;
  const char *type;
  std::size_t elementBytes;
  std::size_t offset;
  std::size_t bytes;
  std::size_t alignment; // of the member in the vertex
  std::size_t minAlign;  // of its data, as the codelet demands
};

struct VertexEntry {
  const char *name;
  const char *base; // "Vertex", "MultiVertex" or "SupervisorVertex"
  std::size_t bytes;
  std::size_t alignment;
  const FieldEntry *fields;
  std::size_t fieldCount;
  bool (*compute)(void *vertex);
};

template <typename T> struct TypeName {
  static constexpr const char *value = "";
};
#define OPENIPU_TYPE(type, text)                                                                   \
  template <> struct TypeName<type> {                                                              \
    static constexpr const char *value = text;                                                     \
  };
OPENIPU_TYPE(float, "float")
OPENIPU_TYPE(double, "double")
OPENIPU_TYPE(poplar::half, "half")
OPENIPU_TYPE(bool, "bool")
OPENIPU_TYPE(char, "char")
OPENIPU_TYPE(signed char, "signed char")
OPENIPU_TYPE(unsigned char, "unsigned char")
OPENIPU_TYPE(short, "short")
OPENIPU_TYPE(unsigned short, "unsigned short")
OPENIPU_TYPE(int, "int")
OPENIPU_TYPE(unsigned, "unsigned int")
OPENIPU_TYPE(long, "long")
OPENIPU_TYPE(unsigned long, "unsigned long")
OPENIPU_TYPE(long long, "long long")
OPENIPU_TYPE(unsigned long long, "unsigned long long")
#undef OPENIPU_TYPE

template <typename T, bool IsEnum = std::is_enum<T>::value> struct Plain {
  using type = T;
};
template <typename T> struct Plain<T, true> {
  using type = typename std::underlying_type<T>::type;
};

template <typename T> struct Shape { // anything that is not a field is state of the vertex
  using element = typename Plain<T>::type;
  static constexpr Kind kind = STATE;
  static constexpr Form form = TypeName<element>::value[0] ? SCALAR : OPAQUE;
  static constexpr std::size_t minAlign = alignof(T);
};
template <typename T, poplar::VectorLayout L, unsigned A, bool I> struct Shape<poplar::Vector<T, L, A, I>> {
  using element = T;
  static constexpr Kind kind = STATE;
  static constexpr Form form = VECTOR;
  static constexpr std::size_t minAlign = A > alignof(T) ? A : alignof(T);
};

#define OPENIPU_EDGE(field, letter)                                                                \
  template <typename T> struct Shape<poplar::field<T>> {                                           \
    using element = T;                                                                             \
    static constexpr Kind kind = letter;                                                           \
    static constexpr Form form = SCALAR;                                                           \
    static constexpr std::size_t minAlign = alignof(T);                                            \
  };                                                                                               \
  template <typename T, poplar::VectorLayout L, unsigned A, bool I>                                \
  struct Shape<poplar::field<poplar::Vector<T, L, A, I>>> : Shape<poplar::Vector<T, L, A, I>> {    \
    static constexpr Kind kind = letter;                                                           \
  };                                                                                               \
  template <typename T, poplar::VectorListLayout L, unsigned A, bool I>                            \
  struct Shape<poplar::field<poplar::VectorList<T, L, A, I>>>                                      \
      : Shape<poplar::Vector<T, poplar::VectorLayout::SPAN, A, I>> {                               \
    static constexpr Kind kind = letter;                                                           \
    static constexpr Form form = ROWS;                                                             \
  };                                                                                               \
  template <typename T, poplar::VectorLayout L, unsigned A, bool I, poplar::VectorLayout M,        \
            unsigned B, bool J>                                                                    \
  struct Shape<poplar::Vector<poplar::field<poplar::Vector<T, L, A, I>>, M, B, J>>                 \
      : Shape<poplar::Vector<T, L, A, I>> {                                                        \
    static constexpr Kind kind = letter;                                                           \
    static constexpr Form form = ROWS;                                                             \
  };                                                                                               \
  template <typename T, poplar::VectorLayout M, unsigned B, bool J>                                \
  struct Shape<poplar::Vector<poplar::field<T>, M, B, J>> {                                        \
    using element = T;                                                                             \
    static constexpr Kind kind = letter;                                                           \
    static constexpr Form form = POINTERS;                                                         \
    static constexpr std::size_t minAlign = alignof(T);                                            \
  };
OPENIPU_EDGE(Input, INPUT)
OPENIPU_EDGE(Output, OUTPUT)
OPENIPU_EDGE(InOut, INOUT)
#undef OPENIPU_EDGE

template <typename Member> FieldEntry describe(const char *name, std::size_t offset) {
  using T = typename std::remove_const<Member>::type;
  using S = Shape<T>;
  using E = typename Plain<typename std::remove_const<typename S::element>::type>::type;
  return {name, S::kind, S::form, TypeName<E>::value, sizeof(E), offset, sizeof(T), alignof(T), S::minAlign};
}

template <typename V> auto callCompute(V &vertex, int) -> decltype(static_cast<bool>(vertex.compute())) {
  return vertex.compute();
}
template <typename V> auto callCompute(V &vertex, long) -> decltype(static_cast<bool>(vertex.compute(0u))) {
  bool good = true;
  for (unsigned worker = 0; worker < V::numWorkers(); ++worker)
    good = vertex.compute(worker) && good;
  return good;
}
template <typename V>
auto callCompute(V &vertex, int) -> typename std::enable_if<std::is_void<decltype(vertex.compute())>::value, bool>::type {
  vertex.compute();
  return true;
}
template <typename V>
auto callCompute(V &vertex, long) ->
    typename std::enable_if<std::is_void<decltype(vertex.compute(0u))>::value, bool>::type {
  for (unsigned worker = 0; worker < V::numWorkers(); ++worker)
    vertex.compute(worker);
  return true;
}
template <typename V> bool compute(void *vertex) { return callCompute(*static_cast<V *>(vertex), 0); }

using Compute = bool (*)(void *);
template <typename V> auto findCompute(int) -> decltype(callCompute(std::declval<V &>(), 0), Compute()) {
  return &compute<V>;
}
template <typename V> Compute findCompute(long) { return nullptr; } // a base class of vertices

template <typename V> constexpr const char *nameBase() {
  return std::is_base_of<poplar::MultiVertex, V>::value        ? "MultiVertex"
         : std::is_base_of<poplar::SupervisorVertex, V>::value ? "SupervisorVertex"
         : std::is_base_of<poplar::Vertex, V>::value           ? "Vertex"
                                                               : "";
}

} // namespace openipu

#endif
