// What the library keeps of graphs and engines. Part of openipu.
#ifndef openipu_state_hpp
#define openipu_state_hpp

#include <poplar/Engine.hpp>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace openipu {

struct FieldInfo {
  std::string name;
  std::string access; // "input", "output", "inout", "state"
  std::string form;   // "scalar", "vector", "vector list"
  poplar::Type type;
};

struct CodeletInfo {
  std::int64_t number;
  std::string name;
  std::vector<FieldInfo> fields;
  std::map<std::string, unsigned> byName;
};

using Numbers = std::vector<std::int64_t>;

// Vertices that the engine's process does not know yet. Rows lie one after the other.
struct PendingVertices {
  Numbers added;                          // codelet, line
  Numbers tiles;                          // vertex, tile
  Numbers estimates;                      // vertex, cycles, flops
  std::map<std::pair<std::int64_t, std::string>, Numbers> rows; // (codelet, field): vertex, start, length, stride
  std::map<std::pair<std::int64_t, std::string>, std::pair<Numbers, std::vector<double>>> states; // vertices, values
};

class Listener;

struct GraphState {
  GraphState() {}
  GraphState(const GraphState &) = delete;
  ~GraphState();
  std::int64_t id = -1; // of the whole graph, in its tensors
  unsigned replicas = 1;
  std::unordered_map<std::string, std::unique_ptr<CodeletInfo>> codelets;
  std::map<std::int64_t, std::int64_t> vertexCounts; // compute set -> vertices
  std::map<std::int64_t, PendingVertices> pending;
  std::map<std::size_t, Numbers> mapped; // element size: offset, length, stride, tile
  std::map<std::pair<const char *, unsigned>, std::int64_t> lines;
  std::vector<poplar::SourceLocation> newLines;
  std::size_t waiting = 0; // numbers collected since the last flush
  std::shared_ptr<Listener> estimators;

  std::int64_t numberLine(const poplar::SourceLocation &here);
  void flush();
};

// Answers what the engine asks while a request of ours is under way.
class Listener {
public:
  virtual ~Listener() {}
  virtual void hear(const std::string &what, const Value &event, Writer &answer) = 0;
};
void listen(std::int64_t engine, Listener *listener);
void forget(std::int64_t engine);


} // namespace openipu

#endif
