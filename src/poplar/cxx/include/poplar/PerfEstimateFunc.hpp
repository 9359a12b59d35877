// Functions that say what vertices cost. Part of openipu, written independently.
#ifndef openipu_poplar_PerfEstimateFunc_hpp
#define openipu_poplar_PerfEstimateFunc_hpp

#include <poplar/VertexIntrospector.hpp>

#include <cstdint>
#include <functional>

namespace poplar {

struct VertexPerfEstimate {
  VertexPerfEstimate() {}
  VertexPerfEstimate(std::uint64_t cycles, std::uint64_t flops = 0) : cycles(cycles), flops(flops) {}
  std::uint64_t cycles = 0;
  std::uint64_t flops = 0;
};

using PerfEstimateFunc = std::function<VertexPerfEstimate(const VertexIntrospector &vertex, const Target &target)>;
using CycleEstimateFunc = std::function<std::uint64_t(const VertexIntrospector &vertex, const Target &target)>;

} // namespace poplar

#endif
