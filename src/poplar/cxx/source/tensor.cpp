// Views: arithmetic on offsets, shapes and strides; where strides cannot say it, addresses. Part of openipu.
#include "state.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace poplar {
namespace {

struct TypeFacts {
  const char *name;
  std::size_t bytes;
};
const TypeFacts facts[] = {{"", 0},           {"bool", 1},  {"char", 1},          {"unsigned char", 1},
                           {"signed char", 1}, {"short", 2}, {"unsigned short", 2}, {"int", 4},
                           {"unsigned int", 4}, {"long", 4},  {"unsigned long", 4},  {"long long", 8},
                           {"unsigned long long", 8}, {"quarter", 1}, {"half", 2}, {"float", 4}};

std::size_t multiply(const std::vector<std::size_t> &shape) {
  std::size_t elements = 1;
  for (std::size_t size : shape)
    elements *= size;
  return elements;
}

std::string print(const std::vector<std::size_t> &shape) {
  std::ostringstream out;
  const char *between = "";
  out << "{";
  for (std::size_t size : shape) {
    out << between << size;
    between = ",";
  }
  out << "}";
  return out.str();
}

std::vector<std::int64_t> rowMajor(const std::vector<std::size_t> &shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= static_cast<std::int64_t>(shape[i]);
  }
  return strides;
}

// Strides of the same elements in another shape; false where there are none.
bool reshapeStrides(const std::vector<std::size_t> &shape, const std::vector<std::int64_t> &strides,
                    const std::vector<std::size_t> &wanted, std::vector<std::int64_t> &found) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs; // dimensions that lie as one: size, stride
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t size = static_cast<std::int64_t>(shape[i]);
    if (size == 1)
      continue;
    if (!runs.empty() && runs.back().second == size * strides[i])
      runs.back() = {runs.back().first * size, strides[i]};
    else
      runs.push_back({size, strides[i]});
  }
  if (runs.empty()) {
    found = rowMajor(wanted);
    return true;
  }
  found.assign(wanted.size(), 1);
  std::size_t run = runs.size() - 1;
  std::int64_t left = runs[run].first, step = runs[run].second;
  for (std::size_t i = wanted.size(); i-- > 0;) {
    const std::int64_t size = static_cast<std::int64_t>(wanted[i]);
    if (size != 1) {
      if (left == 1) {
        if (run == 0)
          return false;
        --run;
        left = runs[run].first;
        step = runs[run].second;
      }
      if (left % size)
        return false;
    }
    found[i] = step;
    step *= size;
    left /= size;
  }
  return true;
}

} // namespace

std::string Type::toString() const { return facts[code_].name; }
std::size_t Type::bytes() const { return facts[code_].bytes; }

Tensor::Tensor(std::int64_t graph, Type type, std::vector<std::size_t> shape, std::int64_t offset,
               std::vector<std::int64_t> strides)
    : graph_(graph), type_(type), shape_(std::move(shape)), offset_(offset), strides_(std::move(strides)) {}

Tensor::Tensor(std::int64_t graph, Type type, std::vector<std::size_t> shape, Addresses addresses)
    : graph_(graph), type_(type), shape_(std::move(shape)),
      addresses_(std::make_shared<const Addresses>(std::move(addresses))) {}

Tensor Tensor::gather(std::vector<std::size_t> shape, Addresses addresses) const {
  return Tensor(graph_, type_, std::move(shape), std::move(addresses));
}

void Tensor::check(unsigned dimension, const char *what) const {
  if (dimension >= shape_.size())
    throw index_error(std::string(what) + ": there is no dimension " + std::to_string(dimension) +
                      " in a tensor of shape " + shapeToString() + ".");
}

std::size_t Tensor::dim(unsigned i) const {
  check(i, "dim");
  return shape_[i];
}
std::string Tensor::shapeToString() const { return print(shape_); }
std::size_t Tensor::numElements() const { return multiply(shape_); }

Tensor::Addresses Tensor::listAddresses() const {
  if (addresses_)
    return *addresses_;
  Addresses found(1, offset_);
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    Addresses next;
    next.reserve(found.size() * shape_[i]);
    for (std::int64_t address : found)
      for (std::size_t j = 0; j < shape_[i]; ++j)
        next.push_back(address + static_cast<std::int64_t>(j) * strides_[i]);
    found.swap(next);
  }
  return found;
}

