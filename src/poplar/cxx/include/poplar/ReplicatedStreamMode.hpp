// Part of openipu.
#ifndef openipu_poplar_ReplicatedStreamMode_hpp
#define openipu_poplar_ReplicatedStreamMode_hpp
#include <poplar/DataStream.hpp>
#endif
