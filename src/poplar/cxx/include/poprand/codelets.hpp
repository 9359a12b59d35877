// Part of openipu, written independently.
#ifndef openipu_poprand_codelets_hpp
#define openipu_poprand_codelets_hpp

#include <poplar/Graph.hpp>

namespace poprand {
// Functions of this library need no codelets here: the engine has them.
inline void addCodelets(poplar::Graph &) {}
} // namespace poprand

#endif
