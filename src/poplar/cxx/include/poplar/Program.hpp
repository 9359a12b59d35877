// Control programs. Part of openipu, written independently.
//
// A program is an immutable node of a tree; it is sent to the engine when an engine is made.
#ifndef openipu_poplar_Program_hpp
#define openipu_poplar_Program_hpp

#include <openipu/client.hpp>
#include <poplar/DataStream.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/SyncType.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/VertexRef.hpp>

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace openipu {

struct Node {
  std::string kind;
  std::string arguments; // values, one after the other
  std::size_t count = 0; // of values
  std::vector<std::shared_ptr<const Node>> children;
};
using NodePtr = std::shared_ptr<const Node>;

template <typename... Arguments>
std::shared_ptr<Node> makeNode(const char *kind, std::vector<NodePtr> children, const Arguments &...arguments) {
  Writer out;
  putAll(out, arguments...);
  auto made = std::make_shared<Node>();
  made->kind = kind;
  made->arguments = out.bytes();
  made->count = sizeof...(arguments);
  made->children = std::move(children);
  return made;
}

// Programs as a list in which children come before their parents; the last entries are the programs themselves.
struct ProgramList {
  std::vector<NodePtr> programs;
};
void put(Writer &out, const ProgramList &programs);
// A position in the user's source, and a name.
void put(Writer &out, const poplar::DebugContext &context);
void put(Writer &out, const poplar::OptionFlags &options);

} // namespace openipu

namespace poplar {

// How PrintTensor writes.
class PrintTensorFmt {
public:
  enum class FloatFormat { Auto = 0, Fixed = 1, Scientific = 2, None = 3 };
  PrintTensorFmt(unsigned summariseThreshold = 1000, unsigned edgeItems = 3, unsigned maxLineWidth = 75,
                 unsigned digits = 8, FloatFormat floatFormat = FloatFormat::Auto, char separator = ' ',
                 char openBracket = '[', char closeBracket = ']')
      : summariseThreshold(summariseThreshold), edgeItems(edgeItems), maxLineWidth(maxLineWidth), digits(digits),
        floatFormat(floatFormat), separator(separator), openBracket(openBracket), closeBracket(closeBracket) {}
  unsigned summariseThreshold, edgeItems, maxLineWidth, digits;
  FloatFormat floatFormat;
  char separator, openBracket, closeBracket;
};

namespace program {

class Program {
public:
  Program() : node_(std::make_shared<openipu::Node>()) { node_->kind = "Sequence"; }
  bool isEmpty() const { return node_->kind == "Sequence" && node_->children.empty(); }
  openipu::NodePtr node() const { return node_; }
  explicit Program(std::shared_ptr<openipu::Node> node) : node_(std::move(node)) {}

protected:
  std::shared_ptr<openipu::Node> node_;
};

inline bool operator==(const Program &a, const Program &b) { return a.node() == b.node(); }

class Sequence : public Program {
public:
  Sequence(const DebugContext &context = {}) : Program(openipu::makeNode("Sequence", {}, context)) {}
  Sequence(std::initializer_list<Program> programs, const DebugContext &context = {}) : Sequence(context) {
    for (const Program &program : programs)
      add(program);
  }
  Sequence(ArrayRef<Program> programs, const DebugContext &context) : Sequence(context) {
    for (const Program &program : programs)
      add(program);
  }
  Sequence(const std::vector<Program> &programs, const DebugContext &context = {}) : Sequence(context) {
    for (const Program &program : programs)
      add(program);
  }
  template <typename First, typename Second, typename... Rest,
            typename = typename std::enable_if<std::is_base_of<Program, First>::value &&
                                               std::is_base_of<Program, Second>::value>::type>
  Sequence(const First &first, const Second &second, const Rest &...rest) : Sequence() {
    add_many(first, second, rest...);
  }

