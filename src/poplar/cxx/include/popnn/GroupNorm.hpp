// Group norm. Part of openipu, written independently.
#ifndef openipu_popnn_GroupNorm_hpp
#define openipu_popnn_GroupNorm_hpp

#include <openipu/norms.hpp>
#include <popnn/codelets.hpp>

namespace popnn {
namespace gn {

inline openipu::TensorPair groupNormStatistics(poplar::Graph &graph, const poplar::Tensor acts, float eps,
                                               poplar::program::Sequence &prog, unsigned numGroups,
                                               OPENIPU_STATISTICS_END) {
  OPENIPU_UNUSED;
  return openipu::makePair(openipu::call("popnn.gn", "groupNormStatistics", prog, context, graph, acts, eps,
                                         openipu::ProgramHole(), static_cast<std::int64_t>(numGroups),
                                         unbiasedVarEstimate));
}
OPENIPU_NORM("popnn.gn", groupNorm, groupNormalise)

} // namespace gn
} // namespace popnn

#endif
