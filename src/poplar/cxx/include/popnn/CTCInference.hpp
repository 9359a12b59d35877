// Beam search for connectionist temporal classification. Part of openipu, written independently.
#ifndef openipu_popnn_CTCInference_hpp
#define openipu_popnn_CTCInference_hpp

#include <popnn/CTCLoss.hpp>

#include <tuple>

namespace popnn {
namespace ctc_infer {

inline ctc::Plan plan(const poplar::Graph &, const poplar::Type &, unsigned, unsigned, unsigned, unsigned,
                      const poplar::OptionFlags & = {}) {
  return ctc::Plan();
}
using ctc::createDataInput;

#define OPENIPU_DECODER(function)                                                                  \
  inline std::tuple<poplar::Tensor, poplar::Tensor, poplar::Tensor> function(                      \
      poplar::Graph &graph, const poplar::Tensor &data, const poplar::Tensor &dataLengths,         \
      poplar::program::Sequence &prog, unsigned blankClass, unsigned beamwidth, unsigned topPaths, \
      const ctc::Plan &plan, const poplar::DebugContext &context = {},                             \
      const poplar::OptionFlags &options = {}) {                                                   \
    (void)options;                                                                                 \
    const auto made = openipu::call("popnn.ctc_infer", #function, prog, context, graph, data,      \
                                    dataLengths, openipu::ProgramHole(), blankClass, beamwidth,    \
                                    topPaths, name(plan), context.getPathName())                   \
                          .tensors();                                                              \
    return std::make_tuple(made.at(0), made.at(1), made.at(2));                                    \
  }
OPENIPU_DECODER(beamSearchDecoderLogProbabilities)
OPENIPU_DECODER(beamSearchDecoderLogits)
#undef OPENIPU_DECODER

} // namespace ctc_infer
} // namespace popnn

#endif
