// Intervals of indices, their end not included. Part of openipu, written independently.
#ifndef openipu_poplar_Interval_hpp
#define openipu_poplar_Interval_hpp

#include <cstddef>
#include <ostream>
#include <tuple>

namespace poplar {

template <typename T> class GenericInterval {
public:
  GenericInterval() : begin_(), end_() {}
  GenericInterval(const T &begin, const T &end) : begin_(begin), end_(end) {}

  const T &begin() const { return begin_; }
  const T &end() const { return end_; }
  const T &lower() const { return begin_; }
  const T &upper() const { return end_; }
  T size() const { return end_ - begin_; }

private:
  T begin_, end_;
};

template <typename T> bool operator==(const GenericInterval<T> &a, const GenericInterval<T> &b) {
  return a.begin() == b.begin() && a.end() == b.end();
}
template <typename T> bool operator!=(const GenericInterval<T> &a, const GenericInterval<T> &b) { return !(a == b); }
template <typename T> bool operator<(const GenericInterval<T> &a, const GenericInterval<T> &b) {
  return std::tie(a.begin(), a.end()) < std::tie(b.begin(), b.end());
}
template <typename T> std::ostream &operator<<(std::ostream &out, const GenericInterval<T> &interval) {
  return out << "[" << interval.begin() << "," << interval.end() << ")";
}

using Interval = GenericInterval<std::size_t>;

} // namespace poplar

#endif
