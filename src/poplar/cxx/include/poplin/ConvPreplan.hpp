// Plans are made when a program is planned, and kept then. Part of openipu, written independently.
#ifndef openipu_poplin_ConvPreplan_hpp
#define openipu_poplin_ConvPreplan_hpp

#include <poplin/Convolution.hpp>

namespace poplin {

template <typename Convs, typename MatMuls> void preplan(const Convs &, const MatMuls &, PlanningCache &) {}

} // namespace poplin

#endif
