// Pooling and its gradient. Part of openipu, written independently.
#ifndef openipu_popnn_Pooling_hpp
#define openipu_popnn_Pooling_hpp

#include <openipu/library.hpp>
#include <popnn/PoolingDef.hpp>
#include <popnn/codelets.hpp>

#include <vector>

namespace popnn {
namespace pooling {

struct PoolParams {
  PoolingType poolingType;
  std::vector<std::size_t> inputFieldShape, kernelShape;
  std::vector<unsigned> stride;
  std::vector<int> inputTruncationOrPaddingLower, inputTruncationOrPaddingUpper;
  std::size_t numChannels, batchSize;
  poplar::Type dType;

  PoolParams(PoolingType kind, std::vector<std::size_t> field, std::vector<std::size_t> kernel,
             std::vector<unsigned> steps, std::vector<int> lower, std::vector<int> upper, std::size_t channels,
             std::size_t batch, poplar::Type type)
      : poolingType(kind), inputFieldShape(field), kernelShape(kernel), stride(steps),
        inputTruncationOrPaddingLower(lower), inputTruncationOrPaddingUpper(upper), numChannels(channels),
        batchSize(batch), dType(type) {}

  std::size_t getNumFieldDims() const { return inputFieldShape.size(); }
  std::vector<std::size_t> getOutputFieldShape() const {
    std::vector<std::size_t> found;
    for (std::size_t d = 0; d != inputFieldShape.size(); ++d) {
      const long padded = static_cast<long>(inputFieldShape[d]) + inputTruncationOrPaddingLower.at(d) +
                          inputTruncationOrPaddingUpper.at(d);
      found.push_back(static_cast<std::size_t>((padded - static_cast<long>(kernelShape.at(d))) / stride.at(d) + 1));
    }
    return found;
  }
  openipu::Named named() const {
    static const char *const names[] = {"MAX", "AVG", "SUM"};
    return openipu::Named::make(
        "popnn.pooling.PoolParams",
        openipu::Named(std::string("popnn.pooling.PoolingType.") + names[static_cast<int>(poolingType)]),
        openipu::numbers(inputFieldShape), openipu::numbers(kernelShape), openipu::numbers(stride),
        std::vector<std::int64_t>(inputTruncationOrPaddingLower.begin(), inputTruncationOrPaddingLower.end()),
        std::vector<std::int64_t>(inputTruncationOrPaddingUpper.begin(), inputTruncationOrPaddingUpper.end()),
        static_cast<std::int64_t>(numChannels), static_cast<std::int64_t>(batchSize), dType);
  }
};

inline poplar::Tensor pool(poplar::Graph &graph, const PoolParams &params, const poplar::Tensor &in,
                           poplar::program::Sequence &prog, const poplar::DebugContext &context = {},
                           const poplar::OptionFlags &options = {}) {
  return openipu::call("popnn.pooling", "pool", prog, context, graph, params.named(), in, openipu::ProgramHole(),
                       context.getPathName(), options)
      .tensor();
}
inline poplar::Tensor poolInputGradient(poplar::Graph &graph, const PoolParams &params, const poplar::Tensor &in,
                                        const poplar::Tensor &pooled, const poplar::Tensor &pooledGradient,
                                        bool useScaledGradient, poplar::program::Sequence &prog,
                                        const poplar::DebugContext &context = {},
                                        const poplar::OptionFlags &options = {}) {
  (void)options;
  return openipu::call("popnn.pooling", "poolInputGradient", prog, context, graph, params.named(), in, pooled,
                       pooledGradient, useScaledGradient, openipu::ProgramHole())
      .tensor();
}

} // namespace pooling
} // namespace popnn

#endif