bool Tensor::asRow(std::int64_t &start, std::int64_t &stride) const {
  if (addresses_) {
    const Addresses &all = *addresses_;
    start = all.empty() ? 0 : all[0];
    stride = all.size() > 1 ? all[1] - all[0] : 1;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i] - all[i - 1] != stride)
        return false;
    return true;
  }
  start = offset_;
  if (shape_.empty()) {
    stride = 1;
    return true;
  }
  if (shape_.size() == 1) {
    stride = strides_[0];
    return true;
  }
  std::vector<std::int64_t> found;
  const std::size_t elements = numElements();
  if (elements == 0) {
    stride = 1;
    return true;
  }
  if (!reshapeStrides(shape_, strides_, {elements}, found))
    return false;
  stride = found[0];
  return true;
}

Tensor Tensor::at(std::size_t i) const {
  check(0, "operator[]");
  if (i >= shape_[0])
    throw index_error("Index " + std::to_string(i) + " is outside of a tensor of shape " + shapeToString() + ".");
  if (!addresses_)
    return Tensor(graph_, type_, std::vector<std::size_t>(shape_.begin() + 1, shape_.end()),
                  offset_ + static_cast<std::int64_t>(i) * strides_[0],
                  std::vector<std::int64_t>(strides_.begin() + 1, strides_.end()));
  std::vector<std::size_t> rest(shape_.begin() + 1, shape_.end());
  const std::size_t step = multiply(rest);
  return gather(std::move(rest), Addresses(addresses_->begin() + i * step, addresses_->begin() + (i + 1) * step));
}

Tensor Tensor::index(ArrayRef<std::size_t> indices) const {
  Tensor found = *this;
  for (std::size_t i : indices)
    found = found[i];
  return found;
}

Tensor Tensor::slice(std::size_t begin, std::size_t end, unsigned dimension) const {
  if (dimension >= shape_.size() || begin > end || end > shape_[dimension])
    throw index_error("slice(" + std::to_string(begin) + ", " + std::to_string(end) + ", " + std::to_string(dimension) +
                      ") is outside of a tensor of shape " + shapeToString() +
                      ": begin and end must be in order, and no more than the size of the dimension.");
  std::vector<std::size_t> shape = shape_;
  shape[dimension] = end - begin;
  if (!addresses_)
    return Tensor(graph_, type_, std::move(shape), offset_ + static_cast<std::int64_t>(begin) * strides_[dimension],
                  strides_);
  std::size_t inner = 1, outer = 1;
  for (std::size_t i = dimension + 1; i < shape_.size(); ++i)
    inner *= shape_[i];
  for (std::size_t i = 0; i < dimension; ++i)
    outer *= shape_[i];
  Addresses found;
  found.reserve(outer * inner * (end - begin));
  for (std::size_t i = 0; i < outer; ++i) {
    const auto row = addresses_->begin() + i * shape_[dimension] * inner;
    found.insert(found.end(), row + begin * inner, row + end * inner);
  }
  return gather(std::move(shape), std::move(found));
}

Tensor Tensor::slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const {
  if (begin.size() != end.size() || begin.size() > shape_.size())
    throw index_error("slice: give one begin and one end for each dimension of " + shapeToString() + ".");
  Tensor found = *this;
  for (unsigned i = 0; i < begin.size(); ++i)
    found = found.slice(begin[i], end[i], i);
  return found;
}

std::vector<Tensor> Tensor::slices(ArrayRef<Interval> intervals, unsigned dimension) const {
  std::vector<Tensor> found;
  for (const Interval &interval : intervals)
    found.push_back(slice(interval, dimension));
  return found;
}

std::vector<Tensor> Tensor::slices(const std::vector<std::vector<Interval>> &intervals, unsigned dimension) const {
  std::vector<Tensor> found;
  for (const std::vector<Interval> &group : intervals)
    found.push_back(concat(slices(group, dimension), dimension));
  return found;
}

Tensor Tensor::subSample(unsigned stride, unsigned dimension) const {
  check(dimension, "subSample");
  if (stride == 0)
    throw poplar_error("subSample: the stride is 0, and must be at least 1.");
  std::vector<std::size_t> shape = shape_;
  shape[dimension] = (shape[dimension] + stride - 1) / stride;
  if (!addresses_) {
    std::vector<std::int64_t> strides = strides_;
    strides[dimension] *= stride;
    return Tensor(graph_, type_, std::move(shape), offset_, std::move(strides));
  }
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < shape_[dimension]; i += stride)
    parts.push_back(slice(i, i + 1, dimension));
  return parts.empty() ? *this : concat(parts, dimension);
}

