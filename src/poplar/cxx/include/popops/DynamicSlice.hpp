// Slices whose places are known only when a program runs. Part of openipu, written independently.
#ifndef openipu_popops_DynamicSlice_hpp
#define openipu_popops_DynamicSlice_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

#include <vector>

namespace popops {

class SlicePlan {}; // the engine plans by itself

#define OPENIPU_TAIL poplar::program::Sequence &prog, const poplar::DebugContext &context = {}
#define OPENIPU_PLANNED                                                                            \
  poplar::program::Sequence &prog, const SlicePlan &, const poplar::OptionFlags &options,          \
      const poplar::DebugContext &context = {}

inline poplar::Tensor createSliceableTensor(poplar::Graph &graph, const poplar::Type &type,
                                            const std::vector<std::size_t> &shape, const std::vector<std::size_t> &dims,
                                            const std::vector<std::size_t> &, std::size_t,
                                            const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createSliceableTensor", nullptr, nullptr, context, graph, type,
                           openipu::numbers(shape), openipu::numbers(dims), context.getPathName())
      .tensor();
}
inline poplar::Tensor createSliceableTensor(poplar::Graph &graph, const poplar::Type &type,
                                            const std::vector<std::size_t> &shape, const std::vector<std::size_t> &dims,
                                            const std::vector<std::size_t> &sizes, const SlicePlan &,
                                            const poplar::OptionFlags &, const poplar::DebugContext &context = {}) {
  return createSliceableTensor(graph, type, shape, dims, sizes, 0, context);
}
inline poplar::Tensor dynamicSlice(poplar::Graph &graph, const poplar::Tensor &t, const poplar::Tensor &offset,
                                   const std::vector<std::size_t> &dims, const std::vector<std::size_t> &sizes,
                                   OPENIPU_TAIL) {
  return openipu::call("popops", "dynamicSlice", prog, context, graph, t, offset, openipu::numbers(dims),
                       openipu::numbers(sizes), openipu::ProgramHole(), context.getPathName())
      .tensor();
}
inline void dynamicUpdate(poplar::Graph &graph, const poplar::Tensor &t, const poplar::Tensor &s,
                          const poplar::Tensor &offset, const std::vector<std::size_t> &dims,
                          const std::vector<std::size_t> &sizes, OPENIPU_TAIL) {
  openipu::call("popops", "dynamicUpdate", prog, context, graph, t, s, offset, openipu::numbers(dims),
                openipu::numbers(sizes), openipu::ProgramHole(), context.getPathName());
}
inline poplar::Tensor multiSlice(poplar::Graph &graph, const poplar::Tensor &t, const poplar::Tensor &offset,
                                 const std::vector<std::size_t> &dims, const std::vector<std::size_t> &sizes,
                                 OPENIPU_PLANNED) {
  return openipu::call("popops", "multiSlice", prog, context, graph, t, offset, openipu::numbers(dims),
                       openipu::numbers(sizes), openipu::ProgramHole(), nullptr, options, context.getPathName())
      .tensor();
}
inline void multiUpdate(poplar::Graph &graph, const poplar::Tensor &t, const poplar::Tensor &s,
                        const poplar::Tensor &offset, const std::vector<std::size_t> &dims,
                        const std::vector<std::size_t> &sizes, OPENIPU_PLANNED) {
  (void)options;
  openipu::call("popops", "multiUpdate", prog, context, graph, t, s, offset, openipu::numbers(dims),
                openipu::numbers(sizes), openipu::ProgramHole());
}
inline void multiUpdateAdd(poplar::Graph &graph, const poplar::Tensor &t, const poplar::Tensor &s,
                           const poplar::Tensor &offset, const poplar::Tensor &scale,
                           const std::vector<std::size_t> &dims, const std::vector<std::size_t> &sizes,
                           OPENIPU_PLANNED) {
  (void)options;
  openipu::call("popops", "multiUpdateAdd", prog, context, graph, t, s, offset, scale, openipu::numbers(dims),
                openipu::numbers(sizes), openipu::ProgramHole());
}
#undef OPENIPU_TAIL
#undef OPENIPU_PLANNED

} // namespace popops

#endif
