// Part of openipu.
#ifndef openipu_poplar_TensorCloneMethod_hpp
#define openipu_poplar_TensorCloneMethod_hpp
#include <poplar/Tensor.hpp>
#endif