Tensor Tensor::reverse(unsigned dimension) const {
  check(dimension, "reverse");
  const std::size_t size = shape_[dimension];
  if (!addresses_) {
    std::vector<std::int64_t> strides = strides_;
    const std::int64_t first = size ? static_cast<std::int64_t>(size - 1) * strides[dimension] : 0;
    strides[dimension] = -strides[dimension];
    return Tensor(graph_, type_, shape_, offset_ + first, std::move(strides));
  }
  std::vector<Tensor> parts;
  for (std::size_t i = size; i-- > 0;)
    parts.push_back(slice(i, i + 1, dimension));
  return parts.empty() ? *this : concat(parts, dimension);
}

Tensor Tensor::broadcast(unsigned count, unsigned dimension) const {
  check(dimension, "broadcast");
  if (shape_[dimension] == 1 && !addresses_) {
    std::vector<std::size_t> shape = shape_;
    std::vector<std::int64_t> strides = strides_;
    shape[dimension] = count;
    strides[dimension] = 0;
    return Tensor(graph_, type_, std::move(shape), offset_, std::move(strides));
  }
  if (count == 0)
    return slice(0, 0, dimension);
  return concat(std::vector<Tensor>(count, *this), dimension);
}

Tensor Tensor::upsample(unsigned scale, unsigned dimension, UpsampleMethod) const {
  check(dimension, "upsample");
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < shape_[dimension]; ++i)
    parts.push_back(slice(i, i + 1, dimension).broadcast(scale, dimension));
  return parts.empty() ? *this : concat(parts, dimension);
}

Tensor Tensor::reshape(ArrayRef<std::size_t> shape) const {
  std::vector<std::size_t> wanted(shape.begin(), shape.end());
  if (multiply(wanted) != numElements())
    throw poplar_error("reshape: " + print(wanted) + " has " + std::to_string(multiply(wanted)) +
                       " elements, and the tensor has " + std::to_string(numElements()) + " (its shape is " +
                       shapeToString() + ").");
  if (addresses_) {
    Tensor made = *this;
    made.shape_ = std::move(wanted);
    return made;
  }
  std::vector<std::int64_t> strides;
  if (numElements() == 0)
    strides = rowMajor(wanted);
  else if (!reshapeStrides(shape_, strides_, wanted, strides))
    return gather(std::move(wanted), listAddresses());
  return Tensor(graph_, type_, std::move(wanted), offset_, std::move(strides));
}

Tensor Tensor::reshapePartial(unsigned begin, unsigned end, ArrayRef<std::size_t> dimensions) const {
  if (begin > end || end > shape_.size())
    throw index_error("reshapePartial: dimensions " + std::to_string(begin) + " to " + std::to_string(end) +
                      " are outside of " + shapeToString() + ".");
  std::vector<std::size_t> shape(shape_.begin(), shape_.begin() + begin);
  shape.insert(shape.end(), dimensions.begin(), dimensions.end());
  shape.insert(shape.end(), shape_.begin() + end, shape_.end());
  return reshape(shape);
}

Tensor Tensor::flatten() const { return reshape({numElements()}); }
Tensor Tensor::flatten(unsigned begin, unsigned end) const {
  if (begin > end || end > shape_.size())
    throw index_error("flatten: dimensions " + std::to_string(begin) + " to " + std::to_string(end) +
                      " are outside of " + shapeToString() + ".");
  return reshapePartial(begin, end,
                        {multiply(std::vector<std::size_t>(shape_.begin() + begin, shape_.begin() + end))});
}

Tensor Tensor::dimShuffle(ArrayRef<unsigned> permutation) const {
  std::vector<unsigned> sorted(permutation.begin(), permutation.end());
  std::sort(sorted.begin(), sorted.end());
  bool good = sorted.size() == shape_.size();
  for (unsigned i = 0; good && i < sorted.size(); ++i)
    good = sorted[i] == i;
  if (!good)
    throw poplar_error("dimShuffle: give each of the " + std::to_string(shape_.size()) + " dimensions once.");
  std::vector<std::size_t> shape;
  for (unsigned i : permutation)
    shape.push_back(shape_[i]);
  const std::vector<std::int64_t> own = addresses_ ? rowMajor(shape_) : strides_;
  std::vector<std::int64_t> strides;
  for (unsigned i : permutation)
    strides.push_back(own[i]);
  if (!addresses_)
    return Tensor(graph_, type_, std::move(shape), offset_, std::move(strides));
  Addresses places = Tensor(graph_, type_, shape, 0, strides).listAddresses();
  for (std::int64_t &place : places)
    place = (*addresses_)[static_cast<std::size_t>(place)];
  return gather(std::move(shape), std::move(places));
}

