// Compiled programs. Part of openipu, written independently.
#ifndef openipu_poplar_Executable_hpp
#define openipu_poplar_Executable_hpp

#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>

#include <functional>
#include <istream>
#include <memory>
#include <ostream>

namespace poplar {

using ProgressFunc = std::function<void(int, int)>;

class Executable {
public:
  explicit Executable(std::int64_t handle);
  void serialize(std::ostream &to) const;
  static Executable deserialize(std::istream &from);
  std::int64_t handle() const;

private:
  std::shared_ptr<const std::int64_t> handle_;
};

Executable compileGraph(const Graph &graph, ArrayRef<program::Program> programs, const OptionFlags &options = {},
                        ProgressFunc progress = ProgressFunc(), const DebugContext &context = {});
inline Executable compileGraph(const Graph &graph, const program::Program &program, const OptionFlags &options = {},
                               ProgressFunc progress = ProgressFunc(), const DebugContext &context = {}) {
  return compileGraph(graph, ArrayRef<program::Program>(&program, std::size_t(1)), options, progress, context);
}

} // namespace poplar

#endif
