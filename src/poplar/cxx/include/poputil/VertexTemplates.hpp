// Names of vertices that are templates. Part of openipu, written independently.
#ifndef openipu_poputil_VertexTemplates_hpp
#define openipu_poputil_VertexTemplates_hpp

#include <poplar/StringRef.hpp>
#include <poplar/Type.hpp>

#include <string>
#include <type_traits>

namespace poputil {
namespace detail {
inline std::string spell(const poplar::Type &type) { return type.toString(); }
inline std::string spell(const std::string &text) { return text; }
inline std::string spell(const char *text) { return text; }
inline std::string spell(poplar::StringRef text) { return text; }
inline std::string spell(bool value) { return value ? "true" : "false"; }
template <typename N>
typename std::enable_if<std::is_integral<N>::value && !std::is_same<N, bool>::value, std::string>::type spell(N value) {
  return std::to_string(value);
}
} // namespace detail

inline std::string templateVertexParams(bool) { return ">"; }
template <typename T, typename... Rest>
std::string templateVertexParams(bool first, const T &value, const Rest &...rest) {
  return (first ? "<" : ",") + detail::spell(value) + templateVertexParams(false, rest...);
}
// templateVertex("lib::Scale", poplar::FLOAT, true) is "lib::Scale<float,true>".
template <typename... Arguments>
std::string templateVertex(const std::string &name, const Arguments &...arguments) {
  return name + templateVertexParams(true, arguments...);
}

} // namespace poputil

#endif
