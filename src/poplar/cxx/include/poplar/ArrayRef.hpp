// A view of consecutive elements of somebody else. Part of openipu, written independently.
#ifndef openipu_poplar_ArrayRef_hpp
#define openipu_poplar_ArrayRef_hpp

#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

namespace poplar {

template <typename T> class ArrayRef {
public:
  using value_type = T;
  using const_iterator = const T *;

  ArrayRef() : data_(nullptr), size_(0) {}
  ArrayRef(const T *data, std::size_t size) : data_(data), size_(size) {}
  ArrayRef(const T *first, const T *last) : data_(first), size_(static_cast<std::size_t>(last - first)) {}
  ArrayRef(const std::vector<T> &values) : data_(values.data()), size_(values.size()) {}
  template <std::size_t N> ArrayRef(const std::array<T, N> &values) : data_(values.data()), size_(N) {}
  template <std::size_t N> ArrayRef(const T (&values)[N]) : data_(values), size_(N) {}
  ArrayRef(const std::initializer_list<T> &values) : data_(values.begin()), size_(values.size()) {}

  const T &operator[](std::size_t i) const { return data_[i]; }
  const T *data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T *begin() const { return data_; }
  const T *end() const { return data_ + size_; }
  const T &front() const { return data_[0]; }
  const T &back() const { return data_[size_ - 1]; }
  std::vector<T> cloneAsVector() const { return std::vector<T>(begin(), end()); }
  operator std::vector<T>() const { return cloneAsVector(); }

private:
  const T *data_;
  std::size_t size_;
};

} // namespace poplar

#endif
