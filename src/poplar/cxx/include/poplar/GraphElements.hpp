// Part of openipu.
#ifndef openipu_poplar_GraphElements_hpp
#define openipu_poplar_GraphElements_hpp
#include <poplar/Graph.hpp>
#endif
