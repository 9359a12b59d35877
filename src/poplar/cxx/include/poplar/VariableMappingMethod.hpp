// Part of openipu.
#ifndef openipu_poplar_VariableMappingMethod_hpp
#define openipu_poplar_VariableMappingMethod_hpp
#include <poplar/Graph.hpp>
#endif
