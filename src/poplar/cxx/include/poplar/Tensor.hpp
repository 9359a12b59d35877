// Views of variables. Part of openipu, written independently.
//
// A tensor is a strided view of the addresses of its element size, or a list of addresses. All of its methods are
// answered here, without the engine.
#ifndef openipu_poplar_Tensor_hpp
#define openipu_poplar_Tensor_hpp

#include <openipu/wire.hpp>
#include <poplar/ArrayRef.hpp>
#include <poplar/Interval.hpp>
#include <poplar/Type.hpp>
#include <poplar/exceptions.hpp>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace poplar {

enum class UpsampleMethod { REPEAT };
enum class TensorCloneMethod {
  PRESERVE_ORDER_AND_ALIASES,
  CREATE_NEW_ORDER,
  PRESERVE_ORDER_UNLESS_ALIASES,
  GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES
};
using TensorRearranger = int;

class Tensor {
public:
  using Addresses = std::vector<std::int64_t>;

  Tensor() {}
  Tensor(std::int64_t graph, Type type, std::vector<std::size_t> shape, std::int64_t offset,
         std::vector<std::int64_t> strides);
  Tensor(std::int64_t graph, Type type, std::vector<std::size_t> shape, Addresses addresses);

  bool valid() const { return graph_ >= 0; }
  bool isValid() const { return valid(); }
  Type elementType() const { return type_; }
  unsigned rank() const { return static_cast<unsigned>(shape_.size()); }
  std::size_t dim(unsigned i) const;
  const std::vector<std::size_t> &shape() const { return shape_; }
  std::string shapeToString() const;
  std::size_t numElements() const;

  Tensor operator[](std::size_t i) const { return at(i); }
  Tensor operator[](int i) const { return at(static_cast<std::size_t>(i)); }
  Tensor operator[](unsigned i) const { return at(i); }
  Tensor operator[](long i) const { return at(static_cast<std::size_t>(i)); }
  Tensor index(ArrayRef<std::size_t> indices) const;
  Tensor slice(std::size_t begin, std::size_t end, unsigned dimension) const;
  Tensor slice(std::size_t begin, std::size_t end) const { return slice(begin, end, 0); }
  Tensor slice(const Interval &region, unsigned dimension = 0) const {
    return slice(region.begin(), region.end(), dimension);
  }
  Tensor slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const;
  std::vector<Tensor> slices(ArrayRef<Interval> intervals, unsigned dimension = 0) const;
  std::vector<Tensor> slices(const std::vector<std::vector<Interval>> &intervals, unsigned dimension = 0) const;
  Tensor subSample(unsigned stride, unsigned dimension) const;
  Tensor upsample(unsigned scale, unsigned dimension, UpsampleMethod method) const;
  Tensor broadcast(unsigned count, unsigned dimension) const;
  Tensor reshape(ArrayRef<std::size_t> shape) const;
  Tensor reshapePartial(unsigned begin, unsigned end, ArrayRef<std::size_t> dimensions) const;
  Tensor flatten() const;
  Tensor flatten(unsigned begin, unsigned end) const;
  Tensor dimShuffle(ArrayRef<unsigned> permutation) const;
  Tensor dimShufflePartial(ArrayRef<unsigned> source, ArrayRef<unsigned> destination) const;
  Tensor dimRoll(unsigned dimension, unsigned newIndex = 0) const;
  Tensor transpose() const;
  Tensor reverse(unsigned dimension) const;
  Tensor expand(ArrayRef<std::size_t> indices) const;
  Tensor squeeze(ArrayRef<std::size_t> dimensions) const;
  Tensor reinterpret(Type type) const;

  bool isContiguous() const { return getContiguousRegions().size() <= 1; }
  bool containsAliases() const;
  bool containsConstant() const;
  bool isParallelWriteable() const { return !containsAliases() && !containsConstant(); }
  std::vector<Interval> getContiguousRegions() const;
  bool intersectsWith(const Tensor &other) const;
  std::string getDebugStr() const { return shapeToString(); }

  // How the rest of the library sees it.
  std::int64_t graph() const { return graph_; }
  bool isStrided() const { return !addresses_; }
  std::int64_t offset() const { return offset_; }
  const std::vector<std::int64_t> &strides() const { return strides_; }
  Addresses listAddresses() const;
  // The stride of all elements as one row; false where there is none.
  bool asRow(std::int64_t &start, std::int64_t &stride) const;

private:
  Tensor at(std::size_t i) const;
  void check(unsigned dimension, const char *what) const;
  Tensor gather(std::vector<std::size_t> shape, Addresses addresses) const;

  std::int64_t graph_ = -1;
  Type type_;
  std::vector<std::size_t> shape_;
  std::int64_t offset_ = 0;
  std::vector<std::int64_t> strides_;
  std::shared_ptr<const Addresses> addresses_;
};

bool operator==(const Tensor &a, const Tensor &b);
inline bool operator!=(const Tensor &a, const Tensor &b) { return !(a == b); }
std::ostream &operator<<(std::ostream &out, const Tensor &tensor);

Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension = 0);
inline Tensor concat(const Tensor &first, const Tensor &second, unsigned dimension = 0) {
  return concat({first, second}, dimension);
}
Tensor append(const Tensor &first, const Tensor &second, unsigned dimension);
inline Tensor append(const Tensor &first, const Tensor &second) { return append(first, second, 0); }

} // namespace poplar

namespace openipu {
void put(Writer &out, const poplar::Tensor &tensor);
void put(Writer &out, poplar::Type type);
poplar::Tensor readTensor(const Value &value);
poplar::Type readType(const std::string &name);
} // namespace openipu

#endif
