// Sizes of a sparse layer. Part of openipu, written independently.
#ifndef openipu_popsparse_FullyConnectedParams_hpp
#define openipu_popsparse_FullyConnectedParams_hpp

#include <popsparse/SparsityParams.hpp>

#include <cmath>
#include <utility>
#include <vector>

namespace popsparse {
namespace dynamic {

// Batch size, groups (one), input channels, output channels.
class FullyConnectedParams {
public:
  static FullyConnectedParams createWithNzRatio(const SparsityParams &sparsity, double nzRatio, std::size_t batchSize,
                                                std::size_t numGroups, std::size_t inputChannels,
                                                std::size_t outputChannels) {
    return FullyConnectedParams(sparsity, nzRatio, {batchSize, numGroups, inputChannels, outputChannels});
  }
  static FullyConnectedParams createWithNumNonZeroValues(const SparsityParams &sparsity, std::size_t numNonZeroElems,
                                                         std::size_t batchSize, std::size_t numGroups,
                                                         std::size_t inputChannels, std::size_t outputChannels) {
    return FullyConnectedParams(
        sparsity, static_cast<double>(numNonZeroElems) / static_cast<double>((inputChannels * outputChannels)),
        {batchSize, numGroups, inputChannels, outputChannels});
  }
  const SparsityParams &getSparsityParams() const { return sparsity_; }
  double getNzRatio() const { return nzRatio_; }
  std::size_t getBatchSize() const { return numbers_[0]; }
  std::size_t getNumGroups() const { return numbers_[1]; }
  std::size_t getInputChannels() const { return numbers_[2]; }
  std::size_t getOutputChannels() const { return numbers_[3]; }
  std::size_t getInputChannelsPerGroup() const { return numbers_[2] / numbers_[1]; }
  std::size_t getOutputChannelsPerGroup() const { return numbers_[3] / numbers_[1]; }
  std::size_t getNumNonZeroValues() const {
    const double blocks = static_cast<double>((numbers_[2] * numbers_[3])) /
                          (sparsity_.blockDimensions[0] * sparsity_.blockDimensions[1]);
    return static_cast<std::size_t>(std::ceil(nzRatio_ * blocks - 1e-9)) * sparsity_.blockDimensions[0] *
           sparsity_.blockDimensions[1];
  }
  openipu::Named named() const {
    openipu::Named made =
        openipu::Named::make("popsparse.dynamic.FullyConnectedParams.createWithNzRatio", sparsity_.named(), nzRatio_);
    for (std::size_t number : numbers_)
      made.add(number);
    return made;
  }

private:
  FullyConnectedParams(const SparsityParams &sparsity, double nzRatio, std::vector<std::size_t> numbers)
      : sparsity_(sparsity), nzRatio_(nzRatio), numbers_(std::move(numbers)) {}
  SparsityParams sparsity_;
  double nzRatio_;
  std::vector<std::size_t> numbers_; // in the order of the arguments
};

} // namespace dynamic
} // namespace popsparse

#endif
