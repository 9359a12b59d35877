// Layer norm. Part of openipu, written independently.
#ifndef openipu_popnn_LayerNorm_hpp
#define openipu_popnn_LayerNorm_hpp

#include <openipu/norms.hpp>
#include <popnn/codelets.hpp>

namespace popnn {
namespace ln {

OPENIPU_PLAIN_STATISTICS("popnn.ln", layerNorm)
OPENIPU_NORM("popnn.ln", layerNorm, layerNormalise)

} // namespace ln
} // namespace popnn

#endif