  void add(const Program &program) {
    const openipu::NodePtr child = program.node(); // before a copy is made: a sequence may be added to itself
    own();
    node_->children.push_back(child);
  }
  template <typename... Programs> void add(const Program &first, const Program &second, const Programs &...rest) {
    add_many(first, second, rest...);
  }
  void add(std::initializer_list<Program> programs) {
    for (const Program &program : programs)
      add(program);
  }

private:
  // What was handed on stays as it was.
  void own() {
    if (node_.use_count() > 1)
      node_ = std::make_shared<openipu::Node>(*node_);
  }
  void add_many() {}
  template <typename First, typename... Rest> void add_many(const First &first, const Rest &...rest) {
    add(static_cast<const Program &>(first));
    add_many(rest...);
  }
};

class Copy : public Program {
public:
  Copy(Tensor source, Tensor destination, bool dontOutline = false, const DebugContext &context = {})
      : Program(openipu::makeNode("Copy", {}, source, destination, context)) {
    (void)dontOutline;
  }
  Copy(const DataStream &stream, Tensor destination, bool optimiseMemory = false, const DebugContext &context = {})
      : Program(openipu::makeNode("StreamIn", {}, stream.id(), destination, context)) {
    (void)optimiseMemory;
  }
  Copy(Tensor source, const DataStream &stream, bool optimiseMemory = false, const DebugContext &context = {})
      : Program(openipu::makeNode("StreamOut", {}, source, stream.id(), context)) {
    (void)optimiseMemory;
  }
  Copy(const RemoteBuffer &buffer, Tensor destination, const DebugContext &context = {})
      : Program(openipu::makeNode("RemoteRead", {}, buffer.id(), destination, nullptr, context)) {}
  Copy(const RemoteBuffer &buffer, Tensor destination, Tensor offset, const DebugContext &context = {})
      : Program(openipu::makeNode("RemoteRead", {}, buffer.id(), destination, offset, context)) {}
  Copy(Tensor source, const RemoteBuffer &buffer, const DebugContext &context = {})
      : Program(openipu::makeNode("RemoteWrite", {}, source, buffer.id(), nullptr, context)) {}
  Copy(Tensor source, const RemoteBuffer &buffer, Tensor offset, const DebugContext &context = {})
      : Program(openipu::makeNode("RemoteWrite", {}, source, buffer.id(), offset, context)) {}
};

class Execute : public Program {
public:
  explicit Execute(ComputeSet computeSet, const DebugContext &context = {})
      : Program(openipu::makeNode("Execute", {}, computeSet, context)) {}
  Execute(ComputeSet computeSet, Tensor exitValue, const DebugContext &context = {})
      : Program(openipu::makeNode("Execute", {}, computeSet, context, exitValue)) {}
};

class Repeat : public Program {
public:
  Repeat(unsigned count, const Program &body, const DebugContext &context = {})
      : Program(openipu::makeNode("Repeat", {body.node()}, count, context)) {}
};

class RepeatWhileTrue : public Program {
public:
  RepeatWhileTrue(const Program &condition, Tensor predicate, const Program &body, const DebugContext &context = {})
      : Program(openipu::makeNode("RepeatWhileTrue", {condition.node(), body.node()}, predicate, context)) {}
};

class RepeatWhileFalse : public Program {
public:
  RepeatWhileFalse(const Program &condition, Tensor predicate, const Program &body, const DebugContext &context = {})
      : Program(openipu::makeNode("RepeatWhileFalse", {condition.node(), body.node()}, predicate, context)) {}
};

class If : public Program {
public:
  If(Tensor predicate, const Program &then, const Program &otherwise, const DebugContext &context = {})
      : Program(openipu::makeNode("If", {then.node(), otherwise.node()}, predicate, context)) {}
};

class Switch : public Program {
public:
  using Cases = std::vector<std::pair<std::int32_t, Program>>;
  explicit Switch(Tensor control, const DebugContext &context = {}) : Switch(control, Cases(), context) {}
  Switch(Tensor control, const Cases &cases, const DebugContext &context = {})
      : Switch(control, cases, Sequence(context), context) {}
  Switch(Tensor control, const Program &otherwise, const DebugContext &context = {})
      : Switch(control, Cases(), otherwise, context) {}
  Switch(Tensor control, const Cases &cases, const Program &otherwise, const DebugContext &context = {})
      : control_(control), default_(otherwise), context_(context) {
    for (const auto &entry : cases)
      keep(entry.first, entry.second);
    write();
  }
  Switch &add(std::int32_t value, const Program &body) {
    keep(value, body);
    write();
    return *this;
  }
  static Switch switchWithBoundsChecking(Tensor control, const Cases &cases, const DebugContext &context = {});

private:
  void keep(std::int32_t value, const Program &body) {
    values_.push_back(value);
    bodies_.push_back(body.node());
  }
  void write() {
    std::vector<openipu::NodePtr> children(bodies_);
    children.push_back(default_.node());
    node_ = openipu::makeNode("Switch", children, control_, values_, context_);
  }
  Tensor control_;
  Program default_;
  DebugContext context_;
  std::vector<std::int64_t> values_;
  std::vector<openipu::NodePtr> bodies_;
};

class Call : public Program {
public:
  explicit Call(Function function, const DebugContext &context = {})
      : Program(openipu::makeNode("Call", {}, function.id(), context)) {}
  Call(HostFunction function, std::vector<Tensor> inputs, std::vector<Tensor> outputs, const DebugContext &context = {})
      : Program(openipu::makeNode("CallHost", {}, function.id(), inputs, outputs, context)) {}
};

class PrintTensor : public Program {
public:
  explicit PrintTensor(Tensor tensor, const DebugContext &context = {})
      : Program(openipu::makeNode("PrintTensor", {}, "", tensor, context)) {}
  PrintTensor(StringRef title, Tensor tensor, const DebugContext &context = {})
      : Program(openipu::makeNode("PrintTensor", {}, title.cloneAsString(), tensor, context)) {}
  PrintTensor(StringRef title, Tensor tensor, const PrintTensorFmt &format, const DebugContext &context = {})
      : Program(openipu::makeNode("PrintTensor", {}, title.cloneAsString(), tensor, context, format.summariseThreshold,
                                  format.edgeItems, format.maxLineWidth, format.digits,
                                  static_cast<int>(format.floatFormat), std::string(1, format.separator),
                                  std::string(1, format.openBracket), std::string(1, format.closeBracket))) {}
};

class Sync : public Program {
public:
  explicit Sync(SyncType type, const DebugContext &context = {})
      : Program(openipu::makeNode("Sync", {}, static_cast<int>(type), context)) {}
};

class WriteUndef : public Program {
public:
  explicit WriteUndef(Tensor tensor, const DebugContext &context = {})
      : Program(openipu::makeNode("WriteUndef", {}, tensor, context)) {}
};

class CrossReplicaCopy : public Program {
public:
  CrossReplicaCopy(Tensor source, Tensor destination, std::map<unsigned, unsigned> replicas,
                   const DebugContext &context = {})
      : Program(openipu::makeNode("CrossReplicaCopy", {}, source, destination,
                                  std::vector<std::pair<unsigned, unsigned>>(replicas.begin(), replicas.end()), context)) {}
};

class AssumeEqualAcrossReplicas : public Program {
public:
  explicit AssumeEqualAcrossReplicas(Tensor tensor, const DebugContext &context = {})
      : Program(openipu::makeNode("AssumeEqualAcrossReplicas", {}, tensor, context)) {}
};

class Abort : public Program {
public:
  explicit Abort(StringRef message = "", const DebugContext &context = {})
      : Program(openipu::makeNode("Abort", {}, message.cloneAsString(), context)) {}
};

class AbortOnCondition : public Program {
public:
  AbortOnCondition(Tensor condition, StringRef message, const DebugContext &context = {})
      : Program(openipu::makeNode("AbortOnCondition", {}, condition, message.cloneAsString(), context)) {}
};

class ErrorProgram : public Program {
public:
  ErrorProgram(StringRef message, Tensor tensor, const DebugContext &context = {})
      : Program(openipu::makeNode("ErrorProgram", {}, message.cloneAsString(), tensor, context)) {}
};

} // namespace program

namespace core {
namespace program = ::poplar::program;
}

} // namespace poplar

#endif
