// Calls of library functions: by name, with their arguments in the original's order. Part of openipu.
#ifndef openipu_library_hpp
#define openipu_library_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

#include <string>
#include <utility>
#include <vector>

namespace openipu {

// Stands where a function takes the program, or the compute sets, that it adds to.
struct ProgramHole {};
struct SetsHole {};
inline void put(Writer &out, ProgramHole) {
  out.tag(Tag::Program);
  out.raw(std::int64_t(-1));
}
inline void put(Writer &out, SetsHole) {
  out.tag(Tag::ComputeSet);
  out.raw(std::int64_t(-1));
}

// A name of the library (an enumerator), or an object that is made of arguments there.
class Named {
public:
  explicit Named(std::string path) : path_(std::move(path)) {}
  template <typename... Arguments> static Named make(const std::string &path, const Arguments &...arguments) {
    Named made(path);
    made.isMade_ = true;
    made.count_ = sizeof...(arguments);
    Writer out;
    putAll(out, arguments...);
    made.arguments_ = out.bytes();
    return made;
  }
  template <typename T> void add(const T &argument) {
    Writer out;
    put(out, argument);
    arguments_ += out.bytes();
    ++count_;
  }
  void write(Writer &out) const {
    out.tag(Tag::Dict);
    out.size(isMade_ ? 2 : 1);
    put(out, "make");
    put(out, path_);
    if (isMade_) {
      put(out, "arguments");
      out.tag(Tag::List);
      out.size(count_);
      out.raw(arguments_.data(), arguments_.size());
    }
  }

private:
  std::string path_;
  bool isMade_ = false;
  std::size_t count_ = 0;
  std::string arguments_;
};
inline void put(Writer &out, const Named &named) { named.write(out); }

template <typename T> void put(Writer &out, const poplar::ArrayRef<T> &values) {
  put(out, std::vector<T>(values.begin(), values.end()));
}

struct Results {
  Value result;
  poplar::Tensor tensor() const { return readTensor(result); }
  std::vector<poplar::Tensor> tensors() const {
    std::vector<poplar::Tensor> found;
    for (const Value &entry : result.list)
      found.push_back(readTensor(entry));
    return found;
  }
  poplar::program::Program program() const {
    return poplar::program::Program(makeNode("Held", {}, result.integer));
  }
};

using TensorPair = std::pair<poplar::Tensor, poplar::Tensor>;
inline TensorPair makePair(const Results &results) {
  const std::vector<poplar::Tensor> found = results.tensors();
  return {found.at(0), found.at(1)};
}

// What the function added comes to the end of `prog` and of `sets`.
template <typename... Arguments>
Results callWith(const char *library, const char *function, poplar::program::Sequence *prog,
                 std::vector<poplar::ComputeSet> *sets, const poplar::DebugContext &context,
                 const Arguments &...arguments) {
  const Value answer = ask("call", library, function, context, arguments...);
  if (prog && !answer.at(1).isNone())
    prog->add(poplar::program::Program(makeNode("Held", {}, answer.at(1).integer)));
  if (sets)
    for (const Value &entry : answer.at(2).list)
      sets->push_back(poplar::ComputeSet(entry.integer));
  return Results{answer.at(0)};
}

template <typename... Arguments>
Results call(const char *library, const char *function, poplar::program::Sequence &prog,
             const poplar::DebugContext &context, const Arguments &...arguments) {
  return callWith(library, function, &prog, nullptr, context, arguments...);
}

inline std::vector<std::int64_t> numbers(const std::vector<std::size_t> &values) {
  return std::vector<std::int64_t>(values.begin(), values.end());
}
inline std::vector<std::int64_t> numbers(poplar::ArrayRef<std::size_t> values) {
  return std::vector<std::int64_t>(values.begin(), values.end());
}
inline std::vector<std::int64_t> numbers(const std::vector<unsigned> &values) {
  return std::vector<std::int64_t>(values.begin(), values.end());
}

inline std::vector<std::int64_t> signedNumbers(const std::vector<std::ptrdiff_t> &values) {
  return std::vector<std::int64_t>(values.begin(), values.end());
}

} // namespace openipu

#endif
