// A vertex as a function sees it that says what it costs: sizes and states, no data. Part of openipu, written
// independently.
#ifndef openipu_poplar_VertexIntrospector_hpp
#define openipu_poplar_VertexIntrospector_hpp

#include <poplar/StringRef.hpp>
#include <poplar/Target.hpp>
#include <poplar/exceptions.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace poplar {

namespace layout {
enum class Vector { NotAVector, Span, OnePtr, ShortSpan, ScaledPtr32, ScaledPtr64, ScaledPtr128 };
enum class VectorList { NotAVector, OnePtr, ScaledPtr32, ScaledPtr64, ScaledPtr128, DeltaN, DeltaNElements };
} // namespace layout

class FieldData {
public:
  class SizeAt {
  public:
    explicit SizeAt(std::size_t elements) : elements_(elements) {}
    std::size_t size() const { return elements_; }

  private:
    std::size_t elements_;
  };

  FieldData() {}
  FieldData(std::string name, unsigned rank, std::vector<std::size_t> sizes, std::vector<double> values)
      : name_(std::move(name)), rank_(rank), sizes_(std::move(sizes)), values_(std::move(values)) {}

  unsigned rank() const { return rank_; }
  // Elements of a vector; vectors of a list.
  std::size_t size() const { return rank_ == 2 ? sizes_.size() : sizes_.at(0); }
  std::size_t getSizeAtIndex(std::size_t i) const { return sizes_.at(i); }
  SizeAt operator[](std::size_t i) const { return SizeAt(rank_ == 2 ? sizes_.at(i) : 1); }

  template <typename T> T getInitialValue(const Target &) const { return static_cast<T>(values().at(0)); }
  template <typename T> std::vector<T> getInitialValues(const Target &) const {
    std::vector<T> found;
    for (double value : values())
      found.push_back(static_cast<T>(value));
    return found;
  }
  // Layouts change nothing here.
  layout::Vector getProfilerVectorLayout(std::size_t) const {
    return rank_ == 0 ? layout::Vector::NotAVector : layout::Vector::Span;
  }
  layout::VectorList getProfilerVectorListLayout() const {
    return rank_ == 2 ? layout::VectorList::DeltaN : layout::VectorList::NotAVector;
  }

private:
  const std::vector<double> &values() const {
    if (values_.empty())
      throw unknown_field("Field '" + name_ + "' is connected to a tensor: its values are known when it runs.");
    return values_;
  }
  std::string name_;
  unsigned rank_ = 0;
  std::vector<std::size_t> sizes_;
  std::vector<double> values_;
};

class VertexIntrospector {
public:
  VertexIntrospector(std::string name, std::map<std::string, FieldData> fields)
      : name_(std::move(name)), fields_(std::move(fields)) {}
  const FieldData &getFieldInfo(const std::string &name) const {
    const auto found = fields_.find(name);
    if (found == fields_.end())
      throw unknown_field("The codelet " + name_ + " has no field '" + name + "'.");
    return found->second;
  }

private:
  std::string name_;
  std::map<std::string, FieldData> fields_;
};

} // namespace poplar

#endif
