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

} // namespace poputil

#endif
