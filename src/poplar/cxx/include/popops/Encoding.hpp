// Rows with one element set, and consecutive numbers. Part of openipu, written independently.
#ifndef openipu_popops_Encoding_hpp
#define openipu_popops_Encoding_hpp

#include <popops/EncodeOneHot.hpp>
#include <popops/NumericalIotas.hpp>

#endif
