// Part of openipu.
#ifndef openipu_poplar_FieldData_hpp
#define openipu_poplar_FieldData_hpp
#include <poplar/VertexIntrospector.hpp>
#endif