Tensor Tensor::dimShufflePartial(ArrayRef<unsigned> source, ArrayRef<unsigned> destination) const {
  std::vector<int> order(shape_.size(), -1);
  std::vector<bool> used(shape_.size(), false);
  for (std::size_t i = 0; i < source.size() && i < destination.size(); ++i) {
    check(source[i], "dimShufflePartial");
    check(destination[i], "dimShufflePartial");
    order[destination[i]] = static_cast<int>(source[i]);
    used[source[i]] = true;
  }
  unsigned next = 0;
  std::vector<unsigned> permutation;
  for (int place : order) {
    if (place < 0) {
      while (used[next])
        ++next;
      place = static_cast<int>(next++);
    }
    permutation.push_back(static_cast<unsigned>(place));
  }
  return dimShuffle(permutation);
}

Tensor Tensor::dimRoll(unsigned dimension, unsigned newIndex) const {
  check(dimension, "dimRoll");
  check(newIndex, "dimRoll");
  std::vector<unsigned> order;
  for (unsigned i = 0; i < shape_.size(); ++i)
    if (i != dimension)
      order.push_back(i);
  order.insert(order.begin() + newIndex, dimension);
  return dimShuffle(order);
}

Tensor Tensor::transpose() const {
  if (shape_.size() != 2)
    throw poplar_error("transpose: the tensor has " + std::to_string(shape_.size()) + " dimensions, and must have 2.");
  return dimShuffle({1, 0});
}

Tensor Tensor::expand(ArrayRef<std::size_t> indices) const {
  std::vector<std::size_t> shape = shape_, places(indices.begin(), indices.end());
  std::sort(places.rbegin(), places.rend());
  for (std::size_t place : places) {
    if (place > shape_.size())
      throw index_error("expand: there is no dimension " + std::to_string(place) + " in " + shapeToString() + ".");
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
  }
  return reshape(shape);
}

Tensor Tensor::squeeze(ArrayRef<std::size_t> dimensions) const {
  std::vector<std::size_t> shape;
  for (std::size_t place : dimensions) {
    check(static_cast<unsigned>(place), "squeeze");
    if (shape_[place] != 1)
      throw poplar_error("squeeze: dimension " + std::to_string(place) + " of " + shapeToString() +
                         " has not the size 1.");
  }
  for (std::size_t i = 0; i < shape_.size(); ++i)
    if (std::find(dimensions.begin(), dimensions.end(), i) == dimensions.end())
      shape.push_back(shape_[i]);
  return reshape(shape);
}

Tensor Tensor::reinterpret(Type type) const {
  if (type.bytes() != type_.bytes())
    throw type_error("reinterpret: " + type.toString() + " has " + std::to_string(type.bytes()) + " bytes, and " +
                     type_.toString() + " " + std::to_string(type_.bytes()) + ".");
  Tensor made = *this;
  made.type_ = type;
  return made;
}

bool Tensor::containsAliases() const {
  std::int64_t start, stride;
  if (asRow(start, stride))
    return stride == 0 && numElements() > 1;
  Addresses all = listAddresses();
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

bool Tensor::containsConstant() const { return openipu::ask("tensor.containsConstant", *this).asBool(); }

std::vector<Interval> Tensor::getContiguousRegions() const {
  std::int64_t start, stride;
  const std::size_t elements = numElements();
  if (elements == 0)
    return {};
  if (asRow(start, stride) && stride == 1)
    return {Interval(0, elements)};
  const Addresses all = listAddresses();
  std::vector<Interval> found;
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= all.size(); ++i)
    if (i == all.size() || all[i] != all[i - 1] + 1) {
      found.push_back(Interval(begin, i));
      begin = i;
    }
  return found;
}

bool Tensor::intersectsWith(const Tensor &other) const {
  if (type_.bytes() != other.type_.bytes())
    return false;
  Addresses mine = listAddresses(), theirs = other.listAddresses(), both;
  std::sort(mine.begin(), mine.end());
  std::sort(theirs.begin(), theirs.end());
  std::set_intersection(mine.begin(), mine.end(), theirs.begin(), theirs.end(), std::back_inserter(both));
  return !both.empty();
}

