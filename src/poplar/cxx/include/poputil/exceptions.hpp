// Part of openipu, written independently.
#ifndef openipu_poputil_exceptions_hpp
#define openipu_poputil_exceptions_hpp

#include <stdexcept>
#include <string>

namespace poputil {
struct poplibs_error : public std::runtime_error {
  std::string type = "poplibs_error";
  explicit poplibs_error(const std::string &message) : std::runtime_error(message) {}
};
} // namespace poputil

#endif
