// What a convolution is. Part of openipu, written independently.
#ifndef openipu_poplin_ConvParams_hpp
#define openipu_poplin_ConvParams_hpp

#include <openipu/library.hpp>

#include <vector>

namespace poplin {

struct ConvParams {
  // Transformations of an input or a kernel before it is used, each with one number for a dimension of the field.
  struct InputTransform {
    std::vector<unsigned> truncationLower, truncationUpper, dilation, paddingLower, paddingUpper;
    std::vector<bool> flip;
  };
  struct OutputTransform {
    std::vector<unsigned> truncationLower, truncationUpper, stride, paddingLower, paddingUpper;
  };

  poplar::Type inputType, outputType;
  std::size_t batchSize = 1;
  std::vector<std::size_t> inputFieldShape, kernelShape;
  std::size_t inputChannelsPerConvGroup = 1, outputChannelsPerConvGroup = 1, numConvGroups = 1;
  InputTransform inputTransform, kernelTransform;
  OutputTransform outputTransform;

  ConvParams() {}
  ConvParams(poplar::Type type, std::size_t batch, std::vector<std::size_t> field, std::vector<std::size_t> kernel,
             std::size_t inputChannels, std::size_t outputChannels, std::size_t groups)
      : ConvParams(type, type, batch, field, kernel, inputChannels, outputChannels, groups) {}
  ConvParams(poplar::Type input, poplar::Type output, std::size_t batch, std::vector<std::size_t> field,
             std::vector<std::size_t> kernel, std::size_t inputChannels, std::size_t outputChannels, std::size_t groups)
      : inputType(input), outputType(output), batchSize(batch), inputFieldShape(field), kernelShape(kernel),
        inputChannelsPerConvGroup(inputChannels), outputChannelsPerConvGroup(outputChannels), numConvGroups(groups) {
    for (InputTransform *side : {&inputTransform, &kernelTransform}) {
      side->truncationLower = side->truncationUpper = side->paddingLower = side->paddingUpper =
          std::vector<unsigned>(field.size(), 0);
      side->dilation = std::vector<unsigned>(field.size(), 1);
      side->flip = std::vector<bool>(field.size(), false);
    }
    outputTransform.truncationLower = outputTransform.truncationUpper = outputTransform.paddingLower =
        outputTransform.paddingUpper = std::vector<unsigned>(field.size(), 0);
    outputTransform.stride = std::vector<unsigned>(field.size(), 1);
  }
  ConvParams(poplar::Type input, poplar::Type output, std::size_t batch, std::vector<std::size_t> field,
             std::vector<std::size_t> kernel, std::size_t inputChannels, std::size_t outputChannels, std::size_t groups,
             InputTransform inputSide, InputTransform kernelSide, OutputTransform outputSide)
      : ConvParams(input, output, batch, field, kernel, inputChannels, outputChannels, groups) {
    inputTransform = inputSide;
    kernelTransform = kernelSide;
    outputTransform = outputSide;
  }

  std::size_t getNumConvGroups() const { return numConvGroups; }
  std::size_t getNumOutputChansPerConvGroup() const { return outputChannelsPerConvGroup; }
  std::size_t getNumInputChansPerConvGroup() const { return inputChannelsPerConvGroup; }
  std::size_t getNumOutputChans() const { return outputChannelsPerConvGroup * numConvGroups; }
  std::size_t getNumInputChans() const { return inputChannelsPerConvGroup * numConvGroups; }
  std::size_t getBatchSize() const { return batchSize; }
  std::vector<std::size_t> getInputFieldShape() const { return inputFieldShape; }
  std::vector<std::size_t> getKernelShape() const { return kernelShape; }

  openipu::Named named() const {
    refuse(inputTransform, false);
    refuse(kernelTransform, true);
    for (unsigned i = 0; i < inputFieldShape.size(); ++i)
      if (outputTransform.truncationLower[i] || outputTransform.truncationUpper[i] || outputTransform.paddingLower[i] ||
          outputTransform.paddingUpper[i])
        throw poplar::poplar_error("ConvParams: a truncated or padded output is not there. Slice or pad the result.");
    return openipu::Named::make("poplin.ConvParams", inputType, batchSize, openipu::numbers(inputFieldShape),
                                openipu::numbers(kernelShape), inputChannelsPerConvGroup, outputChannelsPerConvGroup,
                                numConvGroups, openipu::numbers(outputTransform.stride),
                                openipu::numbers(inputTransform.paddingLower),
                                openipu::numbers(inputTransform.paddingUpper),
                                openipu::numbers(kernelTransform.dilation), outputType);
  }

private:
  void refuse(const InputTransform &side, bool kernel) const {
    for (unsigned i = 0; i < inputFieldShape.size(); ++i)
      if (side.truncationLower[i] || side.truncationUpper[i] || side.flip[i] || (!kernel && side.dilation[i] != 1) ||
          (kernel && (side.paddingLower[i] || side.paddingUpper[i])))
        throw poplar::poplar_error("ConvParams: truncation, flips, a dilated input and a padded kernel are not there. "
                                   "Slice, reverse or pad the tensor first.");
  }
};

} // namespace poplin

#endif
