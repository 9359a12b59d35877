// The largest or smallest. Part of openipu, written independently.
#ifndef openipu_popops_TopK_hpp
#define openipu_popops_TopK_hpp

#include <openipu/library.hpp>
#include <popops/SortOrder.hpp>
#include <popops/codelets.hpp>

#include <utility>

namespace popops {

struct TopKParams {
  TopKParams(unsigned k, bool largest, SortOrder sortOrder, bool stableSort = false)
      : k(k), largest(largest), sortOrder(sortOrder), stableSort(stableSort) {}
  unsigned k;
  bool largest;
  SortOrder sortOrder;
  bool stableSort;

  openipu::Named named() const {
    return openipu::Named::make("popops.TopKParams", k, largest, name(sortOrder), stableSort);
  }
};

inline poplar::Tensor topK(poplar::Graph &graph, poplar::program::Sequence &prog, const poplar::Tensor &t,
                           const TopKParams &params, const poplar::DebugContext &context = {},
                           const poplar::OptionFlags &options = {}) {
  return openipu::call("popops", "topK", prog, context, graph, openipu::ProgramHole(), t, params.named(),
                       context.getPathName(), options)
      .tensor();
}
inline std::pair<poplar::Tensor, poplar::Tensor> topKWithPermutation(poplar::Graph &graph,
                                                                     poplar::program::Sequence &prog,
                                                                     const poplar::Tensor &t, const TopKParams &params,
                                                                     const poplar::DebugContext &context = {},
                                                                     const poplar::OptionFlags &options = {}) {
  const std::vector<poplar::Tensor> found =
      openipu::call("popops", "topKWithPermutation", prog, context, graph, openipu::ProgramHole(), t, params.named(),
                    context.getPathName(), options)
          .tensors();
  return {found.at(0), found.at(1)};
}

inline openipu::TensorPair topKKeyValue(poplar::Graph &graph, poplar::program::Sequence &prog,
                                        const poplar::Tensor &keys, const poplar::Tensor &values,
                                        const TopKParams &params, const poplar::DebugContext &context = {},
                                        const poplar::OptionFlags &options = {}) {
  return openipu::makePair(openipu::call("popops", "topKKeyValue", prog, context, graph, openipu::ProgramHole(), keys,
                                         values, params.named(), context.getPathName(), options));
}
inline poplar::Tensor createTopKInput(poplar::Graph &graph, const poplar::Type &type,
                                      const std::vector<std::size_t> &shape, const TopKParams &params,
                                      const poplar::DebugContext &context = {}) {
  return openipu::callWith("popops", "createTopKInput", nullptr, nullptr, context, graph, type, openipu::numbers(shape),
                           params.named(), context.getPathName())
      .tensor();
}

} // namespace popops

#endif
