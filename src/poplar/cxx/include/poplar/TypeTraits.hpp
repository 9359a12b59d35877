// Part of openipu.
#ifndef openipu_poplar_TypeTraits_hpp
#define openipu_poplar_TypeTraits_hpp
#include <poplar/Type.hpp>
#endif
