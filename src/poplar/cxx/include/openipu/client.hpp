// The C++ side of the conversation with openipu's engine. Part of openipu.
#ifndef openipu_client_hpp
#define openipu_client_hpp

#include <openipu/wire.hpp>

namespace openipu {

// Sends a request and waits for its answer; an error of the engine is thrown as the exception that it names.
// What the engine asks meanwhile (data of streams, host functions) is answered on the way.
Value exchange(const Writer &request);

inline void putAll(Writer &) {}
template <typename First, typename... Rest> void putAll(Writer &out, const First &first, const Rest &...rest) {
  put(out, first);
  putAll(out, rest...);
}

template <typename... Arguments> Value ask(const char *what, const Arguments &...arguments) {
  Writer out;
  out.tag(Tag::List);
  out.size(1 + sizeof...(arguments));
  put(out, what);
  putAll(out, arguments...);
  return exchange(out);
}

[[noreturn]] void raise(const std::string &type, const std::string &message);

} // namespace openipu

#endif
