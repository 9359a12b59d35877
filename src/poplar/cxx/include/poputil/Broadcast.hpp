// Views in the shape of others. Part of openipu, written independently.
#ifndef openipu_poputil_Broadcast_hpp
#define openipu_poputil_Broadcast_hpp

#include <poplar/Graph.hpp>
#include <poputil/exceptions.hpp>

#include <algorithm>

namespace poputil {

// Dimensions are added in front, and those of size 1 repeated, as in numpy.
inline void broadcastToMatch(poplar::Tensor &t, const std::vector<std::size_t> &shape) {
  if (t.rank() > shape.size())
    throw poplibs_error("broadcastToMatch: " + t.shapeToString() + " has more dimensions than it is to match.");
  t = t.expand(std::vector<std::size_t>(shape.size() - t.rank(), 0));
  for (unsigned i = 0; i < shape.size(); ++i) {
    if (t.dim(i) == shape[i])
      continue;
    if (t.dim(i) != 1)
      throw poplibs_error("broadcastToMatch: dimension " + std::to_string(i) + " of " + t.shapeToString() +
                          " is neither 1 nor " + std::to_string(shape[i]) + ".");
    t = t.broadcast(static_cast<unsigned>(shape[i]), i);
  }
}
inline void broadcastToMatch(poplar::Tensor &a, poplar::Tensor &b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  a = a.expand(std::vector<std::size_t>(rank - a.rank(), 0));
  b = b.expand(std::vector<std::size_t>(rank - b.rank(), 0));
  std::vector<std::size_t> shape;
  for (unsigned i = 0; i < rank; ++i)
    shape.push_back(a.dim(i) == 1 ? b.dim(i) : a.dim(i));
  broadcastToMatch(a, shape);
  broadcastToMatch(b, shape);
}

inline void expandToMatchRanks(poplar::Tensor &a, poplar::Tensor &b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  a = a.expand(std::vector<std::size_t>(rank - a.rank(), 0));
  b = b.expand(std::vector<std::size_t>(rank - b.rank(), 0));
}
inline bool canBroadcastToMatch(const poplar::Tensor &a, const poplar::Tensor &b) {
  for (unsigned i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::size_t left = a.dim(a.rank() - i), right = b.dim(b.rank() - i);
    if (left != right && left != 1 && right != 1)
      return false;
  }
  return true;
}

} // namespace poputil

#endif
