// The clock of a device. Cycles are those of the plan for what ran. Part of openipu, written independently.
#ifndef openipu_poplar_CycleCount_hpp
#define openipu_poplar_CycleCount_hpp

#include <openipu/library.hpp>
#include <poplar/SyncType.hpp>

#include <vector>

namespace openipu {
inline std::vector<poplar::Tensor> makeStamps(poplar::Graph &graph, int count, unsigned tile,
                                              const poplar::DebugContext &context) {
  return callWith("poplar._cycles", "make_stamps", nullptr, nullptr, context, graph, count, tile,
                  context.getPathName().empty() ? std::string("cycles") : context.getPathName())
      .tensors();
}
inline poplar::program::Program makeStamp(const poplar::Tensor &into, const poplar::DebugContext &context) {
  return poplar::program::Program(makeNode("CycleStamp", {}, into, nullptr, context));
}
} // namespace openipu

namespace poplar {

// Low and high half of the cycles that `prog` takes. The sequence is changed: a sync and a stamp come before it, and a
// stamp behind it.
inline Tensor cycleCount(Graph &graph, program::Sequence &prog, unsigned tile, SyncType type,
                         const DebugContext &context = {}) {
  const std::vector<Tensor> stamps = openipu::makeStamps(graph, 2, tile, context);
  program::Sequence timed;
  timed.add(program::Sync(type));
  timed.add(openipu::makeStamp(stamps[0], context));
  timed.add(prog);
  timed.add(program::Program(openipu::makeNode("CycleStamp", {}, stamps[1], stamps[0], context)));
  prog = timed;
  return stamps[1];
}

// Cycles since the program was loaded.
inline Tensor cycleStamp(Graph &graph, program::Sequence &prog, unsigned tile, SyncType type,
                         const DebugContext &context = {}) {
  const Tensor stamp = openipu::makeStamps(graph, 1, tile, context)[0];
  prog.add(program::Sync(type));
  prog.add(openipu::makeStamp(stamp, context));
  return stamp;
}
inline std::vector<Tensor> cycleStamp(Graph &graph, program::Sequence &prog, const std::vector<unsigned> &tiles,
                                      SyncType type, const DebugContext &context = {}) {
  std::vector<Tensor> stamps;
  prog.add(program::Sync(type));
  for (unsigned tile : tiles) {
    stamps.push_back(openipu::makeStamps(graph, 1, tile, context)[0]);
    prog.add(openipu::makeStamp(stamps.back(), context));
  }
  return stamps;
}

} // namespace poplar

#endif
