// Elements around a tensor. Part of openipu, written independently.
#ifndef openipu_popops_Pad_hpp
#define openipu_popops_Pad_hpp

#include <openipu/library.hpp>

#include <cstddef>
#include <vector>

namespace popops {

namespace padding {
enum class Type { EDGE, REFLECT };
enum class MappingMethod { NONE, ZERO, EDGE }; // without effect: the constant is one element, on tile 0
inline openipu::Named name(Type type) {
  return openipu::Named(type == Type::EDGE ? "popops.padding.Type.EDGE" : "popops.padding.Type.REFLECT");
}
} // namespace padding

inline poplar::Tensor pad(poplar::Graph &graph, const poplar::Tensor &t, const std::vector<std::ptrdiff_t> &lower,
                          const std::vector<std::ptrdiff_t> &upper, float value = 0.0f,
                          padding::MappingMethod = padding::MappingMethod::ZERO) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, graph, t, openipu::signedNumbers(lower),
                           openipu::signedNumbers(upper), value)
      .tensor();
}
inline poplar::Tensor pad(poplar::Graph &graph, const poplar::Tensor &t, std::ptrdiff_t lower, std::ptrdiff_t upper,
                          unsigned dim, float value = 0.0f, padding::MappingMethod = padding::MappingMethod::ZERO) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, graph, t, lower, upper, dim, value).tensor();
}
inline poplar::Tensor pad(poplar::Graph &graph, const poplar::Tensor &t, const std::vector<std::ptrdiff_t> &lower,
                          const std::vector<std::ptrdiff_t> &upper, int value,
                          padding::MappingMethod = padding::MappingMethod::ZERO) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, graph, t, openipu::signedNumbers(lower),
                           openipu::signedNumbers(upper), value)
      .tensor();
}
inline poplar::Tensor pad(poplar::Graph &graph, const poplar::Tensor &t, std::ptrdiff_t lower, std::ptrdiff_t upper,
                          unsigned dim, int value, padding::MappingMethod = padding::MappingMethod::ZERO) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, graph, t, lower, upper, dim, value).tensor();
}
inline poplar::Tensor pad(poplar::Graph &graph, const poplar::Tensor &t, const std::vector<std::ptrdiff_t> &lower,
                          const std::vector<std::ptrdiff_t> &upper, const poplar::Tensor &value,
                          padding::MappingMethod = padding::MappingMethod::ZERO) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, graph, t, openipu::signedNumbers(lower),
                           openipu::signedNumbers(upper), value)
      .tensor();
}
inline poplar::Tensor pad(poplar::Graph &graph, const poplar::Tensor &t, std::ptrdiff_t lower, std::ptrdiff_t upper,
                          unsigned dim, const poplar::Tensor &value,
                          padding::MappingMethod = padding::MappingMethod::ZERO) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, graph, t, lower, upper, dim, value).tensor();
}
inline poplar::Tensor pad(const poplar::Tensor &t, const std::vector<std::ptrdiff_t> &lower,
                          const std::vector<std::ptrdiff_t> &upper, padding::Type type) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, t, openipu::signedNumbers(lower),
                           openipu::signedNumbers(upper), name(type))
      .tensor();
}
inline poplar::Tensor pad(const poplar::Tensor &t, std::ptrdiff_t lower, std::ptrdiff_t upper, unsigned dim,
                          padding::Type type) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, t, lower, upper, dim, name(type)).tensor();
}

} // namespace popops

#endif
