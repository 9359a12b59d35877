// Loops with a counter that programs can read. Part of openipu, written independently.
#ifndef openipu_popops_Loop_hpp
#define openipu_popops_Loop_hpp

#include <popops/ElementWise.hpp>
#include <popops/Fill.hpp>

#include <functional>

namespace popops {

using CountedLoopBodyType = std::function<poplar::program::Program(const poplar::Tensor &)>;

// for (i = begin; i < end; i += step); the body is made once, from the tensor that counts.
inline poplar::program::Sequence countedLoop(poplar::Graph &graph, std::size_t begin, std::size_t end, std::size_t step,
                                             const CountedLoopBodyType &body,
                                             const poplar::DebugContext &context = {}) {
  const poplar::Tensor counter = graph.addVariable(poplar::UNSIGNED_INT, {1}, {context, "counter"});
  graph.setTileMapping(counter, 0);
  poplar::program::Sequence loop(context), inner;
  fill(graph, counter, loop, static_cast<unsigned>(begin), {context, "begin"});
  inner.add(body(counter));
  addInPlace(graph, counter, static_cast<unsigned>(step), inner, {context, "step"});
  const std::size_t count = end > begin && step > 0 ? (end - begin + step - 1) / step : 0;
  loop.add(poplar::program::Repeat(static_cast<unsigned>(count), inner, context));
  return loop;
}
inline poplar::program::Sequence countedLoop(poplar::Graph &graph, std::size_t count, const CountedLoopBodyType &body,
                                             const poplar::DebugContext &context = {}) {
  return countedLoop(graph, 0, count, 1, body, context);
}

// for (count = begin; count < limit; count += step), or count > limit for a negative step; `limit` is read as it runs.
inline poplar::program::Sequence countedForLoop(poplar::Graph &graph, const poplar::Tensor &count, int begin,
                                                const poplar::Tensor &limit, int step,
                                                const poplar::program::Program &body,
                                                const poplar::DebugContext &context = {}) {
  poplar::program::Sequence loop(context), condition, inner;
  fill(graph, count, loop, begin, {context, "begin"});
  const poplar::Tensor more = step < 0 ? gt(graph, count, limit, condition, {context, "more"})
                                       : lt(graph, count, limit, condition, {context, "more"});
  inner.add(body);
  addInPlace(graph, count, step, inner, {context, "step"});
  loop.add(poplar::program::RepeatWhileTrue(condition, more, inner, context));
  return loop;
}
inline poplar::program::Sequence countedForLoop(poplar::Graph &graph, int begin, const poplar::Tensor &limit, int step,
                                                const poplar::program::Program &body,
                                                const poplar::DebugContext &context = {}) {
  const poplar::Tensor count = graph.clone(limit, {context, "counter"});
  return countedForLoop(graph, count, begin, limit, step, body, context);
}

} // namespace popops

#endif
