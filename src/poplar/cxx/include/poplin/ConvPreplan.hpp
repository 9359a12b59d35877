// Plans are made when a program is planned, and kept then. Part of openipu, written independently.
#ifndef openipu_poplin_ConvPreplan_hpp
#define openipu_poplin_ConvPreplan_hpp

#include <poplin/Convolution.hpp>

#include <tuple>
#include <vector>

namespace poplin {

using ConvPlanParams = std::tuple<const poplar::Target *, const ConvParams, const poplar::OptionFlags *>;

struct MatMulParams {
  poplar::Type inputType, outputType;
  std::vector<std::size_t> aShape, bShape;
};
using MatMulPlanParams = std::tuple<const poplar::Target *, const MatMulParams, const poplar::OptionFlags *>;

template <typename Convs, typename MatMuls> void preplan(const Convs &, const MatMuls &, PlanningCache &) {}
template <typename MatMuls> void preplanMatMuls(const MatMuls &, PlanningCache &) {}
template <typename Convs> void preplanConvolutions(const Convs &, PlanningCache &) {}

} // namespace poplin

#endif
