// Elements or blocks. Part of openipu, written independently.
#ifndef openipu_popsparse_SparsityParams_hpp
#define openipu_popsparse_SparsityParams_hpp

#include <openipu/library.hpp>

#include <array>
#include <ostream>
#include <vector>

namespace popsparse {
namespace dynamic {

enum class SparsityType { Element, Block };
enum class SparsityStructure { Unstructured };

struct SparsityParams {
  SparsityType type;
  SparsityStructure structure;
  std::array<std::size_t, 2> blockDimensions;
  // Blocks of one value are elements.
  SparsityParams(SparsityType = SparsityType::Element, SparsityStructure how = SparsityStructure::Unstructured,
                 std::array<std::size_t, 2> block = {{1, 1}})
      : type(block[0] * block[1] == 1 ? SparsityType::Element : SparsityType::Block), structure(how),
        blockDimensions(block) {}

  openipu::Named named() const {
    return openipu::Named::make(
        "popsparse.dynamic.SparsityParams", openipu::Named("popsparse.dynamic.SparsityType.Element"),
        openipu::Named("popsparse.dynamic.SparsityStructure.Unstructured"),
        openipu::numbers(std::vector<std::size_t>(blockDimensions.begin(), blockDimensions.end())));
  }
};
inline bool operator==(const SparsityParams &a, const SparsityParams &b) {
  return a.structure == b.structure && a.blockDimensions == b.blockDimensions;
}
inline bool operator!=(const SparsityParams &a, const SparsityParams &b) { return !(a == b); }
inline std::ostream &operator<<(std::ostream &out, const SparsityParams &params) {
  return out << "blocks of " << params.blockDimensions[0] << " x " << params.blockDimensions[1];
}

} // namespace dynamic
} // namespace popsparse

#endif
