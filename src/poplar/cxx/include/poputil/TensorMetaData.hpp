// What a library keeps of a tensor. Part of openipu, written independently.
#ifndef openipu_poputil_TensorMetaData_hpp
#define openipu_poputil_TensorMetaData_hpp

#include <cstdint>
#include <vector>

namespace poputil {

struct TensorMetaData {
  std::vector<std::int64_t> numbers; // of the library that made it
};

} // namespace poputil

#endif
