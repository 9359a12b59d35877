// Instance norm. Part of openipu, written independently.
#ifndef openipu_popnn_InstanceNorm_hpp
#define openipu_popnn_InstanceNorm_hpp

#include <openipu/norms.hpp>
#include <popnn/codelets.hpp>

namespace popnn {
namespace in {

OPENIPU_PLAIN_STATISTICS("popnn.in_", instanceNorm)
OPENIPU_NORM("popnn.in_", instanceNorm, instanceNormalise)

} // namespace in
} // namespace popnn

#endif
