// Slices whose places are known only when a program runs. Part of openipu, written independently.
#ifndef openipu_popops_DynamicSlice_hpp
#define openipu_popops_DynamicSlice_hpp

#include <openipu/library.hpp>
#include <popops/codelets.hpp>

#include <vector>

namespace popops {

class SlicePlan {}; // the engine plans by itself

#define OPENIPU_TAIL poplar::program::Sequence &prog, const poplar::DebugContext &context = {}
#define OPENIPU_PLANNED                                                                   \
  poplar::program::Sequence &prog, const SlicePlan &, const poplar::OptionFlags &options, \
      const poplar::DebugContext &context = {}

inline poplar::Tensor createSliceableTensor(poplar::Graph &graph, const poplar::Type &type,
                                            const std::vector<std::size_t> &shape, const std::vector<std::size_t> &dims,
                                            const std::vector<std::size_t> &, std::size_t = 0,
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
inline void multiUpdateAdd(poplar::Graph &graph, const poplar::Tensor &t, const poplar::Tensor &s,
                           const poplar::Tensor &offset, const poplar::Tensor &scale,
                           const std::vector<std::size_t> &dims, const std::vector<std::size_t> &sizes,
                           OPENIPU_PLANNED) {
  (void)options;
  openipu::call("popops", "multiUpdateAdd", prog, context, graph, t, s, offset, scale, openipu::numbers(dims),
                openipu::numbers(sizes), openipu::ProgramHole());
}
#define OPENIPU_UPDATE(function)                                                                   \
  inline void function(poplar::Graph &graph, const poplar::Tensor &t, const poplar::Tensor &s,     \
                       const poplar::Tensor &offset, const std::vector<std::size_t> &dims,         \
                       const std::vector<std::size_t> &sizes, OPENIPU_PLANNED) {                   \
    (void)options;                                                                                 \
    openipu::call("popops", #function, prog, context, graph, t, s, offset, openipu::numbers(dims), \
                  openipu::numbers(sizes), openipu::ProgramHole());                                \
  }
OPENIPU_UPDATE(multiUpdate)
OPENIPU_UPDATE(multiUpdateMax)
OPENIPU_UPDATE(multiUpdateMul)
#undef OPENIPU_UPDATE

inline void dynamicSliceWithOutput(poplar::Graph &graph, const poplar::Tensor &output, const poplar::Tensor &t,
                                   const poplar::Tensor &offset, const std::vector<std::size_t> &dims,
                                   const std::vector<std::size_t> &sizes, OPENIPU_TAIL) {
  openipu::call("popops", "dynamicSliceWithOutput", prog, context, graph, output, t, offset, openipu::numbers(dims),
                openipu::numbers(sizes), openipu::ProgramHole(), context.getPathName());
}
inline poplar::Tensor createDynamicSliceOutput(poplar::Graph &graph, const poplar::Tensor &t,
                                               const poplar::Tensor &offset, const std::vector<std::size_t> &dims,
                                               const std::vector<std::size_t> &sizes,
                                               const poplar::DebugContext &context = {},
                                               const poplar::OptionFlags & = {}) {
  return openipu::callWith("popops", "createDynamicSliceOutput", nullptr, nullptr, context, graph, t, offset,
                           openipu::numbers(dims), openipu::numbers(sizes), context.getPathName())
      .tensor();
}
inline poplar::Tensor createSliceTensor(poplar::Graph &graph, const poplar::Tensor &t,
                                        const std::vector<std::size_t> &dims, const std::vector<std::size_t> &sizes,
                                        std::size_t numIndices, const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createSliceTensor", nullptr, nullptr, context, graph, t, openipu::numbers(dims),
                           openipu::numbers(sizes), numIndices)
      .tensor();
}
inline poplar::Tensor createSliceTensor(poplar::Graph &graph, const poplar::Type &type,
                                        const std::vector<std::size_t> &shape, const std::vector<std::size_t> &dims,
                                        const std::vector<std::size_t> &sizes, std::size_t numIndices,
                                        const SlicePlan &, const poplar::OptionFlags &,
                                        const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createSliceTensor", nullptr, nullptr, context, graph, type,
                           openipu::numbers(shape), openipu::numbers(dims), openipu::numbers(sizes), numIndices)
      .tensor();
}
inline poplar::Tensor createIndicesTensor(poplar::Graph &graph, const std::vector<std::size_t> &dims,
                                          std::size_t numIndices, const SlicePlan & = {},
                                          const poplar::OptionFlags & = {}, const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createIndicesTensor", nullptr, nullptr, context, graph, openipu::numbers(dims),
                           numIndices)
      .tensor();
}
inline poplar::Tensor createSliceableTensorFromSlice(poplar::Graph &graph, const poplar::Tensor &s,
                                                     const std::vector<std::size_t> &dims,
                                                     const std::vector<std::size_t> &numSlices,
                                                     const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createSliceableTensorFromSlice", nullptr, nullptr, context, graph, s,
                           openipu::numbers(dims), openipu::numbers(numSlices), context.getPathName())
      .tensor();
}
// With offsets that are known now.
inline poplar::Tensor makeOffsets(poplar::Graph &graph, poplar::ArrayRef<unsigned> offsets) {
  const poplar::Tensor made = graph.addConstant<unsigned>(poplar::UNSIGNED_INT, {offsets.size(), 1}, offsets);
  graph.setTileMapping(made, 0);
  return made;
}
inline poplar::Tensor multiSlice(poplar::Graph &graph, const poplar::Tensor &t, poplar::ArrayRef<unsigned> offsets,
                                 std::size_t dim, OPENIPU_TAIL, const poplar::OptionFlags &options = {}) {
  return multiSlice(graph, t, makeOffsets(graph, offsets), {dim}, {1}, prog, SlicePlan(), options, context);
}
inline void multiUpdateAdd(poplar::Graph &graph, const poplar::Tensor &t, const poplar::Tensor &s,
                           poplar::ArrayRef<unsigned> offsets, const poplar::Tensor &scale, std::size_t dim,
                           OPENIPU_TAIL, const poplar::OptionFlags &options = {}) {
  multiUpdateAdd(graph, t, s, makeOffsets(graph, offsets), scale, {dim}, {1}, prog, SlicePlan(), options, context);
}
#undef OPENIPU_TAIL
#undef OPENIPU_PLANNED

// Plans are made when a program is planned; these are here to be passed on.
namespace embedding {
inline SlicePlan plan(const poplar::Graph &, const poplar::Type &, std::size_t, std::size_t,
                      const std::vector<std::size_t> &, const poplar::OptionFlags &) {
  return SlicePlan();
}
inline SlicePlan plan(const poplar::Graph &, const poplar::Type &, std::size_t, std::size_t, std::size_t,
                      const std::vector<std::size_t> &, const poplar::OptionFlags &) {
  return SlicePlan();
}
} // namespace embedding

} // namespace popops

#endif
