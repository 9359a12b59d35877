// How C++ programs talk to openipu: values in bytes, requests and answers. Part of openipu.
//
// A value is a tag and its content; poplar/server/wire.py is the other side.
#ifndef openipu_wire_hpp
#define openipu_wire_hpp

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace openipu {

enum class Tag : std::uint8_t {
  None = 0,
  Bool,
  Int,
  Float,
  Text,
  List,
  Dict,
  Bytes,
  Ints,
  Tensor,
  Program,
  ComputeSet,
  Handle, // of something that lives in the other process
  Type,
};

class Writer {
public:
  template <typename T> void raw(const T &value) { raw(&value, sizeof value); }
  void raw(const void *from, std::size_t bytes) { bytes_.append(static_cast<const char *>(from), bytes); }
  void tag(Tag tag) { raw(static_cast<std::uint8_t>(tag)); }
  void size(std::size_t count) { raw(static_cast<std::uint64_t>(count)); }
  const std::string &bytes() const { return bytes_; }

private:
  std::string bytes_;
};

// Something that lives in the other process: a device, an engine, a plan.
struct Handle {
  std::int64_t id;
};

inline void put(Writer &out, std::nullptr_t) { out.tag(Tag::None); }
inline void put(Writer &out, bool value) {
  out.tag(Tag::Bool);
  out.raw(static_cast<std::uint8_t>(value));
}
template <typename N>
typename std::enable_if<std::is_integral<N>::value && !std::is_same<N, bool>::value>::type put(Writer &out, N value) {
  out.tag(Tag::Int);
  out.raw(static_cast<std::int64_t>(value));
}
template <typename N> typename std::enable_if<std::is_floating_point<N>::value>::type put(Writer &out, N value) {
  out.tag(Tag::Float);
  out.raw(static_cast<double>(value));
}
inline void put(Writer &out, const std::string &text) {
  out.tag(Tag::Text);
  out.size(text.size());
  out.raw(text.data(), text.size());
}
inline void put(Writer &out, const char *text) { put(out, std::string(text)); }
inline void put(Writer &out, Handle handle) {
  out.tag(Tag::Handle);
  out.raw(handle.id);
}

struct Bytes {
  const void *data;
  std::size_t size;
};
inline void put(Writer &out, Bytes bytes) {
  out.tag(Tag::Bytes);
  out.size(bytes.size);
  out.raw(bytes.data, bytes.size);
}
inline void put(Writer &out, const std::vector<std::int64_t> &values) {
  out.tag(Tag::Ints);
  out.size(values.size());
  out.raw(values.data(), values.size() * sizeof(std::int64_t));
}
// Numbers as they lie in memory: the other side knows their type.
inline void put(Writer &out, const std::vector<double> &values) {
  put(out, Bytes{values.data(), values.size() * sizeof(double)});
}
template <typename K, typename V> void put(Writer &out, const std::map<K, V> &values);
template <typename A, typename B> void put(Writer &out, const std::pair<A, B> &values);
template <typename T> void put(Writer &out, const std::vector<T> &values) {
  out.tag(Tag::List);
  out.size(values.size());
  for (const T &value : values)
    put(out, value);
}
template <typename A, typename B> void put(Writer &out, const std::pair<A, B> &values) {
  out.tag(Tag::List);
  out.size(2);
  put(out, values.first);
  put(out, values.second);
}
template <typename K, typename V> void put(Writer &out, const std::map<K, V> &values) {
  out.tag(Tag::Dict);
  out.size(values.size());
  for (const auto &entry : values) {
    put(out, std::string(entry.first));
    put(out, entry.second);
  }
}

// A value that was received.
class Value {
public:
  Tag tag = Tag::None;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;                  // text, bytes, types
  std::vector<Value> list;           // lists; of dicts: key, value, key, value
  std::vector<std::int64_t> numbers; // integers; of tensors: see readTensor

  bool isNone() const { return tag == Tag::None; }
  bool asBool() const { return integer != 0; }
  double asFloat() const { return tag == Tag::Float ? real : static_cast<double>(integer); }
  const Value &at(std::size_t i) const { return list.at(i); }
  const Value *find(const std::string &key) const {
    for (std::size_t i = 0; i + 1 < list.size(); i += 2)
      if (list[i].text == key)
        return &list[i + 1];
    return nullptr;
  }
};

} // namespace openipu

#endif
