// How elements of a tensor lie together. Part of openipu, written independently.
#ifndef openipu_poputil_VarStructure_hpp
#define openipu_poputil_VarStructure_hpp

#include <openipu/library.hpp>

namespace poputil {

inline unsigned detectInnermostGrouping(const poplar::Graph &graph, const poplar::Tensor &t) {
  return static_cast<unsigned>(
      openipu::callWith("poputil", "detectInnermostGrouping", nullptr, nullptr, {}, graph, t).result.integer);
}

} // namespace poputil

#endif
