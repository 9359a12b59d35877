// What codelets are written with: vertices and their fields, for the host's processor.
// Part of openipu, written independently from the public description of the interface.
//
// A field holds where its data is. The runner fills fields in by the tables that `openipu::describe` makes; a vertex is
// never constructed, as on an IPU.
#ifndef openipu_poplar_Vertex_hpp
#define openipu_poplar_Vertex_hpp

#include <poplar/HalfFloat.hpp>
#include <poplar/TileConstants.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#ifdef OPENIPU_CHECK_BOUNDS
#include <stdexcept>
#include <string>
#endif

namespace poplar {

enum class VectorLayout { NOT_APPLICABLE, ONE_PTR, SPAN, SHORT_SPAN, SCALED_PTR32, SCALED_PTR64, SCALED_PTR128, COMPACT_PTR };
enum class VectorListLayout {
  NOT_APPLICABLE,
  ONE_PTR,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128,
  DELTAN,
  DELTANELEMENTS,
  COMPACT_DELTAN
};

class Vertex {
public:
  static constexpr unsigned numWorkers() { return 1; }
};

// Six calls of compute(workerId) share the work of one vertex.
class MultiVertex {
public:
  static constexpr unsigned numWorkers() { return CTXT_WORKERS; }
};

class SupervisorVertex {
public:
  static constexpr unsigned numWorkers() { return 1; }
};

namespace detail {
constexpr bool knowsSize(VectorLayout layout) {
  return layout == VectorLayout::SPAN || layout == VectorLayout::SHORT_SPAN;
}
constexpr bool knowsSize(VectorListLayout layout) {
  return layout == VectorListLayout::DELTAN || layout == VectorListLayout::DELTANELEMENTS ||
         layout == VectorListLayout::COMPACT_DELTAN;
}
#ifdef OPENIPU_CHECK_BOUNDS
inline void checkPlace(std::size_t place, std::size_t count, const char *what) {
  if (place >= count)
    throw std::out_of_range(std::string(what) + " has " + std::to_string(count) + " entries, and no number " +
                            std::to_string(place));
}
#else
inline void checkPlace(std::size_t, std::size_t, const char *) {}
#endif
} // namespace detail

// Consecutive elements. Only spans know how many; the other layouts keep a pointer alone.
template <typename T, VectorLayout L = VectorLayout::SPAN, unsigned MinAlign = 0, bool Interleaved = false>
class Vector {
public:
  using value_type = typename std::remove_const<T>::type;
  using iterator = T *;

  T &operator[](std::size_t i) const {
    detail::checkPlace(i, count_, "a Vector");
    return first_[i];
  }
  T *data() const { return first_; }
  T *begin() const { return first_; }
  T *end() const {
    static_assert(detail::knowsSize(L), "a Vector with this layout has no end: use VectorLayout::SPAN");
    return first_ + count_;
  }
  unsigned size() const {
    static_assert(detail::knowsSize(L), "a Vector with this layout has no size: use VectorLayout::SPAN");
    return static_cast<unsigned>(count_);
  }
  bool empty() const { return size() == 0; }
  T &front() const { return first_[0]; }
  T &back() const { return first_[size() - 1]; }

protected:
  T *first_;
  std::size_t count_;
};

// Vectors of different lengths.
template <typename T, VectorListLayout L = VectorListLayout::DELTAN, unsigned MinAlign = 0, bool Interleaved = false>
class VectorList {
public:
  using Row = Vector<T, VectorLayout::SPAN, MinAlign, Interleaved>;

  Row &operator[](std::size_t i) const {
    detail::checkPlace(i, count_, "a VectorList");
    return first_[i];
  }
  Row *begin() const { return first_; }
  Row *end() const {
    static_assert(detail::knowsSize(L), "a VectorList with this layout has no end: use VectorListLayout::DELTAN");
    return first_ + count_;
  }
  unsigned size() const {
    static_assert(detail::knowsSize(L), "a VectorList with this layout has no size: use VectorListLayout::DELTAN");
    return static_cast<unsigned>(count_);
  }

protected:
  Row *first_;
  std::size_t count_;
};

namespace detail {
template <typename T> class ScalarField {
public:
  T &operator*() const { return *at_; }
  T *operator->() const { return at_; }
  operator T &() const { return *at_; }

protected:
  T *at_;
};

// in[i] and in->size(), *in and in.size() are all written.
template <typename V> class VectorField : public V {
public:
  const V &operator*() const { return *this; }
  const V *operator->() const { return this; }
};
} // namespace detail

template <typename T> class Input : public detail::ScalarField<const T> {};
template <typename T> class Output : public detail::ScalarField<T> {
public:
  Output &operator=(const T &value) {
    *this->at_ = value;
    return *this;
  }
};
template <typename T> class InOut : public detail::ScalarField<T> {
public:
  InOut &operator=(const T &value) {
    *this->at_ = value;
    return *this;
  }
};

template <typename T, VectorLayout L, unsigned A, bool I>
class Input<Vector<T, L, A, I>> : public detail::VectorField<Vector<const T, L, A, I>> {};
template <typename T, VectorLayout L, unsigned A, bool I>
class Output<Vector<T, L, A, I>> : public detail::VectorField<Vector<T, L, A, I>> {};
template <typename T, VectorLayout L, unsigned A, bool I>
class InOut<Vector<T, L, A, I>> : public detail::VectorField<Vector<T, L, A, I>> {};

template <typename T, VectorListLayout L, unsigned A, bool I>
class Input<VectorList<T, L, A, I>> : public detail::VectorField<VectorList<const T, L, A, I>> {};
template <typename T, VectorListLayout L, unsigned A, bool I>
class Output<VectorList<T, L, A, I>> : public detail::VectorField<VectorList<T, L, A, I>> {};
template <typename T, VectorListLayout L, unsigned A, bool I>
class InOut<VectorList<T, L, A, I>> : public detail::VectorField<VectorList<T, L, A, I>> {};

// Fields that are read and written, always as vectors.
template <typename T, VectorLayout L = VectorLayout::SPAN, unsigned A = 0, bool I = false>
using InOutSpan = InOut<Vector<T, L, A, I>>;

} // namespace poplar

#endif
