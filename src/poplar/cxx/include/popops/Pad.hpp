// Constant elements around a tensor. Part of openipu, written independently.
#ifndef openipu_popops_Pad_hpp
#define openipu_popops_Pad_hpp

#include <openipu/library.hpp>

#include <cstddef>
#include <vector>

namespace popops {

inline poplar::Tensor pad(poplar::Graph &graph, const poplar::Tensor &t, const std::vector<std::ptrdiff_t> &lower,
                          const std::vector<std::ptrdiff_t> &upper, float value = 0.0f) {
  return openipu::callWith("popops", "pad", nullptr, nullptr, {}, graph, t,
                           std::vector<std::int64_t>(lower.begin(), lower.end()),
                           std::vector<std::int64_t>(upper.begin(), upper.end()), value)
      .tensor();
}

} // namespace popops

#endif
