// Several convolutions at once; each is planned by itself. Part of openipu, written independently.
#ifndef openipu_poplin_MultiConvolution_hpp
#define openipu_poplin_MultiConvolution_hpp

#include <poplin/Convolution.hpp>

#include <string>
#include <vector>

namespace poplin {
namespace multiconv {

struct CreateTensorArgs {
  ConvParams params;
  poplar::OptionFlags options;
  std::string name;
};
struct ConvolutionArgs {
  poplar::Tensor inputs, weights;
  ConvParams params;
  poplar::OptionFlags options;
};
struct CalculateWeightDeltasArgs {
  poplar::Tensor zDeltas, activations;
  ConvParams params;
  poplar::OptionFlags options;
};
struct ConvWeightUpdateArgs {
  poplar::Tensor zDeltas, weights, activations, scale;
  ConvParams params;
  poplar::OptionFlags options;
};
struct ConvWeightUpdateArgsScalar {
  poplar::Tensor zDeltas, weights, activations;
  float scale;
  ConvParams params;
  poplar::OptionFlags options;
};

#define OPENIPU_END \
  const poplar::DebugContext &context = {}, const poplar::OptionFlags & = {}, poplin::PlanningCache * = nullptr

inline poplar::Tensor createWeights(poplar::Graph &graph, const std::vector<CreateTensorArgs> &args, unsigned index,
                                    const poplar::OptionFlags & = {}, poplin::PlanningCache * = nullptr) {
  return poplin::createWeights(graph, args.at(index).params, args.at(index).name, args.at(index).options);
}
inline poplar::Tensor createInput(poplar::Graph &graph, const std::vector<CreateTensorArgs> &args, unsigned index,
                                  const poplar::OptionFlags & = {}, poplin::PlanningCache * = nullptr) {
  return poplin::createInput(graph, args.at(index).params, args.at(index).name, args.at(index).options);
}
inline std::vector<poplar::Tensor> convolution(poplar::Graph &graph, const std::vector<ConvolutionArgs> &args,
                                               bool transposeAndFlipWeights, poplar::program::Sequence &prog,
                                               OPENIPU_END) {
  std::vector<poplar::Tensor> made;
  for (const ConvolutionArgs &one : args)
    made.push_back(poplin::convolution(graph, one.inputs, one.weights, one.params, transposeAndFlipWeights, prog,
                                       context, one.options));
  return made;
}
inline void weightsTransposeChansFlipXY(poplar::Graph &graph, std::vector<ConvolutionArgs> &args,
                                        const std::vector<poplar::Tensor> &weightsIn, poplar::program::Sequence &prog,
                                        const poplar::OptionFlags &, const poplar::DebugContext &context,
                                        poplin::PlanningCache *) {
  for (std::size_t i = 0; i < args.size(); ++i)
    poplin::weightsTransposeChansFlipXY(graph, weightsIn.at(i), args[i].weights, prog, context);
}
inline std::vector<poplar::Tensor> calculateWeightDeltas(poplar::Graph &graph,
                                                         const std::vector<CalculateWeightDeltasArgs> &args,
                                                         poplar::program::Sequence &prog, OPENIPU_END) {
  std::vector<poplar::Tensor> made;
  for (const CalculateWeightDeltasArgs &one : args)
    made.push_back(
        poplin::calculateWeightDeltas(graph, one.zDeltas, one.activations, one.params, prog, context, one.options));
  return made;
}
template <typename Args>
inline void convolutionWeightUpdate(poplar::Graph &graph, const std::vector<Args> &args,
                                    poplar::program::Sequence &prog, OPENIPU_END) {
  for (const Args &one : args)
    poplin::convolutionWeightUpdate(graph, one.zDeltas, one.weights, one.activations, one.params, one.scale, prog,
                                    context, one.options);
}
#undef OPENIPU_END

} // namespace multiconv
} // namespace poplin

#endif
