// Part of openipu.
#ifndef openipu_poplar_TargetType_hpp
#define openipu_poplar_TargetType_hpp
#include <poplar/Target.hpp>
#endif
