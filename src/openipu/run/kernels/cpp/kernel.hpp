// How a kernel is called: one function for each struct of arguments, and the size of that struct for Python to check.
#pragma once
#include <cstdint>
#if defined(_OPENMP)
#include <omp.h>
#else  // one thread does all the work
inline int omp_get_thread_num() { return 0; }
inline int omp_get_num_threads() { return 1; }
#endif

#define KERNEL(name, Arguments)                                            \
  extern "C" int64_t name##_argument_bytes() { return sizeof(Arguments); } \
  extern "C" void name(const Arguments* arguments)
