// Kinds of non-linearities. Part of openipu, written independently.
#ifndef openipu_popnn_NonLinearityDef_hpp
#define openipu_popnn_NonLinearityDef_hpp

#include <openipu/library.hpp>

namespace popnn {

enum class NonLinearityType {
  SIGMOID, HARD_SIGMOID, RELU, TANH, GELU, GELU_ERF, SWISH, SOFTMAX, SOFTMAX_STABLE, SOFTMAX_SCALED
};

inline openipu::Named name(NonLinearityType type) {
  static const char *const names[] = {"SIGMOID",  "HARD_SIGMOID", "RELU",    "TANH",           "GELU",
                                      "GELU_ERF", "SWISH",        "SOFTMAX", "SOFTMAX_STABLE", "SOFTMAX_SCALED"};
  return openipu::Named(std::string("popnn.NonLinearityType.") + names[static_cast<int>(type)]);
}

} // namespace popnn

#endif