bool operator==(const Tensor &a, const Tensor &b) {
  return a.graph() == b.graph() && a.elementType() == b.elementType() && a.shape() == b.shape() &&
         a.listAddresses() == b.listAddresses();
}

std::ostream &operator<<(std::ostream &out, const Tensor &tensor) {
  return out << "Tensor(" << tensor.elementType() << ", " << tensor.shapeToString() << ")";
}

Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension) {
  if (tensors.empty())
    throw tensor_creation_error("concat: there is no tensor.");
  const Tensor &first = tensors[0];
  if (tensors.size() == 1)
    return first;
  std::vector<std::size_t> shape = first.shape();
  if (dimension >= shape.size())
    throw index_error("concat: there is no dimension " + std::to_string(dimension) + " in " + first.shapeToString() + ".");
  shape[dimension] = 0;
  for (const Tensor &part : tensors) {
    if (part.elementType() != first.elementType())
      throw type_error("concat: element types differ (" + first.elementType().toString() + " and " +
                       part.elementType().toString() + "). Cast one of them.");
    std::vector<std::size_t> other = part.shape();
    if (other.size() == shape.size())
      other[dimension] = shape[dimension];
    if (other != shape)
      throw poplar_error("concat: shapes " + first.shapeToString() + " and " + part.shapeToString() +
                         " differ in more than dimension " + std::to_string(dimension) + ".");
    shape[dimension] += part.dim(dimension);
  }
  std::size_t outer = 1;
  for (unsigned i = 0; i < dimension; ++i)
    outer *= shape[i];
  std::vector<Tensor::Addresses> parts;
  for (const Tensor &part : tensors)
    parts.push_back(part.listAddresses());
  Tensor::Addresses found;
  found.reserve(multiply(shape));
  for (std::size_t i = 0; i < outer; ++i)
    for (const Tensor::Addresses &part : parts) {
      const std::size_t step = part.size() / outer;
      found.insert(found.end(), part.begin() + i * step, part.begin() + (i + 1) * step);
    }
  return Tensor(first.graph(), first.elementType(), std::move(shape), std::move(found));
}

Tensor append(const Tensor &first, const Tensor &second, unsigned dimension) {
  return concat(first, second.expand({dimension}), dimension);
}

} // namespace poplar

namespace openipu {

void put(Writer &out, poplar::Type type) {
  out.tag(Tag::Type);
  out.raw(static_cast<std::uint8_t>(type.code()));
}

void put(Writer &out, const poplar::Tensor &tensor) {
  if (!tensor.valid()) {
    out.tag(Tag::None);
    return;
  }
  out.tag(Tag::Tensor);
  out.raw(tensor.graph());
  out.raw(static_cast<std::uint8_t>(tensor.elementType().code()));
  out.size(tensor.rank());
  for (std::size_t size : tensor.shape())
    out.raw(static_cast<std::int64_t>(size));
  out.raw(static_cast<std::uint8_t>(tensor.isStrided()));
  if (tensor.isStrided()) {
    out.raw(tensor.offset());
    for (std::int64_t stride : tensor.strides())
      out.raw(stride);
  } else {
    const poplar::Tensor::Addresses addresses = tensor.listAddresses();
    out.size(addresses.size());
    out.raw(addresses.data(), addresses.size() * sizeof(std::int64_t));
  }
}

poplar::Tensor readTensor(const Value &value) {
  if (value.tag != Tag::Tensor)
    return poplar::Tensor();
  std::size_t at = 0;
  const poplar::Type type(static_cast<unsigned char>(value.numbers[at++]));
  const std::size_t rank = static_cast<std::size_t>(value.numbers[at++]);
  std::vector<std::size_t> shape;
  for (std::size_t i = 0; i < rank; ++i)
    shape.push_back(static_cast<std::size_t>(value.numbers[at++]));
  const bool strided = value.numbers[at++] != 0;
  if (!strided)
    return poplar::Tensor(value.integer, type, std::move(shape),
                          poplar::Tensor::Addresses(value.numbers.begin() + at, value.numbers.end()));
  const std::int64_t offset = value.numbers[at++];
  return poplar::Tensor(value.integer, type, std::move(shape), offset,
                        std::vector<std::int64_t>(value.numbers.begin() + at, value.numbers.end()));
}

poplar::Type readType(const std::string &name) {
  for (unsigned char code = 1; code < 16; ++code)
    if (poplar::Type(code).toString() == name)
      return poplar::Type(code);
  return poplar::Type();
}

} // namespace openipu
