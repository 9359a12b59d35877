// Options as names and values. Part of openipu, written independently.
#ifndef openipu_poplar_OptionFlags_hpp
#define openipu_poplar_OptionFlags_hpp

#include <poplar/StringRef.hpp>
#include <poplar/exceptions.hpp>

#include <initializer_list>
#include <iostream>
#include <istream>
#include <map>
#include <string>
#include <utility>

namespace poplar {

class OptionFlags {
public:
  using OptionFlag = std::pair<const std::string, std::string>;
  using initializer_list = std::initializer_list<OptionFlag>;
  using const_iterator = std::map<std::string, std::string>::const_iterator;
  using iterator = const_iterator;

  OptionFlags() {}
  OptionFlags(initializer_list flags) : flags_(flags) {}

  void set(initializer_list flags) {
    for (const OptionFlag &flag : flags)
      flags_[flag.first] = flag.second;
  }
  void set(StringRef option, StringRef value) { flags_[option] = value.cloneAsString(); }
  std::string at(StringRef option) const {
    const auto found = flags_.find(option);
    if (found == flags_.end())
      throw invalid_option("There is no option '" + option.cloneAsString() + "' in these OptionFlags.");
    return found->second;
  }
  void clear() { flags_.clear(); }
  bool empty() const { return flags_.empty(); }
  const_iterator begin() const { return flags_.begin(); }
  const_iterator end() const { return flags_.end(); }
  const std::map<std::string, std::string> &asMap() const { return flags_; }

private:
  std::map<std::string, std::string> flags_;
};

inline bool operator==(const OptionFlags &a, const OptionFlags &b) { return a.asMap() == b.asMap(); }
inline std::ostream &operator<<(std::ostream &out, const OptionFlags &flags) {
  const char *between = "";
  out << "{";
  for (const auto &flag : flags) {
    out << between << "\"" << flag.first << "\":\"" << flag.second << "\"";
    between = ",";
  }
  return out << "}";
}
// Reads options from JSON: an object of texts. What is there already stays, unless it is named again.
void readJSON(StringRef text, OptionFlags &flags);
void readJSON(std::istream &from, OptionFlags &flags);

} // namespace poplar

#endif
