// Part of openipu.
#ifndef openipu_poputil_Util_hpp
#define openipu_poputil_Util_hpp

#include <poplar/Graph.hpp>
#include <poputil/TileMapping.hpp>

#include <algorithm>
#include <vector>

namespace poputil {

// Parts of regions, as even as their grain allows, at most so many.
inline std::vector<std::vector<poplar::Interval>> splitRegions(const std::vector<poplar::Interval> &regions,
                                                               unsigned grainSize, unsigned maxPartitions) {
  std::size_t elements = 0;
  for (const poplar::Interval &region : regions)
    elements += region.size();
  std::vector<std::vector<poplar::Interval>> parts;
  if (elements == 0 || maxPartitions == 0)
    return parts;
  const std::size_t grain = std::max(1u, grainSize);
  const std::size_t grains = (elements + grain - 1) / grain;
  const std::size_t count = std::min<std::size_t>(maxPartitions, grains);
  std::size_t region = 0, at = regions[0].begin();
  for (std::size_t part = 0; part < count; ++part) {
    std::size_t left = (grains * (part + 1) / count - grains * part / count) * grain;
    parts.emplace_back();
    while (left > 0 && region < regions.size()) {
      const std::size_t take = std::min(left, regions[region].end() - at);
      if (take > 0)
        parts.back().push_back(poplar::Interval(at, at + take));
      at += take;
      left -= take;
      if (at == regions[region].end() && ++region < regions.size())
        at = regions[region].begin();
    }
  }
  return parts;
}
inline std::vector<std::vector<poplar::Interval>>
splitRegionsBetweenWorkers(const poplar::Target &target, const std::vector<poplar::Interval> &regions,
                           unsigned grainSize, unsigned = 0) {
  return splitRegions(regions, grainSize, target.getNumWorkerContexts());
}

// In order, those that touch as one.
inline void mergeAdjacentRegions(std::vector<poplar::Interval> &regions) {
  std::sort(regions.begin(), regions.end(),
            [](const poplar::Interval &a, const poplar::Interval &b) { return a.begin() < b.begin(); });
  std::vector<poplar::Interval> found;
  for (const poplar::Interval &region : regions) {
    if (!found.empty() && found.back().end() == region.begin())
      found.back() = poplar::Interval(found.back().begin(), region.end());
    else if (region.size() > 0)
      found.push_back(region);
  }
  regions = found;
}
inline void mergeAdjacentRegions(std::vector<std::vector<poplar::Interval>> &mapping) {
  for (std::vector<poplar::Interval> &regions : mapping)
    mergeAdjacentRegions(regions);
}
inline std::vector<poplar::Interval> flattenIntervals(const std::vector<std::vector<poplar::Interval>> &intervals) {
  std::vector<poplar::Interval> found;
  for (const std::vector<poplar::Interval> &part : intervals)
    found.insert(found.end(), part.begin(), part.end());
  return found;
}
inline std::size_t intervalSequenceNumElements(const std::vector<std::vector<poplar::Interval>> &intervals) {
  std::size_t elements = 0;
  for (const poplar::Interval &interval : flattenIntervals(intervals))
    elements += interval.size();
  return elements;
}
template <class T> std::vector<T> unflattenIndex(const std::vector<T> &shape, std::size_t index) {
  std::vector<T> found(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; index /= shape[i])
    found[i] = static_cast<T>(index % shape[i]);
  return found;
}
template <class T> std::size_t flattenIndex(const std::vector<T> &shape, const std::vector<T> &indices) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < shape.size(); ++i)
    found = found * shape[i] + indices.at(i);
  return found;
}
// Sizes of so many parts of a range, which differ by 1 at the most.
inline std::vector<int> balancedPartition(int rangeUpperBound, int splitCount) {
  std::vector<int> sizes;
  for (int part = 0; part < splitCount; ++part)
    sizes.push_back(rangeUpperBound * (part + 1) / splitCount - rangeUpperBound * part / splitCount);
  return sizes;
}
inline poplar::Tensor
duplicate(poplar::Graph &graph, const poplar::Tensor &in, poplar::program::Sequence &prog,
          const poplar::DebugContext &context = {},
          poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES) {
  const poplar::Tensor made = graph.clone(in, context, method);
  prog.add(poplar::program::Copy(in, made, false, context));
  return made;
}
inline poplar::Tensor
cloneN(poplar::Graph &graph, const poplar::Tensor &t, unsigned count, const poplar::DebugContext &context = {},
       poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES) {
  std::vector<poplar::Tensor> made;
  for (unsigned i = 0; i < count; ++i)
    made.push_back(graph.clone(t, context, method).expand({0}));
  return poplar::concat(made);
}

} // namespace poputil

#endif
