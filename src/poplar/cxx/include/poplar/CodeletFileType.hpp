// Part of openipu.
#ifndef openipu_poplar_CodeletFileType_hpp
#define openipu_poplar_CodeletFileType_hpp
#include <poplar/Graph.hpp>
#endif
