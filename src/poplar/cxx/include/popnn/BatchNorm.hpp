// Batch norm. Part of openipu, written independently.
#ifndef openipu_popnn_BatchNorm_hpp
#define openipu_popnn_BatchNorm_hpp

#include <openipu/norms.hpp>
#include <popnn/codelets.hpp>

namespace popnn {
namespace bn {

OPENIPU_PLAIN_STATISTICS("popnn.bn", batchNorm)
OPENIPU_NORM("popnn.bn", batchNorm, batchNormalise)

} // namespace bn
} // namespace popnn

#endif
