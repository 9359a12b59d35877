// Programs that are written once and called with different tensors. Part of openipu, written independently.
#ifndef openipu_poputil_GraphFunction_hpp
#define openipu_poputil_GraphFunction_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/exceptions.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace poputil {
namespace graphfn {

enum ArgType { InputArg, OutputArg, InOutArg, CreatedArg };

struct ArgSig {
  ArgType type;
  poplar::Tensor similarTensor;
  std::string debugName;
  ArgSig(ArgType kind, poplar::Tensor similar, std::string name)
      : type(kind), similarTensor(similar), debugName(name) {}
};
inline ArgSig input(poplar::Tensor similar, std::string name = "") { return ArgSig(InputArg, similar, name); }
inline ArgSig inout(poplar::Tensor similar, std::string name = "") { return ArgSig(InOutArg, similar, name); }
inline ArgSig output(poplar::Tensor similar, std::string name = "") { return ArgSig(OutputArg, similar, name); }
inline ArgSig created(std::string name = "") { return ArgSig(CreatedArg, poplar::Tensor(), name); }

using Signature = std::vector<ArgSig>;

// Arguments are copied to the function's own tensors before a call, and results from them after it. A created one is
// the function's to make: the caller's entry becomes a new tensor. Inlined, the function is written for every call.
class VoidFunction {
public:
  using Body = std::function<void(std::vector<poplar::Tensor> &, poplar::program::Sequence &)>;

  VoidFunction(poplar::Graph &graph, Signature sig, Body body, bool inlined = false,
               const poplar::DebugContext & = {})
      : graph_(graph), sig_(sig), body_(body), inlined_(inlined) {
    if (inlined_)
      return;
    for (const ArgSig &one : sig_)
      params_.push_back(one.type == CreatedArg ? poplar::Tensor() : graph_.clone(one.similarTensor, one.debugName));
    poplar::program::Sequence prog;
    body_(params_, prog);
    function_ = graph_.addFunction(prog);
  }
  void operator()(std::vector<poplar::Tensor> &args, poplar::program::Sequence &seq,
                  const poplar::DebugContext & = {}) {
    if (args.size() != sig_.size())
      throw poplar::poplar_error("A graph function takes " + std::to_string(sig_.size()) + " arguments, not " +
                                 std::to_string(args.size()) + ".");
    if (inlined_) {
      body_(args, seq);
      return;
    }
    for (std::size_t i = 0; i != args.size(); ++i)
      if (sig_[i].type == InputArg || sig_[i].type == InOutArg)
        seq.add(poplar::program::Copy(args[i], params_[i]));
    seq.add(poplar::program::Call(function_));
    for (std::size_t i = 0; i != args.size(); ++i) {
      if (sig_[i].type == InputArg)
        continue;
      if (sig_[i].type == CreatedArg)
        args[i] = graph_.clone(params_[i], sig_[i].debugName);
      seq.add(poplar::program::Copy(params_[i], args[i]));
    }
  }

private:
  poplar::Graph &graph_;
  Signature sig_;
  Body body_;
  bool inlined_;
  std::vector<poplar::Tensor> params_;
  poplar::Function function_;
};

class ProgramFunction {
public:
  ProgramFunction(poplar::Graph &graph, Signature sig,
                  std::function<poplar::program::Program(std::vector<poplar::Tensor> &)> body, bool inlined = false,
                  const poplar::DebugContext &context = {})
      : held_(graph, sig,
              [body](std::vector<poplar::Tensor> &args, poplar::program::Sequence &prog) { prog.add(body(args)); },
              inlined, context) {}
  poplar::program::Program operator()(std::vector<poplar::Tensor> &args, const poplar::DebugContext &context = {}) {
    poplar::program::Sequence prog;
    held_(args, prog, context);
    return prog;
  }

private:
  VoidFunction held_;
};

class TensorFunction {
public:
  TensorFunction(poplar::Graph &graph, Signature sig,
                 std::function<poplar::Tensor(std::vector<poplar::Tensor> &, poplar::program::Sequence &)> body,
                 bool inlined = false, const poplar::DebugContext &context = {})
      : held_(graph, extend(sig),
              [body](std::vector<poplar::Tensor> &args, poplar::program::Sequence &prog) {
                std::vector<poplar::Tensor> given(args.begin(), args.end() - 1);
                args.back() = body(given, prog);
                std::copy(given.begin(), given.end(), args.begin());
              },
              inlined, context) {}
  poplar::Tensor operator()(std::vector<poplar::Tensor> &args, poplar::program::Sequence &prog,
                            const poplar::DebugContext &context = {}) {
    args.push_back(poplar::Tensor());
    held_(args, prog, context);
    const poplar::Tensor result = args.back();
    args.pop_back();
    return result;
  }

private:
  static Signature extend(Signature sig) {
    sig.push_back(created());
    return sig;
  }
  VoidFunction held_;
};

} // namespace graphfn
} // namespace poputil

#endif
