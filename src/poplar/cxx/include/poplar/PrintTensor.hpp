// Part of openipu.
#ifndef openipu_poplar_PrintTensor_hpp
#define openipu_poplar_PrintTensor_hpp
#include <poplar/Program.hpp>
#endif
