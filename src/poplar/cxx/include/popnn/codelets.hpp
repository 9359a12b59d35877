// Part of openipu, written independently.
#ifndef openipu_popnn_codelets_hpp
#define openipu_popnn_codelets_hpp

#include <poplar/Graph.hpp>

namespace popnn {
// Functions of this library need no codelets here: the engine has them.
inline void addCodelets(poplar::Graph &) {}
} // namespace popnn

#endif
