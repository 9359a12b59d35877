// Plans are kept by the planner itself; these are here to be passed on. Part of openipu, written independently.
#ifndef openipu_popsparse_PlanningCache_hpp
#define openipu_popsparse_PlanningCache_hpp

#include <poplin/MatMul.hpp>

namespace popsparse {

namespace dynamic {
struct PlanningCache {
  PlanningCache() {}
  PlanningCache(poplin::PlanningCache *) {}
};
} // namespace dynamic
namespace static_ {
struct PlanningCache {
  PlanningCache() {}
  PlanningCache(poplin::PlanningCache *) {}
};
} // namespace static_

} // namespace popsparse

#endif
