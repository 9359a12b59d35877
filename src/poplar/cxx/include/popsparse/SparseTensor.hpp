// Where the non-zero values are, and what they are. Part of openipu, written independently.
#ifndef openipu_popsparse_SparseTensor_hpp
#define openipu_popsparse_SparseTensor_hpp

#include <openipu/library.hpp>
#include <poputil/TensorMetaData.hpp>

namespace popsparse {

namespace dynamic {
class SparseTensor {
public:
  SparseTensor() {}
  SparseTensor(const poplar::Tensor &metaInfo, const poplar::Tensor &nzValues,
               const poputil::TensorMetaData &opMetaData = {})
      : metaInfo_(metaInfo), nzValues_(nzValues), opMetaData_(opMetaData) {}
  const poplar::Tensor &getMetaInfoTensor() const { return metaInfo_; }
  const poplar::Tensor &getNzValuesTensor() const { return nzValues_; }
  const poputil::TensorMetaData &getOpMetaData() const { return opMetaData_; }

  openipu::Named named() const {
    return openipu::Named::make("popsparse._flat.make_tensor", metaInfo_, nzValues_, opMetaData_.numbers);
  }

private:
  poplar::Tensor metaInfo_, nzValues_;
  poputil::TensorMetaData opMetaData_; // rows, columns, height and width of a block
};
} // namespace dynamic

namespace static_ {
// The pattern is part of the graph.
class SparseTensor {
public:
  SparseTensor() {}
  explicit SparseTensor(const dynamic::SparseTensor &held) : held_(held) {}
  const poplar::Tensor &getNzValuesTensor() const { return held_.getNzValuesTensor(); }
  const poputil::TensorMetaData &getOpMetaData() const { return held_.getOpMetaData(); }
  openipu::Named named() const { return held_.named(); }

private:
  dynamic::SparseTensor held_;
};
} // namespace static_

} // namespace popsparse

#endif
