// Orders of sorted elements. Part of openipu, written independently.
#ifndef openipu_popops_SortOrder_hpp
#define openipu_popops_SortOrder_hpp

#include <openipu/library.hpp>

namespace popops {
enum class SortOrder { NONE, ASCENDING, DESCENDING };

inline openipu::Named name(SortOrder order) {
  static const char *const names[] = {"NONE", "ASCENDING", "DESCENDING"};
  return openipu::Named(std::string("popops.SortOrder.") + names[static_cast<int>(order)]);
}
} // namespace popops

#endif
