// Reductions. Part of openipu, written independently.
#ifndef openipu_popops_Reduce_hpp
#define openipu_popops_Reduce_hpp

#include <popops/OperationDef.hpp>
#include <popops/codelets.hpp>

#include <vector>

namespace popops {

struct ReduceParams {
  ReduceParams(Operation op = Operation::ADD, bool update = false) : op(op), update(update) {}
  ReduceParams(Operation op, bool update, poplar::Tensor scale)
      : op(op), update(update), scale(scale), useScale(true) {}
  Operation op;
  bool update;
  poplar::Tensor scale;
  bool useScale = false;

  openipu::Named named() const {
    return useScale ? openipu::Named::make("popops.ReduceParams", name(op), update, scale)
                    : openipu::Named::make("popops.ReduceParams", name(op), update);
  }
};

#define OPENIPU_END const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}

inline poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Type &type,
                             const std::vector<std::size_t> &dims, ReduceParams params, poplar::program::Sequence &prog,
                             OPENIPU_END) {
  return openipu::call("popops", "reduce", prog, context, graph, in, type, openipu::numbers(dims), params.named(),
                       openipu::ProgramHole(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in, const std::vector<std::size_t> &dims,
                             ReduceParams params, poplar::program::Sequence &prog, OPENIPU_END) {
  return openipu::call("popops", "reduce", prog, context, graph, in, openipu::numbers(dims), params.named(),
                       openipu::ProgramHole(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in, const std::vector<std::size_t> &dims,
                             ReduceParams params, std::vector<poplar::ComputeSet> &sets, OPENIPU_END) {
  return openipu::callWith("popops", "reduce", nullptr, &sets, context, graph, in, openipu::numbers(dims),
                           params.named(), openipu::SetsHole(), context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Type &type,
                             const std::vector<std::size_t> &dims, ReduceParams params,
                             std::vector<poplar::ComputeSet> &sets, OPENIPU_END) {
  return openipu::callWith("popops", "reduce", nullptr, &sets, context, graph, in, type, openipu::numbers(dims),
                           params.named(), openipu::SetsHole(), context.getPathName(), options)
      .tensor();
}
inline void reduceWithOutput(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Tensor &out,
                             const std::vector<std::size_t> &dims, ReduceParams params, poplar::program::Sequence &prog,
                             OPENIPU_END) {
  openipu::call("popops", "reduceWithOutput", prog, context, graph, in, out, openipu::numbers(dims), params.named(),
                openipu::ProgramHole(), context.getPathName(), options);
}
inline void reduceWithOutput(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Tensor &out,
                             const std::vector<std::size_t> &dims, ReduceParams params,
                             std::vector<poplar::ComputeSet> &sets, OPENIPU_END) {
  openipu::callWith("popops", "reduceWithOutput", nullptr, &sets, context, graph, in, out, openipu::numbers(dims),
                    params.named(), openipu::SetsHole(), context.getPathName(), options);
}

struct SingleReduceOp {
  poplar::Tensor in;
  std::vector<std::size_t> dims;
  ReduceParams params;
  bool useOutType;
  poplar::Type outType;
  std::string debugName;
  SingleReduceOp(poplar::Tensor tensor, std::vector<std::size_t> along, ReduceParams how, poplar::Type type,
                 std::string name = "")
      : in(tensor), dims(along), params(how), useOutType(true), outType(type), debugName(name) {}
  SingleReduceOp(poplar::Tensor tensor, std::vector<std::size_t> along, ReduceParams how, std::string name = "")
      : in(tensor), dims(along), params(how), useOutType(false), outType(tensor.elementType()), debugName(name) {}
};

// `outputs` is filled if it is empty.
inline void reduceMany(poplar::Graph &graph, const std::vector<SingleReduceOp> &reductions,
                       std::vector<poplar::Tensor> &outputs, poplar::program::Sequence &prog, OPENIPU_END) {
  const bool given = !outputs.empty();
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    const SingleReduceOp &one = reductions[i];
    const poplar::DebugContext inner(context, one.debugName);
    if (given)
      reduceWithOutput(graph, one.in, outputs.at(i), one.dims, one.params, prog, inner, options);
    else
      outputs.push_back(reduce(graph, one.in, one.outType, one.dims, one.params, prog, inner, options));
  }
}

#undef OPENIPU_END

} // namespace popops

#endif
