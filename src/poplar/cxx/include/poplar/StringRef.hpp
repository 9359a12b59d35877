// A view of a text of somebody else. Part of openipu, written independently.
#ifndef openipu_poplar_StringRef_hpp
#define openipu_poplar_StringRef_hpp

#include <cstring>
#include <ostream>
#include <string>

namespace poplar {

class StringRef {
public:
  StringRef() : data_(""), size_(0) {}
  StringRef(const char *text) : data_(text ? text : ""), size_(std::strlen(data_)) {}
  StringRef(const char *text, std::size_t size) : data_(text), size_(size) {}
  StringRef(const std::string &text) : data_(text.data()), size_(text.size()) {}

  const char *data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const char *begin() const { return data_; }
  const char *end() const { return data_ + size_; }
  char operator[](std::size_t i) const { return data_[i]; }
  std::string cloneAsString() const { return std::string(data_, size_); }
  operator std::string() const { return cloneAsString(); }

private:
  const char *data_;
  std::size_t size_;
};

inline bool operator==(StringRef a, StringRef b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}
inline bool operator!=(StringRef a, StringRef b) { return !(a == b); }
inline std::string operator+(StringRef a, StringRef b) { return a.cloneAsString() + b.cloneAsString(); }
inline std::ostream &operator<<(std::ostream &out, StringRef text) { return out.write(text.data(), text.size()); }

} // namespace poplar

#endif
