// Vertices, their fields, and what is connected to them. Part of openipu, written independently.
#ifndef openipu_poplar_VertexRef_hpp
#define openipu_poplar_VertexRef_hpp

#include <poplar/StringRef.hpp>
#include <poplar/Tensor.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace openipu {
struct GraphState;
struct CodeletInfo;
} // namespace openipu

namespace poplar {

class ComputeSet {
public:
  ComputeSet() {}
  explicit ComputeSet(std::int64_t id) : id_(id) {}
  std::int64_t getId() const { return id_; }

private:
  std::int64_t id_ = -1;
};
inline bool operator==(ComputeSet a, ComputeSet b) { return a.getId() == b.getId(); }

class FieldRef;

class VertexRef {
public:
  VertexRef() {}
  VertexRef(openipu::GraphState *graph, std::int64_t computeSet, std::int64_t number, const openipu::CodeletInfo *codelet)
      : graph_(graph), computeSet_(computeSet), number_(number), codelet_(codelet) {}
  FieldRef operator[](StringRef field) const;
  std::int64_t getId() const { return number_; }
  std::int64_t computeSet() const { return computeSet_; }
  const openipu::CodeletInfo &codelet() const { return *codelet_; }
  bool isNull() const { return codelet_ == nullptr; }

private:
  openipu::GraphState *graph_ = nullptr;
  std::int64_t computeSet_ = -1;
  std::int64_t number_ = -1;
  const openipu::CodeletInfo *codelet_ = nullptr;
};

class FieldRef {
public:
  FieldRef(VertexRef vertex, unsigned field, std::int64_t place = -1) : vertex_(vertex), field_(field), place_(place) {}
  FieldRef operator[](std::size_t place) const;
  const VertexRef &vertex() const { return vertex_; }
  unsigned field() const { return field_; }
  std::int64_t place() const { return place_; }

private:
  VertexRef vertex_;
  unsigned field_;
  std::int64_t place_; // in a field of several tensors; -1 for the whole field
};

// A field by name, and the tensor or tensors that it gets.
struct ConnectionDesc {
  std::string field;
  std::vector<Tensor> tensors;
  bool single;

  ConnectionDesc(StringRef name, const Tensor &tensor) : field(name), tensors(1, tensor), single(true) {}
  ConnectionDesc(StringRef name, ArrayRef<Tensor> several) : field(name), tensors(several.begin(), several.end()), single(false) {}
  ConnectionDesc(StringRef name, const std::vector<Tensor> &several) : field(name), tensors(several), single(false) {}
};

} // namespace poplar

namespace openipu {
void put(Writer &out, poplar::ComputeSet computeSet);
}

#endif
