// What the headers of popsparse have in common. Part of openipu.
#ifndef openipu_sparse_hpp
#define openipu_sparse_hpp

#include <openipu/library.hpp>
#include <popsparse/PlanningCache.hpp>
#include <popsparse/SparseTensor.hpp>
#include <popsparse/codelets.hpp>

#define OPENIPU_SPARSE_END \
  const poplar::DebugContext &context = {}, const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr

namespace openipu {

// A sparse tensor that the engine makes: where, values, rows, columns, height and width of a block.
template <typename... Arguments>
popsparse::dynamic::SparseTensor makeSparse(const char *module, const char *function, poplar::Graph &graph,
                                            const poplar::DebugContext &context, const Arguments &...arguments) {
  const Value made = callWith("popsparse._flat", "create", nullptr, nullptr, context, graph, module, function,
                              arguments..., context.getPathName())
                         .result;
  poputil::TensorMetaData numbers;
  for (std::size_t i = 2; i < made.list.size(); ++i)
    numbers.numbers.push_back(made.at(i).integer);
  return popsparse::dynamic::SparseTensor(readTensor(made.at(0)), readTensor(made.at(1)), numbers);
}

} // namespace openipu

#endif
