// Part of openipu, written independently.
#ifndef openipu_poplin_codelets_hpp
#define openipu_poplin_codelets_hpp

#include <poplar/Graph.hpp>

namespace poplin {
// Functions of this library need no codelets here: the engine has them.
inline void addCodelets(poplar::Graph &) {}
} // namespace poplin

#endif
